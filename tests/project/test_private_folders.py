"""Nobody else on the machine can look into folders that are made here; those that exist keep their mode."""

from __future__ import annotations

import os
import socket
import stat
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from connectors.terminal.store import TerminalStore
from spark_jobs.observe.history.database import connect_to_write
from spark_jobs.run.known_sinks import KnownSink, KnownSinks
from spark_jobs.session.java import logging_options
from spark_jobs.session.locked_dirs import locked
from spark_jobs.session.settings import local_settings
from spark_jobs.session.stderr_log import StderrLog
from twophase.documents import LocalDocuments
from twophase.local_head import LocalHead
from wal.local import OsFiles
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


def sinks(folder: Path) -> None:
    KnownSinks(LocalDocuments(folder)).keep("incarnation", "s", KnownSink(1, frozenset({2}), None))


def spark(folder: Path) -> None:
    logging_options(folder, debug=False)


def terminal(folder: Path) -> None:
    assert TerminalStore(folder, 1, "stdout").apply("slot", "", "token", iter([]))


@pytest.mark.parametrize("make", [savepoint, head, log, sinks, spark, terminal, make_private])
def test_what_is_made_is_for_this_user_alone(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "checkpoints" / "orders")
    for path in (tmp_path / "checkpoints", tmp_path / "checkpoints" / "orders"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_files_below_a_folder_of_others_are_for_this_user_only(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    connect_to_write(tmp_path / "history.sqlite", 0.0).close()
    connect_to_write(tmp_path / "history.sqlite", 0.0).close()
    with StderrLog(tmp_path).inherited():
        pass
    for name in ("history.sqlite", "spark.stderr.log"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600, name


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files, whose path is as short as such a one's."""
    with TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setattr("tempfile.tempdir", folder)
        yield Path(folder)


def test_rows_of_shuffles_and_sockets_lie_where_nobody_else_may_look(temporary: Path) -> None:
    own = temporary / f"eos-{os.geteuid()}"
    sockets = {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": str(own)}
    assert local_settings("local[2]", {}) == {"spark.local.dir": str(own), **sockets}
    assert local_settings("local", {"SPARK_LOCAL_DIRS": "/x"}) == sockets
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    own.chmod(0o755)  # as somebody may have made it before
    other = local_settings("local[2]", {})["spark.local.dir"]
    assert other != str(own)
    assert stat.S_IMODE(Path(other).stat().st_mode) == 0o700
    assert local_settings("spark://host:7077", {}) == {}


def test_what_somebody_else_has_put_there_is_in_nobodys_way(temporary: Path) -> None:
    (temporary / f"eos-{os.geteuid()}").symlink_to(temporary / "nowhere")
    folder = Path(local_settings("local[2]", {})["spark.local.dir"])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not (temporary / "nowhere").exists()


def test_where_a_sockets_path_would_be_too_long_there_are_none(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits = temporary / ("x" * (60 - len(f"{temporary}//eos-{os.geteuid()}")))
    fits.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(fits))
    folder = local_settings("local", {})["spark.python.unix.domain.socket.dir"]
    assert len(folder) == 60
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(f"{folder}/.{uuid.uuid4()}.sock")
    (longer := Path(f"{fits}y")).mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(longer))
    assert list(local_settings("local", {})) == ["spark.local.dir"]


@pytest.mark.parametrize("make", [head, log, sinks, spark, make_private])
def test_what_exists_keeps_its_mode(tmp_path: Path, make: Callable[[Path], None]) -> None:
    folder = tmp_path / "orders"
    folder.mkdir(mode=0o750)
    make(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o750
