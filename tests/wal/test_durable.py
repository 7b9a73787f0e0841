"""Files and folders that are synced at once, and the paths to them."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Barrier

import pytest

from wal import durable
from wal.durable import sync_all, sync_ancestors


def test_several_are_synced_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meeting, synced = Barrier(3, timeout=10), list[str]()

    def sync(path: Path) -> None:
        meeting.wait()
        synced.append(path.name)

    monkeypatch.setattr(durable, "sync", sync)
    sync_all([tmp_path / name for name in "abc"])
    assert sorted(synced) == ["a", "b", "c"]


def test_who_cannot_be_synced_is_told(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("x")
    sync_all([tmp_path / "there", tmp_path])
    with pytest.raises(FileNotFoundError):
        sync_all([tmp_path / "there", tmp_path / "gone", tmp_path])
    sync_all([])


def test_a_path_is_synced_up_to_its_mount_point(monkeypatch: pytest.MonkeyPatch) -> None:
    synced = list[Path]()
    monkeypatch.setattr(durable, "sync_folder", synced.append)
    with TemporaryDirectory(dir="/dev/shm") as name:  # a mount on every Linux
        folder = Path(name) / "data" / "orders"
        folder.mkdir(parents=True)
        sync_ancestors(folder)
    assert synced == [folder.parent, Path(name), Path("/dev/shm")]


def test_a_path_through_a_link_is_the_one_that_it_leads_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "far" / "orders").mkdir(parents=True)
    (tmp_path / "near").symlink_to(tmp_path / "far")
    synced = list[Path]()
    monkeypatch.setattr(durable, "sync_folder", synced.append)
    sync_ancestors(tmp_path / "near" / "orders")
    assert synced[:2] == [tmp_path / "far", tmp_path]


@pytest.mark.parametrize("may_write", [True, False])
def test_a_folder_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, may_write: bool) -> None:
    """If this user can create names in it, one of them could be new."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    synced = list[Path]()

    def sync_folder(path: Path) -> None:
        if path == tmp_path:
            raise PermissionError(13, "Permission denied", str(path))
        synced.append(path)

    monkeypatch.setattr(durable, "sync_folder", sync_folder)
    monkeypatch.setattr(os, "access", lambda _path, _mode: may_write)
    if may_write:
        with pytest.raises(PermissionError):
            sync_ancestors(tmp_path / "a" / "b")
        assert synced == [tmp_path / "a"]
    else:
        sync_ancestors(tmp_path / "a" / "b")
        assert {tmp_path / "a", tmp_path.parent} <= set(synced)
