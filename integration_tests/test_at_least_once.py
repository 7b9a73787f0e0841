"""`checkpoint.mode: at-least-once` into three kinds of sinks at once: killed, and changed to exactly-once and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from connectors.api.contracts import Sink
from connectors.kafka.settings import Connection
from connectors.kafka.sink.layout import Layout
from connectors.kafka.sink.place import Place
from connectors.kafka.sink.producer import PlainProducer
from connectors.kafka.sink.sink import KafkaSink
from connectors.kafka.sink.target import BATCH
from connectors.kafka.splits import as_offset
from connectors.log.place import LogPlace
from connectors.sql.mysql.sink import MySqlSink
from connectors.sql.postgres.sink import PostgresSink
from eos.errors import BadRowError, SinkUnavailableError, TargetError
from integration_tests.conftest import TopicFactory
from integration_tests.harness.jobs import EXAMPLES, ROWS, Jobs, write_files
from integration_tests.harness.oracle import PostgresTable, SinkTable
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, PARTITIONS, Pipeline
from integration_tests.harness.pipeline_process import PipelineProcess
from integration_tests.harness.targets import DatabaseTarget, KafkaTarget, Target
from integration_tests.services import Services
from twophase.ids import Scope, TransactionId, sink_key
from twophase.local_head import LocalHead
from twophase.status import Status, read_status
from twophase.values import CheckpointRecord

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_LEAST, _EXACTLY = "at-least-once", "exactly-once"
_STEPS = (
    (_LEAST, "writing@0"),
    (_LEAST, "written@1"),
    (_LEAST, "before-decide@2"),
    (_LEAST, "closed@3"),
    (_EXACTLY, "after-decide@4"),
    (_LEAST, "written@5"),
    (_EXACTLY, "prepared@5"),
)
"""How each run writes, and where it is killed."""

_RECORDS = (len(_STEPS) + 2) * CHECKPOINT_RECORDS


class _Pipeline(Pipeline):
    """As Pipeline, into these targets instead of its table."""

    def __init__(self, folder: Path, bootstrap: str, topic: str, targets: list[Target]) -> None:
        super().__init__(folder, bootstrap, topic, "sqlite://")
        self.targets = targets
        self.spec["sinks"] = [target.entry for target in targets]
        self.spec["checkpoint"]["retained"] = 100

    def run(self, mode: str, stem: str = "") -> PipelineProcess:
        """Start in this mode and kill at a point, or run until caught up."""
        self.spec["checkpoint"]["mode"] = mode
        process = self.start(arm=[stem] if stem else [])
        if stem:
            process.await_point(stem)
            process.kill()
        else:
            process.succeed()
        assert f"{mode}: " in process.output().splitlines()[0]
        return process

    @property
    def status(self) -> Status:
        """All checkpoints, newest first."""
        found = read_status(LocalHead(self.location))
        assert found is not None
        return found

    def checkpoint_of(self) -> dict[int, int]:
        """Id of each record -> the checkpoint that covers it: its offset and partition follow from the id."""
        return {each: c.checkpoint_id for c in self.status.checkpoints for each in _ids(c)}

    def repeats(self, target: Target) -> Counter[tuple[int, int]]:
        """How many records of each checkpoint are there how often: {(checkpoint, times): records}."""
        found, of = target.rows(), self.checkpoint_of()
        assert set(found) <= set(self.workload.expected)
        return Counter((of[row[0]], found[row]) for row in self.workload.expected)

    def close(self) -> None:
        """See Pipeline."""
        for process in self.processes:
            process.kill()
        if self.was_born():
            for target in self.targets:
                target.clean_up(self.head.incarnation)


def _ids(checkpoint: CheckpointRecord) -> Iterator[int]:
    for each in checkpoint.ranges["incoming"]:
        partition = int(each.split.rpartition("/")[2])
        yield from (offset * PARTITIONS + partition for offset in range(as_offset(each.start), as_offset(each.end)))


@pytest.fixture
def pipeline(
    services: Services, database: str, postgres_database: str, topic: TopicFactory, tmp_path: Path, _first_run: None
) -> Iterator[_Pipeline]:
    folder = tmp_path / "pipeline"
    folder.mkdir()
    targets: list[Target] = [
        DatabaseTarget("mysql", "two-phase", SinkTable(database, "records")),
        DatabaseTarget("postgresql", "write-ahead-log", PostgresTable(postgres_database, "records")),
        KafkaTarget(services.kafka_bootstrap, topic(3)),
    ]
    with _Pipeline(folder, services.kafka_bootstrap, topic(partitions=PARTITIONS), targets) as made:
        yield made


@pytest.mark.timeout(1200)
def test_killed_in_either_mode_and_changed_in_between(pipeline: _Pipeline) -> None:
    pipeline.workload.produce(_RECORDS)
    for mode, stem in _STEPS:
        pipeline.run(mode, stem)
    pipeline.run(_EXACTLY)
    assert pipeline.head.epoch == len(_STEPS) + 1
    modes = {each.checkpoint_id: each.direct for each in pipeline.status.checkpoints}
    assert [modes[n] for n in range(6)] == [True, True, True, True, False, False]
    shown = [pipeline.repeats(target) for target in pipeline.targets]
    for repeats in shown:
        assert sum(repeats.values()) == _RECORDS
        assert not [key for key in repeats if key[1] == 0], "lost"
        again = {checkpoint for checkpoint, times in repeats if times > 1}
        assert again <= {0, 1, 2, 5}, repeats  # those that were under way when an at-least-once run was killed
        assert repeats[2, 2] == CHECKPOINT_RECORDS, repeats  # all tasks had committed, in every sink
        assert max(times for _, times in repeats) == 2, repeats
    for checkpoint in (1, 5):  # one task at least had committed to the first sink
        assert shown[0][checkpoint, 2] > 0, shown[0]
    for target in pipeline.targets:
        assert target.left(pipeline.head.incarnation) == []
    _and_back_again(pipeline)


def _and_back_again(pipeline: _Pipeline) -> None:
    """Without a failure nothing is repeated, whichever way the mode is changed."""
    before = [target.rows() for target in pipeline.targets]
    for mode in (_LEAST, _EXACTLY):
        pipeline.workload.produce(CHECKPOINT_RECORDS)
        pipeline.run(mode)
    for target, earlier in zip(pipeline.targets, before, strict=True):
        added = target.rows() - earlier
        assert added == pipeline.workload.expected - earlier
        assert added.total() == 2 * CHECKPOINT_RECORDS


@pytest.mark.timeout(600)
def test_in_a_job_of_ones_own(jobs: Jobs, database: str, tmp_path: Path) -> None:
    spec = tmp_path / "sink.yaml"
    spec.write_text(spec.read_text().replace("./checkpoints/copy-files", "./checkpoints, mode: at-least-once"))
    table = SinkTable(database, "records")
    table.create()
    expected = write_files(tmp_path / "files")
    for stem in ("before-decide@1", "closed@2"):
        process = jobs.start(EXAMPLES / "copy_files.py", str(tmp_path / "files"), arm=[stem])
        process.await_point(stem)
        process.kill()
    jobs.start(EXAMPLES / "copy_files.py", str(tmp_path / "files")).succeed()
    found = table.rows()
    again = found - expected
    assert set(found) == set(expected)
    assert (again.total(), len({row[0] // ROWS for row in again})) == (ROWS, 1)  # one file, which is a batch


_ROWS = pa.schema([("id", pa.int64()), ("word", pa.string())])


@pytest.mark.parametrize("kind", ["mysql", "postgresql"])
def test_a_table_that_would_refuse_a_repeat(kind: str, request: pytest.FixtureRequest) -> None:
    """A key that the server counts up meets no row twice."""
    table: SinkTable | PostgresTable
    sink: Sink
    if kind == "mysql":
        url = request.getfixturevalue("database")
        table, sink = SinkTable(url, "t"), MySqlSink("s", url, "t", repeats=True)
        counter = "n BIGINT AUTO_INCREMENT PRIMARY KEY"
    else:
        url = request.getfixturevalue("postgres_database")
        table, sink = PostgresTable(url, "t"), PostgresSink("s", url, "t", repeats=True)
        counter = "n BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
    table.execute(f"CREATE TABLE t ({counter}, id BIGINT, word VARCHAR(40))")
    assert sink.open(_ROWS).partition_by is None
    table.execute("CREATE UNIQUE INDEX by_id ON t (id)")
    with pytest.raises(TargetError, match="unique key by_id would refuse a row that is written again"):
        sink.open(_ROWS)
    assert any("by_id" in each.detail and not each.ok for each in sink.check(_ROWS))


def test_a_topic_that_keeps_the_newest_of_each_key(services: Services, topic: TopicFactory) -> None:
    """A late repeat would stand there for good, as it would in a table by its key."""
    compacted, plain = topic(1, **{"cleanup.policy": "compact"}), topic(1)
    log = LogPlace(Path("log"))
    named = KafkaSink("s", services.kafka_bootstrap, Layout(topic=compacted, key=("word",)), log, repeats=True)
    with pytest.raises(TargetError, match=f"topic {compacted} is compacted"):
        named.open(_ROWS)
    assert any("is compacted" in each.detail and not each.ok for each in named.check(_ROWS))
    for taken in (replace(named, repeats=False), replace(named, layout=Layout(topic=plain, key=("word",)))):
        assert list(taken.open(_ROWS).columns) == ["id", "word"]
    by_row = replace(named, layout=Layout(None, topic_column="word", key=("word",))).open(_ROWS)
    writer = by_row.direct_writer(TransactionId(Scope("i" * 20, 1, 0), sink_key("s"), 0, 1))
    with pytest.raises(BadRowError, match=f"topic {compacted} is compacted"):
        writer.write(pa.RecordBatch.from_pydict({"id": [1], "word": [compacted]}, schema=_ROWS))
    writer.abort()


def test_a_message_that_is_not_delivered_fails_the_task(services: Services, topic: TopicFactory) -> None:
    connection = Connection(bootstrap_servers=services.kafka_bootstrap, group_id="g")
    place = Place(connection, None, transaction_timeout_s=20)
    producer = PlainProducer(place, "out", BATCH)
    small = topic(1, **{"max.message.bytes": "2000"})
    producer.produce(lambda handle: handle.produce(small, b"x" * 100_000), 1, 100_000)
    with pytest.raises(TargetError, match=r"a message was not delivered, sink out at .*too large"):
        producer.flush()
    producer.close()


@pytest.mark.parametrize("kind", ["mysql", "postgresql"])
def test_a_task_whose_connection_is_cut_before_its_commit_acknowledges_nothing(
    kind: str, request: pytest.FixtureRequest
) -> None:
    """It opens no other one, in which a COMMIT of nothing would succeed."""
    table: SinkTable | PostgresTable
    sink: Sink
    if kind == "mysql":
        url = request.getfixturevalue("database")
        table, sink = SinkTable(url, "t"), MySqlSink("s", url, "t", repeats=True)
    else:
        url = request.getfixturevalue("postgres_database")
        table, sink = PostgresTable(url, "t"), PostgresSink("s", url, "t", repeats=True)
    table.execute("CREATE TABLE t (id BIGINT, word VARCHAR(40))")
    opened = sink.open(_ROWS)
    batch = pa.RecordBatch.from_pydict({"id": [1, 2], "word": ["a", "b"]}, schema=_ROWS)

    def written(attempt: int) -> Any:
        writer = opened.direct_writer(TransactionId(Scope("i" * 20, 1, 0), sink_key("s"), 0, attempt))
        writer.write(batch)
        return writer

    writer = written(1)
    driver = writer._session.driver
    if kind == "mysql":
        table.execute(f"KILL {driver.thread_id()}")
    else:
        table.execute(f"SELECT pg_terminate_backend({driver.info.backend_pid})")
    with pytest.raises(SinkUnavailableError, match=r"sink s at .*, task 0, committing"):
        writer.commit()
    writer.abort()
    assert table.count() == 0
    assert written(2).commit().rows == 2
    assert table.count() == 2
