"""Folders that are being filled: no sweep takes one from a writer that lives."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import TextIO

import pytest

from spark_jobs.session.locked_dirs import LOCK, locked, sweep


def test_a_sweep_between_the_lock_file_and_its_lock_leaves_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, lock, swept = tmp_path / "filled", fcntl.flock, list[Path]()

    def after_a_sweep(file: TextIO, how: int) -> None:
        if how == fcntl.LOCK_EX:
            swept.append(folder)
            sweep(swept)
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", after_a_sweep)
    with locked(folder):
        sweep([folder])
        assert (folder / LOCK).exists()
    assert swept == [folder]
    sweep([folder])
    assert not folder.exists(), "its writer has ended"
