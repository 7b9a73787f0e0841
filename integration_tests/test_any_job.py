"""A streaming job of one's own, with sources that are not ours, through `foreachBatch(ExactlyOnce(spec))`."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from integration_tests.conftest import TopicFactory
from integration_tests.harness.faults import Faults
from integration_tests.harness.oracle import SinkTable, compare
from integration_tests.harness.pipeline_process import PROJECT, PipelineProcess
from integration_tests.harness.workload import Row, Workload
from integration_tests.services import Services
from twophase.codec import decode_head
from twophase.local_head import LocalHead

pytestmark = pytest.mark.any_server

_JOBS = PROJECT / "examples" / "any_job"
_CARELESS = PROJECT / "integration_tests" / "jobs" / "careless.py"
_FILES = 8
_ROWS = 100  # of a file, which is a batch
_RECORDS = 1000  # the job takes 500 at a time

Start = Callable[..., PipelineProcess]


@pytest.fixture
def start(tmp_path: Path, database: str, request: pytest.FixtureRequest) -> Start:
    """Starts an example job with fault points armed; every process is ended at the end."""
    (tmp_path / "sink.yaml").write_text((_JOBS / "sink.yaml").read_text())
    started: list[PipelineProcess] = []

    def start(job: Path, *arguments: str, arm: Sequence[str] = ()) -> PipelineProcess:
        faults = Faults(tmp_path / f"faults-{len(started)}")
        for stem in arm:
            faults.arm(stem)
        log = tmp_path / f"run-{len(started)}.log"
        every = [str(tmp_path / "sink.yaml"), str(tmp_path / "spark"), *arguments]
        program = [str(job)]
        started.append(PipelineProcess(every, tmp_path, log, faults, {"SINK_URL": database}, program))
        request.addfinalizer(started[-1].kill)
        return started[-1]

    return start


def _files(folder: Path) -> Counter[Row]:
    """Write the files; returns the rows that must come of them."""
    folder.mkdir(parents=True)
    rows: Counter[Row] = Counter()
    for file in range(_FILES):
        ids = range(file * _ROWS, (file + 1) * _ROWS)
        added: list[Row] = [(number, f"w{number % 7}", f"row {number} of file {file}") for number in ids]
        rows.update(added)
        lines = [json.dumps(dict(zip(("id", "word", "payload"), row, strict=True))) for row in added]
        (folder / f"{file}.json").write_text("\n".join(lines))
    return rows


@pytest.mark.timeout(900)
def test_killed_at_every_point(start: Start, database: str, tmp_path: Path) -> None:
    table = SinkTable(database, "records")
    table.create()
    expected = _files(tmp_path / "files")
    points = ("writing@0", "prepared@0", "before-decide@1", "after-decide@2", "after-commits@3", "closed@4")
    for stem in points:
        process = start(_JOBS / "copy_files.py", str(tmp_path / "files"), arm=[stem])
        process.await_point(stem)
        assert compare(expected, table.rows()).clean, stem
        process.kill()
    start(_JOBS / "copy_files.py", str(tmp_path / "files")).succeed()
    verdict = compare(expected, table.rows())
    assert verdict.exact, str(verdict)
    assert verdict.in_sink == _FILES * _ROWS
    read = LocalHead(tmp_path / "checkpoints" / "copy-files").read()
    assert read is not None
    head = decode_head(read.value)
    assert (head.epoch, head.committed) == (len(points) + 1, _FILES - 1)
    assert table.prepared(head.incarnation) == []


@pytest.mark.timeout(600)
def test_from_kafka_from_its_end_on(
    start: Start, database: str, topic: TopicFactory, services: Services, tmp_path: Path
) -> None:
    """Killed in its very first batch: Spark asks again where to begin, and must be told the same (H3)."""
    table = SinkTable(database, "records")
    table.create()
    name = topic(partitions=2)
    Workload(services.kafka_bootstrap, name, 2).produce(100)  # before the first start: not read
    workload = Workload(services.kafka_bootstrap, name, 2)
    process = start(_JOBS / "kafka_to_table.py", services.kafka_bootstrap, name, arm=["before-decide@0"])
    process.await_file(tmp_path / "spark" / "begin" / "head" / f"{1:020}.json")
    workload.produce(_RECORDS)
    process.await_point("before-decide@0")
    process.kill()
    workload.produce(_RECORDS)
    process = start(_JOBS / "kafka_to_table.py", services.kafka_bootstrap, name, arm=["after-decide@1"])
    process.await_point("after-decide@1")
    process.kill()
    process = start(_JOBS / "kafka_to_table.py", services.kafka_bootstrap, name)
    deadline = time.monotonic() + 120
    while table.rows().total() < 2 * _RECORDS and time.monotonic() < deadline:
        time.sleep(0.5)
    process.kill()
    verdict = compare(workload.expected, table.rows())
    assert verdict.exact, str(verdict)
    assert verdict.in_sink == 2 * _RECORDS


@pytest.mark.timeout(300)
def test_a_checkpoint_that_is_not_the_heads_is_refused(start: Start, database: str, tmp_path: Path) -> None:
    table = SinkTable(database, "records")
    table.create()
    expected = _files(tmp_path / "files")
    start(_JOBS / "copy_files.py", str(tmp_path / "files")).succeed()
    (tmp_path / "spark").rename(tmp_path / "gone")
    process = start(_JOBS / "copy_files.py", str(tmp_path / "files"))
    assert process.wait() != 0
    assert "Spark's checkpoint is of query" in process.output()
    assert compare(expected, table.rows()).exact


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("mode", "said"),
    [("frames", "batch 0 was written already in this run"), ("queries", "Spark's checkpoint is of query")],
)
def test_what_would_be_left_out_is_refused(start: Start, database: str, tmp_path: Path, mode: str, said: str) -> None:
    """A second frame of a batch looks like its replay, and another query's first batch like the first one's."""
    table = SinkTable(database, "records")
    table.create()
    expected = _files(tmp_path / "files" / "a")
    _files(tmp_path / "files" / "b")
    process = start(_CARELESS, str(tmp_path / "files"), mode)
    assert process.wait() != 0
    assert said in process.output()
    verdict = compare(expected, table.rows())
    assert verdict.exact, str(verdict)
