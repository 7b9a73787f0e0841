"""Every head register under one suite, and under two processes that race for it."""

from __future__ import annotations

import fcntl
import io
import multiprocessing
import os
import resource
import shutil
import signal
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from connectors.sql.head import SqlHead
from eos.errors import HeadError
from tests.head_race import Place, assert_each_version_is_won_once, await_version, open_head, racing
from tests.head_store_suite import HeadStoreSuite
from twophase.head import HeadStore, Versioned
from twophase.local_blobs import write_all
from twophase.local_head import LocalHead
from wal.address import ObjectAddress

SWAPS = 40


@pytest.fixture(params=["files", "sqlite", "objects"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "files":
        return tmp_path / "checkpoint"
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'head.db'}"
    address: ObjectAddress = request.getfixturevalue("bucket").address("eos/orders")
    return address


@pytest.fixture
def again(place: Place) -> Callable[[], HeadStore]:
    return lambda: open_head(place)


class TestEveryHead(HeadStoreSuite):
    """See `HeadStoreSuite`."""


def test_a_power_cut_takes_back_no_swap_in_a_sqlite_file(tmp_path: Path) -> None:
    """EXTRA: with FULL the removal of SQLite's journal is not synced, and one that is back undoes the swap."""
    head = SqlHead(f"sqlite:///{tmp_path / 'head.db'}", "p")
    assert head.swap(None, b"one")
    with head._transaction("ask") as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == 3


def test_each_version_is_won_once_by_processes_that_race(place: Place) -> None:
    store = open_head(place)
    with racing(place) as racers:
        await_version(store, SWAPS)
    assert_each_version_is_won_once(store, racers)
    assert sum(bool(racer.won or racer.refused) for racer in racers) > 1


def partials(folder: Path) -> list[Path]:
    return list(folder.glob("*/.*.partial"))


def write_slowly(folder: Path, call: str, pipe: Any) -> None:
    """One process: stop before the file gets its name, until it is told to go on."""
    link = os.link

    def wait(*paths: Any) -> None:
        pipe.send("written")
        pipe.recv()
        link(*paths)

    os.link = wait  # type: ignore[assignment]
    store = LocalHead(folder)
    if call == "swap":
        pipe.send(("done", store.swap(None, b"late")))
    else:
        store.put_record("a.json", b"content")
        pipe.send(("done", True))


class TestFiles:
    """What is particular to head in files."""

    def test_what_a_power_cut_leaves_half_written_is_not_there(self, tmp_path: Path) -> None:
        store = LocalHead(tmp_path)
        assert store.swap(None, b"one")
        for name in (".0123456789abcdef.partial", "00000000000000000002.json.partial", "2.json", "x.json"):
            (tmp_path / "head" / name).write_bytes(b"{half")
        (tmp_path / "records" / ".0123456789abcdef.partial").write_bytes(b"{half")
        assert LocalHead(tmp_path).read() == Versioned(1, b"one")
        assert store.list_records() == []
        assert store.swap(Versioned(1, b"one"), b"two")
        assert store.read() == Versioned(2, b"two")

    def test_what_dead_drivers_were_writing_is_swept_with_the_claim(self, tmp_path: Path) -> None:
        LocalHead(tmp_path).swap(None, b"one")
        for folder in ("head", "records"):
            (tmp_path / folder / ".0123456789abcdef.partial").write_bytes(b"{half")
        store = LocalHead(tmp_path)
        store.read()
        assert not store.swap(None, b"refused")
        assert len(partials(tmp_path)) == 2, "who does not own head deletes nothing"
        assert store.swap(Versioned(1, b"one"), b"two")
        assert partials(tmp_path) == []

    @pytest.mark.parametrize("call", ["swap", "put_record"])
    def test_what_a_living_driver_is_writing_stays(self, tmp_path: Path, call: str) -> None:
        """Another process stands between writing and naming its file while this one claims."""
        context = multiprocessing.get_context("fork")
        mine, others = context.Pipe()
        writer = context.Process(target=write_slowly, args=(tmp_path, call, others), daemon=True)
        writer.start()
        assert mine.recv() == "written"
        store = LocalHead(tmp_path)
        assert store.swap(None, b"claim")
        assert len(partials(tmp_path)) == 1
        mine.send("go on")
        assert mine.recv() == ("done", call != "swap")
        writer.join(10)
        assert partials(tmp_path) == []
        assert store.read() == Versioned(1, b"claim")

    def test_what_a_driver_that_is_killed_was_writing_is_swept(self, tmp_path: Path) -> None:
        context = multiprocessing.get_context("fork")
        mine, others = context.Pipe()
        writer = context.Process(target=write_slowly, args=(tmp_path, "put_record", others), daemon=True)
        writer.start()
        assert mine.recv() == "written"
        writer.kill()
        writer.join(10)
        assert len(partials(tmp_path)) == 1
        assert LocalHead(tmp_path).swap(None, b"claim")
        assert partials(tmp_path) == []

    def test_a_file_that_is_swept_before_it_is_locked_is_made_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = LocalHead(tmp_path)
        lock = fcntl.flock
        swept: list[Path] = []

        def sweep_first(file: Any, how: int) -> None:
            if not swept:
                swept.extend(partials(tmp_path))
                swept[0].unlink()
            lock(file, how)

        monkeypatch.setattr(fcntl, "flock", sweep_first)
        assert store.swap(None, b"one")
        assert len(swept) == 1
        assert store.read() == Versioned(1, b"one")

    def test_a_refused_swap_leaves_no_file(self, tmp_path: Path) -> None:
        store = LocalHead(tmp_path)
        store.swap(None, b"one")
        store.swap(None, b"other")
        assert [path.name for path in (tmp_path / "head").iterdir()] == ["00000000000000000001.json"]

    def test_h29_a_folder_put_back_from_a_backup_does_not_take_the_swap_of_a_driver_that_lives(
        self, tmp_path: Path
    ) -> None:
        """Its version is there again, by other swaps; or not yet."""
        folder, backup = tmp_path / "head", tmp_path / "backup"
        store = LocalHead(folder)
        for _ in range(3):
            assert store.swap(store.read(), b"before")
        shutil.copytree(folder, backup)
        for _ in range(2):
            assert store.swap(store.read(), b"mine")
        held = store.read()
        assert held == Versioned(5, b"mine")
        shutil.rmtree(folder)
        shutil.copytree(backup, folder)
        assert not store.swap(held, b"late")
        assert store.read() == Versioned(3, b"before")
        for _ in range(2):
            assert LocalHead(folder).swap(store.read(), b"another's")
        assert not store.swap(held, b"late")
        assert store.read() == Versioned(5, b"another's")

    def test_old_versions_are_cleaned_away(self, tmp_path: Path) -> None:
        store = LocalHead(tmp_path)
        for _ in range(100):
            assert store.swap(store.read(), b"value")
        assert len(list((tmp_path / "head").iterdir())) < 30

    def test_a_folder_that_may_not_be_read_is_not_an_empty_head(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = LocalHead(tmp_path)
        store.swap(None, b"one")

        def refuse(_: Path) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(os, "scandir", refuse)
        with pytest.raises(HeadError, match="Permission denied"):
            store.read()

    def test_a_folder_that_has_gone_is_not_an_empty_head(self, tmp_path: Path) -> None:
        store = LocalHead(tmp_path / "c")
        store.swap(None, b"one")
        (tmp_path / "c").rename(tmp_path / "away")
        for call in (store.read, store.list_records, lambda: store.swap(None, b"one"), lambda: store.get_record("a")):
            with pytest.raises(HeadError):
                call()

    def test_a_place_that_is_no_folder_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"")
        with pytest.raises(HeadError, match="cannot be used") as caught:
            LocalHead(tmp_path / "file")
        assert caught.value.remedy

    def test_a_name_that_was_not_synced_is_no_success(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        store = LocalHead(tmp_path)
        sync = os.fsync

        def fail_for_folders(descriptor: int) -> None:
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                raise OSError(5, "Input/output error")
            sync(descriptor)

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fail_for_folders)
            with pytest.raises(HeadError, match="Input/output error"):
                store.swap(None, b"one")
            with pytest.raises(HeadError):
                store.put_record("a.json", b"content")
            with pytest.raises(HeadError):
                store.put_record("a.json", b"content")
        store.put_record("a.json", b"content")
        assert not store.swap(None, b"one")

    def test_a_full_disk_is_an_error_that_says_so(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        store = LocalHead(tmp_path)

        def full(_: int) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(HeadError, match="No space left on device"):
                store.swap(None, b"one")
        assert store.read() is None
        assert list((tmp_path / "head").iterdir()) == []


def test_a_full_disk_is_an_error_of_head(tmp_path: Path) -> None:
    """And not of the operating system, which no restart strategy knows."""
    store = LocalHead(tmp_path)
    assert store.swap(None, b"one")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with pytest.raises(HeadError, match="cannot write"):
            store.swap(Versioned(1, b"one"), b"two")
        with pytest.raises(HeadError, match="cannot write"):
            store.put_record("r", b"content")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert store.read() == Versioned(1, b"one")
    assert store.swap(Versioned(1, b"one"), b"two")


def test_a_disk_that_takes_a_part_of_a_file_has_not_written_it() -> None:
    """It says so only the next time; a record cut off there would be synced and named."""

    class Full(io.BytesIO):
        def write(self, content: Any, /) -> int:
            return super().write(content[: len(content) // 2])

    with pytest.raises(OSError, match="No space left on device"):
        write_all(Full(), b"content")


def test_a_version_that_is_cleaned_away_during_a_read_is_no_empty_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another driver swaps so often between the listing and the read."""
    store, seen = LocalHead(tmp_path), None
    for number in range(20):
        assert store.swap(seen, str(number).encode())
        seen = store.read()
    versions, listed = LocalHead._versions, [[1]]
    monkeypatch.setattr(LocalHead, "_versions", lambda self: listed.pop() if listed else versions(self))
    assert store.read() == seen == Versioned(20, b"19")
    assert listed == []
