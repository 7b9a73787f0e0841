"""Checkpoints go on while sinks still commit those before: `max_backlog`."""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy

from integration_tests.harness.jobs import EXAMPLES, FILES, ROWS, Jobs, write_files
from integration_tests.harness.link import Link
from integration_tests.harness.oracle import SinkTable, compare
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, TABLE, Pipeline
from integration_tests.harness.pipeline_process import PROJECT, PipelineProcess
from integration_tests.harness.stores import below, put_location
from integration_tests.harness.targets import BUCKET, FOLDER, PLACES
from integration_tests.harness.workload import Row
from tests.object_store import Bucket
from wal.testing import files_in

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_WAIT_S = 120.0
_BEHIND = 3
_STOPPING = PROJECT / "integration_tests" / "jobs" / "stopping.py"


class _Archived:
    """The pipeline's own table, by two-phase commit, and a file with the same rows, by a log."""

    def __init__(self, pipeline: Pipeline, file: Path) -> None:
        self.pipeline = pipeline
        self.file = file
        with closing(sqlite3.connect(file)) as archive:
            archive.execute(f"CREATE TABLE {TABLE} (id INTEGER, word TEXT, payload TEXT)")
        self.entry = {"name": "archive", "connector": "sqlite", "from": "rows", "path": str(file), "table": TABLE}
        self.entry["commit"] = "write-ahead-log"
        pipeline.spec["sinks"].append(self.entry)

    def archived(self) -> Counter[Row]:
        with closing(sqlite3.connect(self.file)) as archive:
            return Counter(archive.execute(f"SELECT id, word, payload FROM {TABLE}").fetchall())

    def assert_exact(self, at_least: int) -> None:
        self.pipeline.assert_exact(at_least)
        verdict = compare(self.pipeline.workload.expected, self.archived())
        assert verdict.exact, str(verdict)
        assert self.pipeline.head.committed == self.pipeline.head.completed
        assert files_in(self.pipeline.location / "log") == []


@pytest.fixture
def both(pipeline: Pipeline, tmp_path: Path) -> _Archived:
    return _Archived(pipeline, tmp_path / "archive.db")


@pytest.mark.timeout(600)
def test_a_sink_that_is_away_is_waited_for_when_its_backlog_is_full(both: _Archived) -> None:
    """The other sink's rows are visible meanwhile; killed there, the next start commits what was decided, in order."""
    pipeline = both.pipeline
    both.entry["max_backlog"] = {"checkpoints": _BEHIND, "bytes": "1GiB"}  # type: ignore[assignment]
    pipeline.workload.produce(8 * CHECKPOINT_RECORDS)
    process = pipeline.start(arm=["before-decide@0"])
    process.await_point("before-decide@0")
    with closing(sqlite3.connect(both.file, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        process.release("before-decide@0")
        # So many wait for the archive, and one more is decided before the pipeline waits.
        _await_rows(process, pipeline, (_BEHIND + 1) * CHECKPOINT_RECORDS)
        _await_text(process, "waiting for sink archive: 4 checkpoints")
        assert (pipeline.head.completed, pipeline.head.committed) == (_BEHIND, -1)
        assert f"checkpoint={_BEHIND - 1} state=decided waiting={_BEHIND} " in process.output()
        assert "state=committed" not in process.output()
        assert pipeline.table.count() == (_BEHIND + 1) * CHECKPOINT_RECORDS
        process.kill()
        holder.execute("COMMIT")
    assert both.archived().total() == 0
    process = pipeline.start(arm=["before-decide@5"])
    process.await_point("before-decide@5")
    with closing(sqlite3.connect(both.file, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        process.release("before-decide@5")
        _await_rows(process, pipeline, 7 * CHECKPOINT_RECORDS)
        (archived,) = holder.execute(f"SELECT COUNT(*) FROM {TABLE}").fetchone()
        assert archived <= 5 * CHECKPOINT_RECORDS
        holder.execute("COMMIT")
    process.succeed()
    both.assert_exact(at_least=8 * CHECKPOINT_RECORDS)


@pytest.mark.timeout(900)
def test_the_next_checkpoint_is_written_while_sinks_commit_and_all_is_killed(both: _Archived) -> None:
    pipeline = both.pipeline
    for sink in pipeline.spec["sinks"]:
        sink["max_backlog"] = {"checkpoints": 1}
    pipeline.workload.produce(8 * CHECKPOINT_RECORDS)
    process = pipeline.start(arm=["between-commits@1", "prepared@2"])
    process.await_point("between-commits@1")
    process.await_point("prepared@2")  # with what the sinks hold locked for checkpoint 1
    assert (pipeline.head.completed, pipeline.head.committed) == (1, 0)
    process.kill()
    for stems in (("after-commits@2", "before-decide@3"), ("between-commits@4", "after-decide@5"), ("closed@6",)):
        process = pipeline.start(arm=stems)
        for stem in stems:
            process.await_point(stem)
        process.kill()
        assert compare(pipeline.workload.expected, pipeline.table.rows()).clean
    pipeline.catch_up()
    both.assert_exact(at_least=8 * CHECKPOINT_RECORDS)


def _await_rows(process: PipelineProcess, pipeline: Pipeline, count: int) -> None:
    _await(process, lambda: pipeline.table.count() >= count)


def _await_text(process: PipelineProcess, text: str) -> None:
    _await(process, lambda: text in process.output())


class _FarArchive:
    """The pipeline's own table, and one with the same rows, by a log and over a link that can be cut."""

    def __init__(self, pipeline: Pipeline, link: Link) -> None:
        self.pipeline = pipeline
        self.link = link
        self.archive = SinkTable(pipeline.table.url, "archive")
        self.archive.execute("DROP TABLE IF EXISTS archive")
        self.archive.execute("CREATE TABLE archive LIKE records")
        url = sqlalchemy.make_url(pipeline.table.url).set(host="127.0.0.1", port=link.port)
        pipeline.environment["ARCHIVE_URL"] = url.render_as_string(hide_password=False)
        entry = {"name": "archive", "connector": "mysql", "from": "rows", "url": "${env:ARCHIVE_URL}"}
        backlog = {"checkpoints": _BEHIND, "bytes": "1GiB"}
        pipeline.spec["sinks"].append(
            {**entry, "table": "archive", "commit": "write-ahead-log", "max_backlog": backlog}
        )

    def await_committed(self, process: PipelineProcess, checkpoint_id: int) -> None:
        _await(process, lambda: self.pipeline.head.committed == checkpoint_id)

    def assert_waits(self, process: PipelineProcess, *, completed: int, committed: int) -> None:
        """So many checkpoints wait for the archive, and no further one is decided."""
        _await_text(process, f"waiting for sink archive: {completed - committed} checkpoints")
        head = self.pipeline.head
        assert (head.completed, head.committed) == (completed, committed)
        assert self.pipeline.table.count() == (completed + 1) * CHECKPOINT_RECORDS
        assert self.archive.count() == (committed + 1) * CHECKPOINT_RECORDS

    def assert_exact(self, at_least: int) -> None:
        self.pipeline.assert_exact(at_least)
        verdict = compare(self.pipeline.workload.expected, self.archive.rows())
        assert verdict.exact, str(verdict)
        assert verdict.in_sink >= at_least
        assert self.pipeline.head.committed == self.pipeline.head.completed
        assert files_in(self.pipeline.location / "log") == []


@pytest.fixture
def far(pipeline: Pipeline) -> Iterator[_FarArchive]:
    url = sqlalchemy.make_url(pipeline.table.url)
    assert url.host is not None
    with Link(url.host, url.port or 3306) as link:
        made = _FarArchive(pipeline, link)
        try:
            yield made
        finally:
            pipeline.close()
            made.archive.execute("DROP TABLE archive")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("place", PLACES)
def test_a_pipeline_is_killed_and_started_again_while_a_sink_is_away(
    far: _FarArchive, bucket: Bucket, place: str
) -> None:
    """H32: two starts go on without the sink, within its bound; a third one is killed while the sink joins it."""
    pipeline = far.pipeline
    if place == BUCKET:
        put_location(pipeline, bucket)  # all starts are on one machine: on another one the sink must be there
    pipeline.workload.produce(9 * CHECKPOINT_RECORDS)
    process = pipeline.start(arm=["before-decide@2"])
    process.await_point("before-decide@2")
    far.await_committed(process, 1)
    far.link.cut()
    process.kill()
    for _ in range(2):  # the second one finds as much waiting as may, and one more: what waited before counts
        process = pipeline.start()
        _await_text(process, "sink archive is away: the start has gone on without it, its rows wait in its log.")
        far.assert_waits(process, completed=1 + _BEHIND + 1, committed=1)
        process.kill()
    assert far.link.disturbed > 0
    process = pipeline.start(arm=["applying@4"])
    _await_text(process, f"{_BEHIND + 1} checkpoints wait there")
    far.link.restore()
    process.await_point("applying@4")
    assert far.archive.count() >= 4 * CHECKPOINT_RECORDS
    process.kill()
    assert compare(pipeline.workload.expected, far.archive.rows()).clean
    pipeline.catch_up()
    far.assert_exact(at_least=9 * CHECKPOINT_RECORDS)
    assert below(bucket, "log") == []
    assert pipeline.location.exists() == (place == FOLDER)


@pytest.mark.timeout(600)
def test_a_sink_that_was_away_at_the_start_joins_a_running_pipeline(far: _FarArchive) -> None:
    pipeline = far.pipeline
    pipeline.workload.produce(2 * CHECKPOINT_RECORDS)
    pipeline.catch_up()
    far.assert_exact(at_least=2 * CHECKPOINT_RECORDS)
    completed = pipeline.head.completed
    far.link.cut()
    pipeline.workload.produce(2 * CHECKPOINT_RECORDS)
    process = pipeline.start()
    _await_text(process, "sink archive is away: the start has gone on without it")
    _await_rows(process, pipeline, 4 * CHECKPOINT_RECORDS)
    assert pipeline.head.committed == completed
    assert far.archive.count() == 2 * CHECKPOINT_RECORDS
    status = pipeline.command("status")
    status.succeed()
    assert "sink archive is away" in " ".join(status.output().split())
    far.link.restore()
    process.succeed()
    assert "sink archive is back: it is claimed, and commits what waited for it" in process.output()
    far.assert_exact(at_least=4 * CHECKPOINT_RECORDS)
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    pipeline.catch_up()
    far.assert_exact(at_least=5 * CHECKPOINT_RECORDS)


def _await(process: PipelineProcess, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not condition():
        assert time.monotonic() < deadline, process.output()[-2000:]
        time.sleep(0.1)


@pytest.mark.timeout(600)
def test_a_job_of_ones_own_is_stopped_while_it_waits_for_a_sink(jobs: Jobs, tmp_path: Path) -> None:
    """`stop` would wait as long as the sink is away; the next start commits what is decided."""
    file, stop = tmp_path / "archive.db", tmp_path / "stop"
    with closing(sqlite3.connect(file)) as archive:
        archive.execute(f"CREATE TABLE {TABLE} (id INTEGER, word TEXT, payload TEXT)")
    sink = {"name": "archive", "connector": "sqlite", "path": str(file), "table": TABLE, "commit": "write-ahead-log"}
    backlog = {"max_backlog": {"checkpoints": 1, "bytes": "1GiB"}}
    spec = {"pipeline": "copy-files", "checkpoint": {"location": "./checkpoints"}, "sinks": [{**sink, **backlog}]}
    (tmp_path / "sink.yaml").write_text(json.dumps(spec))
    expected = write_files(tmp_path / "files")
    process = jobs.start(_STOPPING, str(tmp_path / "files"), str(stop), arm=["before-decide@0"])
    process.await_point("before-decide@0")
    with closing(sqlite3.connect(file, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        process.release("before-decide@0")
        _await_text(process, "waiting for sink archive: 2 checkpoints")
        stop.touch()
        process.succeed(timeout_s=60)
        holder.execute("COMMIT")
    assert "the query is stopped cleanly" in process.output()
    assert "sink archive: 2 checkpoints are decided and not committed: the next start does that" in process.output()
    jobs.start(EXAMPLES / "copy_files.py", str(tmp_path / "files")).succeed()
    with closing(sqlite3.connect(file)) as archive:
        found: Counter[Row] = Counter(archive.execute(f"SELECT id, word, payload FROM {TABLE}").fetchall())
    verdict = compare(expected, found)
    assert verdict.exact, str(verdict)
    assert verdict.in_sink == FILES * ROWS
