"""The state of Spark's folder in a storage: sent once, restored whole, and deleted only where no start needs it."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from eos.errors import HeadFormatError, IdentityError
from spark_jobs.query import kept_state
from spark_jobs.query.kept_state import StateStore
from spark_jobs.query.state_files import needed
from spark_jobs.query.state_manifest import KeptState, Located, choices, decode, encode, unneeded
from tests import savepoint_files as files
from wal.errors import StorageError
from wal.local import LocalStorage

NEWEST = files.NEWEST


@pytest.fixture(autouse=True)
def _packs_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each checkpoint of these files has another state, so that its packs would be written again soon."""
    monkeypatch.setattr(kept_state, "_SPARSE", 1000)


@pytest.fixture
def spark(tmp_path: Path) -> Path:
    return files.run_until(tmp_path / "state")


@pytest.fixture
def open_store(tmp_path: Path) -> Callable[[int], StateStore]:
    return lambda epoch: StateStore(LocalStorage(tmp_path / "store"), files.INCARNATION, epoch)


def _names(store: StateStore) -> list[str]:
    return [name.partition("/")[2] for name in store.storage.names(store.incarnation)]


def _content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _of(spark: Path, checkpoint_id: int) -> dict[str, bytes]:
    return {path: (spark / path).read_bytes() for path in needed(spark, checkpoint_id)}


Open = Callable[[int], StateStore]


def test_another_machine_gets_the_state_to_the_byte(spark: Path, open_store: Open, tmp_path: Path) -> None:
    sent = open_store(1).keep(spark, NEWEST)
    kept = open_store(2).restore(tmp_path / "other", NEWEST)
    assert kept is not None
    assert kept.checkpoint_id == NEWEST
    found, expected = _content(tmp_path / "other"), _of(spark, NEWEST)
    operator = "state/0/_metadata/metadata"  # written anew, since it names the folder
    assert json.loads(found.pop(operator).partition(b"\n")[2]) == json.loads(expected.pop(operator).partition(b"\n")[2])
    assert found == expected
    assert kept.bytes == sent > sum(map(len, found.values()))


def test_a_file_is_sent_once(spark: Path, open_store: Open) -> None:
    store = open_store(1)
    first, second = store.keep(spark, NEWEST - 1), store.keep(spark, NEWEST)
    new = needed(spark, NEWEST)
    old = needed(spark, NEWEST - 1)
    assert second == sum((spark / path).stat().st_size for path in new if path not in old)
    assert 0 < second < first


def test_the_state_before_is_taken_where_the_newest_one_was_not_kept(
    spark: Path, open_store: Open, tmp_path: Path
) -> None:
    open_store(1).keep(spark, NEWEST - 1)
    kept = open_store(2).restore(tmp_path / "other", NEWEST)
    assert kept is not None
    assert kept.checkpoint_id == NEWEST - 1
    assert not (tmp_path / "other" / "commits" / str(NEWEST)).exists()


@pytest.mark.parametrize("completed", [-1, 0])
def test_before_the_first_checkpoint_there_is_none(open_store: Open, tmp_path: Path, completed: int) -> None:
    assert open_store(1).restore(tmp_path / "other", completed) is None


@pytest.mark.parametrize("behind", [-2, 2])
def test_head_that_was_set_back_or_objects_that_were_are_refused(
    spark: Path, open_store: Open, tmp_path: Path, behind: int
) -> None:
    open_store(1).keep(spark, NEWEST)
    with pytest.raises(
        IdentityError, match=f"the state after checkpoint {NEWEST + behind - 1} is not at .*: nothing is"
    ):
        open_store(2).restore(tmp_path / "other", NEWEST + behind)


@pytest.mark.parametrize("harm", ["delete", "cut", "alter"])
def test_a_pack_that_is_not_whole(
    spark: Path, open_store: Open, tmp_path: Path, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The state before is whole, and says as much; without it the start is refused."""
    store = open_store(1)
    store.keep(spark, NEWEST - 1)
    before = set(_names(store))
    store.keep(spark, NEWEST)
    (pack,) = (name for name in set(_names(store)) - before if name.endswith(".files"))
    path = tmp_path / "store" / files.INCARNATION / pack
    content = path.read_bytes()
    path.unlink()
    if harm != "delete":
        path.write_bytes(content[:-1] if harm == "cut" else content[:-1] + bytes([content[-1] ^ 1]))
    with caplog.at_level(logging.WARNING, "eos.state"):
        kept = open_store(2).restore(tmp_path / "other", NEWEST)
    assert kept is not None
    assert kept.checkpoint_id == NEWEST - 1
    assert f"state after checkpoint {NEWEST} is not whole" in caplog.text
    shutil.rmtree(tmp_path / "other")
    for name in before:
        (tmp_path / "store" / files.INCARNATION / name).unlink(missing_ok=True)
    with pytest.raises(IdentityError, match="is not at"):
        open_store(2).restore(tmp_path / "other", NEWEST)


def test_objects_of_states_before_the_last_two_are_deleted(spark: Path, open_store: Open, tmp_path: Path) -> None:
    store = open_store(1)
    for number in range(NEWEST + 1):
        store.keep(spark, number)
        manifests = [name for name in _names(store) if name.endswith(".state")]
        assert manifests == [f"{n:012d}.00000001.state" for n in (number - 1, number) if n >= 0]
    assert open_store(2).restore(tmp_path / "other", NEWEST) is not None
    shutil.rmtree(tmp_path / "other")
    assert open_store(2).restore(tmp_path / "other", NEWEST + 1) is not None


def test_unfinished_objects_of_killed_drivers_are_swept_and_a_newer_drivers_are_not(
    spark: Path, open_store: Open
) -> None:
    store = open_store(2)
    started = [f"{epoch:08d}.{1:016x}.files" for epoch in (1, 3)]
    for name in started:
        store.storage.create(f"{store.incarnation}/{name}").write(b"half")
    store.keep(spark, NEWEST - 1)
    assert store.storage.unfinished(store.incarnation) == [f"{store.incarnation}/{started[1]}"]


def test_a_pack_of_which_little_is_needed_is_written_again(
    spark: Path, open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that stay would keep all that once was in their pack."""
    store = open_store(1)
    store.keep(spark, 0)
    (first,) = (name for name in _names(store) if name.endswith(".files"))
    monkeypatch.setattr(kept_state, "_SPARSE", 1)
    store.keep(spark, 1)
    store.keep(spark, 2)
    assert first not in _names(store)


def test_the_next_driver_goes_on_with_the_packs_that_are_there(spark: Path, open_store: Open, tmp_path: Path) -> None:
    open_store(1).keep(spark, NEWEST - 1)
    second = open_store(2)
    second.restore(tmp_path / "other", NEWEST)
    for path in needed(spark, NEWEST):
        if not (tmp_path / "other" / path).exists():
            (tmp_path / "other" / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(spark / path, tmp_path / "other" / path)
    sent = second.keep(tmp_path / "other", NEWEST)
    assert 0 < sent < sum(map(len, _of(spark, NEWEST).values()))
    shutil.rmtree(tmp_path / "other")
    kept = open_store(3).restore(tmp_path / "other", NEWEST)
    assert kept is not None
    assert kept.checkpoint_id == NEWEST


def test_a_restart_in_the_same_folder_sends_nothing_twice(spark: Path, open_store: Open) -> None:
    """A file that was changed since is another one."""
    open_store(1).keep(spark, NEWEST - 1)
    (spark / "state" / "0" / "_metadata" / "metadata").write_text('v1\n{"operatorInfo":{"operatorId":0,"x":1}}')
    again = open_store(2)
    kept = again.adopt(spark, NEWEST)
    assert kept is not None
    assert kept.checkpoint_id == NEWEST - 1
    sent = again.keep(spark, NEWEST)
    new = {*needed(spark, NEWEST)} - {*needed(spark, NEWEST - 1)} | {"state/0/_metadata/metadata"}
    assert sent == sum((spark / path).stat().st_size for path in new)


def test_a_state_of_another_driver_is_kept(spark: Path, open_store: Open, tmp_path: Path) -> None:
    """Both have kept the state after the newest checkpoint. A third one may have begun with either."""
    open_store(1).keep(spark, NEWEST)
    open_store(2).keep(spark, NEWEST)
    for name in _names(open_store(3)):
        if name.endswith(".00000002.state"):
            (tmp_path / "store" / files.INCARNATION / name).unlink()
    kept = open_store(3).restore(tmp_path / "other", NEWEST)
    assert kept is not None
    assert len(_content(tmp_path / "other")) == len(needed(spark, NEWEST))


def test_an_answer_that_was_lost_is_no_failure(spark: Path, open_store: Open) -> None:
    """The manifest is there: another driver's object, which has other versions of the state, is an error."""
    one = open_store(1)
    one.keep(spark, NEWEST)
    again = open_store(1)
    again.adopt(spark, NEWEST)
    again.keep(spark, NEWEST)
    (spark / "commits" / str(NEWEST)).write_text((spark / "commits" / str(NEWEST)).read_text() + " ")
    with pytest.raises(StorageError, match="exists"):
        open_store(1).keep(spark, NEWEST)


class _Refusing(LocalStorage):
    def delete(self, name: str) -> None:
        raise StorageError(f"cannot delete {name}")


def test_what_cannot_be_deleted_stays_and_is_said(
    spark: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = StateStore(_Refusing(tmp_path / "store"), files.INCARNATION, 1)
    for number in range(3):
        store.keep(spark, number)
    assert "objects of older states stay: cannot delete" in caplog.text
    store.storage = LocalStorage(tmp_path / "store")
    store.keep(spark, 3)
    assert len([name for name in _names(store) if name.endswith(".state")]) == 2


def test_files_that_spark_has_deleted(spark: Path, open_store: Open) -> None:
    (spark / "state" / "0" / "0" / "SSTs" / f"{NEWEST + 1}.sst").unlink()
    with pytest.raises(FileNotFoundError):
        open_store(1).keep(spark, NEWEST)
    assert [name for name in _names(open_store(1)) if name.endswith(".state")] == []


def test_choices_are_the_newest_state_by_the_newest_driver_first() -> None:
    names = [f"{number:012d}.{epoch:08d}.state" for number in (3, 4, 5, 6) for epoch in (2, 10)]
    found = choices([*names, "00000010.0123456789abcdef.files", "else"], 5)
    assert found == [f"{number:012d}.{epoch:08d}.state" for number in (5, 4) for epoch in (10, 2)]


def test_objects_of_newer_drivers_and_strangers_are_never_deleted() -> None:
    kept = "000000000005.00000002.state"
    pack = "00000001.{:016x}.files".format
    names = [kept, "000000000004.00000001.state", "000000000006.00000003.state", "notes.txt", pack(1), pack(2)]
    names += ["00000003.0000000000000003.files"]
    assert unneeded(names, {kept: [pack(1)]}, 2) == ["000000000004.00000001.state", pack(2)]


KEPT = KeptState(7, {"commits/7": Located("p", 0, 3, "ab"), "state/0/1/8_x.zip": Located("p", 3, 5, "cd")}, {"p": 8})


def test_a_manifest_is_read_as_it_was_written() -> None:
    assert decode(encode(KEPT), "here") == KEPT
    assert KEPT.bytes == 8


@pytest.mark.parametrize("cut", [0, 1, 20, -1])
def test_a_manifest_that_is_cut_is_damaged(cut: int) -> None:
    with pytest.raises(HeadFormatError, match="here is damaged"):
        decode(encode(KEPT)[:cut], "here")


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "state/../../x"])
def test_a_manifest_cannot_write_outside_of_the_folder(path: str) -> None:
    evil = KeptState(7, {path: Located("p", 0, 3, "ab")}, {"p": 3})
    with pytest.raises(HeadFormatError, match="here is damaged"):
        decode(encode(evil), "here")


@pytest.mark.parametrize("at", [Located("p", -1, 3, "ab"), Located("p", 0, -3, "ab")])
def test_a_manifest_has_no_negative_sizes(at: Located) -> None:
    with pytest.raises(HeadFormatError, match="here is damaged"):
        decode(encode(KeptState(7, {"commits/7": at}, {"p": 3})), "here")


def test_a_manifest_of_many_levels_is_damaged() -> None:
    with pytest.raises(HeadFormatError, match="here is damaged"):
        decode(b"[" * 1_000_000, "here")


class _Counting(LocalStorage):
    opened = 0

    def open(self, name: str) -> BinaryIO:
        self.opened += name.endswith(".files")
        return super().open(name)


def test_large_states_are_many_packs_and_each_is_read_once(
    spark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_state, "_PACK_BYTES", 100)
    storage = _Counting(tmp_path / "store")
    StateStore(storage, files.INCARNATION, 1).keep(spark, NEWEST)
    packs = [name for name in storage.names(files.INCARNATION) if name.endswith(".files")]
    assert len(packs) > 3
    kept = StateStore(storage, files.INCARNATION, 2).restore(tmp_path / "other", NEWEST)
    assert kept is not None
    assert storage.opened == len(packs) == len(kept.packs)
    assert len(_content(tmp_path / "other")) == len(needed(spark, NEWEST))


def test_state_that_the_commits_log_does_not_name_is_refused(spark: Path, open_store: Open) -> None:
    """Spark's other format: nothing of it would be kept, and nothing would say so."""
    (spark / "commits" / str(NEWEST)).write_text('v1\n{"nextBatchWatermarkMs":1000}')
    with pytest.raises(IdentityError, match="does not name the versions"):
        open_store(1).keep(spark, NEWEST)


def test_a_state_that_is_not_decided_deletes_nothing(spark: Path, open_store: Open) -> None:
    """Its driver may be fenced: a newer one may read the state that is too old for this one (H41)."""
    store = open_store(1)
    for number in (NEWEST - 2, NEWEST - 1):
        store.keep(spark, number)
    before = set(_names(store))
    store.keep(spark, NEWEST, is_decided=False)
    assert before < set(_names(store))
    store.keep(spark, NEWEST)
    assert not before <= set(_names(store))


def test_a_checkpoint_that_spark_cannot_repeat_is_not_begun_before(
    spark: Path, open_store: Open, tmp_path: Path
) -> None:
    open_store(1).keep(spark, NEWEST - 1)
    with pytest.raises(IdentityError, match=f"the state after checkpoint {NEWEST} is not at .*: nothing is there"):
        open_store(2).restore(tmp_path / "other", NEWEST, oldest=NEWEST)
    assert list(tmp_path.glob("other/**/*")) == []
    with pytest.raises(IdentityError, match="the state after checkpoint 0 is not at"):
        open_store(2).restore(tmp_path / "other", 0, oldest=0)
