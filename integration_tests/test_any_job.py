"""A streaming job of one's own, with sources that are not ours, through `foreachBatch(ExactlyOnce(spec))`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from integration_tests.conftest import TopicFactory
from integration_tests.harness.drain import drained_rows
from integration_tests.harness.jobs import EXAMPLES, FILES, ROWS, Jobs, write_files
from integration_tests.harness.oracle import SinkTable, compare
from integration_tests.harness.pipeline_process import PROJECT
from integration_tests.harness.workload import Workload
from integration_tests.services import Services
from spark_jobs.observe.history.store import History
from twophase.codec import decode_head
from twophase.head_value import HeadValue
from twophase.local_head import LocalHead

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_CARELESS = PROJECT / "integration_tests" / "jobs" / "careless.py"
_ANY_SESSION = PROJECT / "integration_tests" / "jobs" / "on_cluster.py"
_RECORDS = 1000  # the job takes 500 at a time


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("job", "epochs"),
    [("copy_files.py", 5), ("files_to_table.py", 12)],  # of a run, and of a batch each time that it is planned
    ids=["foreachBatch", "format"],
)
def test_killed_at_every_point(jobs: Jobs, database: str, tmp_path: Path, job: str, epochs: int) -> None:
    table = SinkTable(database, "records")
    table.create()
    expected = write_files(tmp_path / "files")
    for stem in ("prepared@0", "before-decide@1", "after-decide@2", "after-commits@3"):
        process = jobs.start(EXAMPLES / job, str(tmp_path / "files"), arm=[stem])
        process.await_point(stem)
        assert compare(expected, table.rows()).clean, stem
        process.kill()
    jobs.start(EXAMPLES / job, str(tmp_path / "files")).succeed()
    verdict = compare(expected, table.rows())
    assert verdict.exact, str(verdict)
    assert verdict.in_sink == FILES * ROWS
    head = _head(tmp_path)
    assert (head.epoch, head.committed) == (epochs, FILES - 1)
    assert table.prepared(head.incarnation) == []
    history = History.at(tmp_path / "checkpoints" / "copy-files")
    assert (history.totals().checkpoints, history.totals().rows) == (FILES, FILES * ROWS)
    assert all(each.is_committed for each in history.checkpoints())
    if job == "copy_files.py":  # as a format no process sees the beginning and the end of a run
        assert [run.ended for run in history.runs()] == ["stopped", None, None, None, None]


@pytest.mark.timeout(600)
def test_h5_a_fenced_job_that_fails_leaves_its_successor_alone(jobs: Jobs, database: str, tmp_path: Path) -> None:
    """As a format: Spark has it abort a batch of which it has done no task, and its successor has prepared that one."""
    table = SinkTable(database, "records")
    table.create()
    expected = write_files(tmp_path / "files")
    job = EXAMPLES / "files_to_table.py", str(tmp_path / "files")
    fenced = jobs.start(*job, arm=["writing@1"])
    fenced.await_point("writing@1")
    successor = jobs.start(*job, arm=["before-decide@1"])
    successor.await_point("before-decide@1")
    fenced.release("writing@1")
    assert fenced.wait() != 0
    successor.release("before-decide@1")
    successor.succeed()
    verdict = compare(expected, table.rows())
    assert verdict.exact, str(verdict)
    assert verdict.in_sink == FILES * ROWS
    assert _head(tmp_path).epoch == 2 + (FILES - 1)


@pytest.mark.timeout(300)
def test_what_a_failed_batch_has_prepared_is_rolled_back_at_once(jobs: Jobs, database: str, tmp_path: Path) -> None:
    """As a format: its task has prepared and could not say so. Nothing stays locked until the next start."""
    table = SinkTable(database, "records")
    table.create()
    write_files(tmp_path / "files")
    process = jobs.start(EXAMPLES / "files_to_table.py", str(tmp_path / "files"), arm=["prepared@1 raise"])
    assert process.wait() != 0
    assert "fault injected at prepared@1" in process.output()
    head = _head(tmp_path)
    assert (head.epoch, head.committed) == (3, 0)  # a batch that was written, one that was planned, and the abort
    assert table.prepared(head.incarnation) == []
    assert not table.is_held()


@pytest.mark.timeout(300)
def test_a_task_that_hangs_in_the_sink_is_ended_as_a_format(jobs: Jobs, database: str, tmp_path: Path) -> None:
    """Nothing can cancel Spark's job there. The task has sent rows, and waits for an answer without an end."""
    table = SinkTable(database, "records")
    table.create()
    expected = write_files(tmp_path / "files")
    spec = tmp_path / "sink.yaml"
    spec.write_text(spec.read_text().replace("copy-files}", "copy-files, timeout: 2s}"))
    process = jobs.start(EXAMPLES / "files_to_table.py", str(tmp_path / "files"), arm=["writing@1"])
    process.await_point("writing@1")
    assert process.wait() != 0
    assert "a task ran longer than checkpoint.timeout (2 s), and its Python worker is ended" in process.output()
    assert (table.rows().total(), table.is_held()) == (ROWS, False)
    spec.write_text(spec.read_text().replace("timeout: 2s", "timeout: 10min"))
    jobs.start(EXAMPLES / "files_to_table.py", str(tmp_path / "files")).succeed()
    verdict = compare(expected, table.rows())
    assert verdict.exact, str(verdict)
    assert verdict.in_sink == FILES * ROWS


@pytest.mark.timeout(900)
def test_into_kafka_as_a_format_and_killed(jobs: Jobs, services: Services, topic: TopicFactory, tmp_path: Path) -> None:
    """One process plans a batch and claims the sink, another one commits it: each with producers of its own."""
    target = topic(partitions=3)
    entry = {"name": "out", "connector": "kafka", "bootstrap_servers": services.kafka_bootstrap, "topic": target}
    spec = {"pipeline": target, "checkpoint": {"location": "./checkpoints"}, "sinks": [entry]}
    (tmp_path / "sink.yaml").write_text(json.dumps(spec))
    expected = write_files(tmp_path / "files")
    arguments = (EXAMPLES / "files_to_table.py", str(tmp_path / "files"))
    for stem in ("before-decide@0", "between-commits@1", "closed@2"):
        process = jobs.start(*arguments, arm=[stem])
        process.await_point(stem)
        assert compare(expected, drained_rows(services.kafka_bootstrap, target)).clean, stem
        process.kill()
    jobs.start(*arguments).succeed()
    verdict = compare(expected, drained_rows(services.kafka_bootstrap, target))
    assert verdict.exact, str(verdict)
    assert verdict.in_sink == FILES * ROWS


@pytest.mark.timeout(600)
def test_from_kafka_from_its_end_on(
    jobs: Jobs, database: str, topic: TopicFactory, services: Services, tmp_path: Path
) -> None:
    """Killed in its very first batch: Spark asks again where to begin, and must be told the same (H3)."""
    table = SinkTable(database, "records")
    table.create()
    name = topic(partitions=2)
    Workload(services.kafka_bootstrap, name, 2).produce(100)  # before the first start: not read
    workload = Workload(services.kafka_bootstrap, name, 2)
    process = jobs.start(EXAMPLES / "kafka_to_table.py", services.kafka_bootstrap, name, arm=["before-decide@0"])
    process.await_file(tmp_path / "spark-begin" / "head" / f"{1:020}.json")
    workload.produce(_RECORDS)
    process.await_point("before-decide@0")
    process.kill()
    workload.produce(_RECORDS)
    process = jobs.start(EXAMPLES / "kafka_to_table.py", services.kafka_bootstrap, name, arm=["after-decide@1"])
    process.await_point("after-decide@1")
    process.kill()
    process = jobs.start(EXAMPLES / "kafka_to_table.py", services.kafka_bootstrap, name)
    deadline = time.monotonic() + 120
    while table.rows().total() < 2 * _RECORDS and time.monotonic() < deadline:
        time.sleep(0.5)
    process.kill()
    verdict = compare(workload.expected, table.rows())
    assert verdict.exact, str(verdict)
    assert verdict.in_sink == 2 * _RECORDS


@pytest.mark.timeout(300)
def test_a_checkpoint_that_is_not_the_heads_is_refused(jobs: Jobs, database: str, tmp_path: Path) -> None:
    table = SinkTable(database, "records")
    table.create()
    expected = write_files(tmp_path / "files")
    jobs.start(EXAMPLES / "copy_files.py", str(tmp_path / "files")).succeed()
    (tmp_path / "spark").rename(tmp_path / "gone")
    process = jobs.start(EXAMPLES / "copy_files.py", str(tmp_path / "files"))
    assert process.wait() != 0
    assert "Spark's checkpoint is of query" in process.output()
    assert compare(expected, table.rows()).exact


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("mode", "said"),
    [("frames", "batch 0 was written already in this run"), ("queries", "Spark's checkpoint is of query")],
)
def test_what_would_be_left_out_is_refused(jobs: Jobs, database: str, tmp_path: Path, mode: str, said: str) -> None:
    """A second frame of a batch looks like its replay, and another query's first batch like the first one's."""
    table = SinkTable(database, "records")
    table.create()
    expected = write_files(tmp_path / "files" / "a")
    write_files(tmp_path / "files" / "b")
    process = jobs.start(_CARELESS, str(tmp_path / "files"), mode)
    assert process.wait() != 0
    assert said in process.output()
    verdict = compare(expected, table.rows())
    assert verdict.exact, str(verdict)


def _head(folder: Path) -> HeadValue:
    read = LocalHead(folder / "checkpoints" / "copy-files").read()
    assert read is not None
    return decode_head(read.value)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("way", ["foreachBatch", "format"])
def test_a_session_that_is_open_is_refused(jobs: Jobs, database: str, tmp_path: Path, way: str) -> None:
    """Unless the spec accepts it: its passwords go to each task through ports that any user of the machine can use."""
    table = SinkTable(database, "records")
    table.create()
    expected = write_files(tmp_path / "files")
    arguments = [str(tmp_path / "files"), way, "local[2]", json.dumps({"spark.pyspark.python": sys.executable})]
    refused = jobs.start(_ANY_SESSION, *arguments)
    assert refused.wait() != 0
    assert "spark.authenticate is off: any process that reaches Spark's ports" in refused.output()
    assert table.rows() == {}
    with (tmp_path / "sink.yaml").open("a") as spec:
        spec.write("\nspark: {allow_unauthenticated: true}\n")
    jobs.start(_ANY_SESSION, *arguments).succeed()
    verdict = compare(expected, table.rows())
    assert verdict.exact, str(verdict)
    assert verdict.in_sink == FILES * ROWS
