"""Nobody else on the machine can look into folders that are made here; those that exist keep their mode."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spark_jobs.held_folders import locked
from spark_jobs.java import logging_options
from spark_jobs.local_dir import local_dir
from twophase.local_head import LocalHead
from wal.files import OsFiles
from wal.private import make_private


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def savepoint(folder: Path) -> None:
    with locked(folder):
        pass


def head(folder: Path) -> None:
    LocalHead(folder).close()


def log(folder: Path) -> None:
    OsFiles().make_folder(folder)


def spark(folder: Path) -> None:
    logging_options(folder, debug=False)


@pytest.mark.parametrize("make", [savepoint, head, log, spark, make_private])
def test_what_is_made_is_for_this_user_alone(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "checkpoints" / "orders")
    for path in (tmp_path / "checkpoints", tmp_path / "checkpoints" / "orders"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_rows_of_shuffles_lie_where_nobody_else_may_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    own = tmp_path / f"eos-{os.geteuid()}"
    assert local_dir("local[2]", {}) == {"spark.local.dir": str(own)}
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    own.chmod(0o755)  # as somebody may have made it before
    (other,) = local_dir("local[2]", {}).values()
    assert other != str(own)
    assert stat.S_IMODE(Path(other).stat().st_mode) == 0o700
    assert local_dir("spark://host:7077", {}) == local_dir("local", {"SPARK_LOCAL_DIRS": "/x"}) == {}


@pytest.mark.parametrize("make", [head, log, spark, make_private])
def test_what_exists_keeps_its_mode(tmp_path: Path, make: Callable[[Path], None]) -> None:
    folder = tmp_path / "orders"
    folder.mkdir(mode=0o750)
    make(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o750
