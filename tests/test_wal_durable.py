"""Files and folders that are synced at once."""

from __future__ import annotations

from pathlib import Path
from threading import Barrier

import pytest

from wal import durable
from wal.durable import sync_all


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
