"""Nothing that is wrong with the history holds up or ends a pipeline, and nothing of it is silent."""

from __future__ import annotations

import logging
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from spark_jobs.observe.history.filing import WriterThread
from spark_jobs.observe.history.retention import Retention
from spark_jobs.observe.history.store import History
from spark_jobs.observe.history.summary import missing
from tests.history_values import RUN, whole

ROOT = Path(__file__).parents[3]
FOREVER = Retention(age_s=1e9)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints" / "history.sqlite"


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


def test_everything_is_there_once_it_is_closed(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    filing = WriterThread(path, FOREVER)
    filing.add(RUN)
    for number in range(50):
        filing.add(*whole(number))
    filing.close()
    assert [each.checkpoint_id for each in History(path).checkpoints(100)] == list(range(49, -1, -1))
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert warnings(caplog) == []


def test_a_full_disk_is_told_once_and_leaves_a_gap_that_is_seen(path: Path) -> None:
    """By the limit that the system sets to the size of files: the log of SQLite cannot grow any more."""
    command = [sys.executable, "-m", "tests.history_full_disk", str(path), "800"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    said = done.stderr.splitlines()
    assert len(said) == 2, done.stderr
    assert f"WARNING the history {path} cannot be used: " in said[0]
    assert "(free space at the checkpoint location). The pipeline goes on" in said[0]
    assert said[1] == f"INFO the history {path} is written again"
    history, told = History(path), int(done.stdout)
    found = history.checkpoints(told)
    (gap,) = history.events(kinds=["gap"])
    ((_, first, last),) = missing(found)
    assert gap.facts["checkpoints"] == told - len(found) == last - first + 1 > 100
    assert found[0].checkpoint_id == told - 1
    assert found[-1].checkpoint_id == 0
    assert history.totals().checkpoints == len(found)


def test_a_file_that_is_not_ours_is_left_alone_and_one_is_begun_when_it_is_gone(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE t (a)")
    before = path.read_bytes()
    filing = WriterThread(path, FOREVER, again_s=0.05)
    filing.add(RUN, *whole(0))
    wait_until(lambda: bool(warnings(caplog)), "it is told")
    time.sleep(0.2)
    assert path.read_bytes() == before
    path.unlink()
    filing.add(*whole(1))
    wait_until(lambda: len(History(path).checkpoints()) == 2, "it goes on, and has lost nothing")
    filing.close()
    (said,) = warnings(caplog)
    assert "is a database, and not a history of a pipeline (move it away" in said


def test_a_history_that_is_taken_away_is_begun_anew(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What is written to a file without a name nobody would read."""
    filing = WriterThread(path, FOREVER, again_s=0.05)
    filing.add(RUN, *whole(0))
    wait_until(lambda: len(History(path).checkpoints()) == 1, "it is written")
    for each in path.parent.iterdir():
        each.unlink()
    filing.add(*whole(1))
    wait_until(lambda: [c.checkpoint_id for c in History(path).checkpoints()] == [1], "another one is begun")
    filing.close()
    assert [f"the history {path} was taken away" in each for each in warnings(caplog)] == [True]


def test_a_folder_that_cannot_be_made_is_told_at_the_end_as_well(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.parent.write_text("a file is where the folder should be")
    filing = WriterThread(path, FOREVER)
    filing.add(RUN)
    filing.close()
    first, last = warnings(caplog)
    assert "The pipeline goes on" in first
    assert last == f"what was told last is not in the history {path}, which could not be written"
