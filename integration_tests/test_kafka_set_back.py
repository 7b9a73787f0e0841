"""Topics that go back in time under the same id: a broker is replaced by an earlier copy of itself (H23).

A real broker, whose folder is put back; the reader of a pipeline's source as Spark's planner process has it.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from connectors.formats.plain import StringFormat
from connectors.kafka.source import KafkaSource
from eos.errors import ConnectorError, OffsetOutOfRangeError
from integration_tests import topics
from integration_tests.harness.pipeline import PARTITIONS, Pipeline
from integration_tests.harness.workload import Row
from integration_tests.services.copied import CopiedKafka
from spark_jobs.query.pacing.turns import ALL_THERE
from spark_jobs.query.source import SourceReader
from spark_jobs.session.failures import TOKEN, CarriedError, translate
from twophase.values import OffsetRange, StartingPoint

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns, pytest.mark.timeout(300)]

_PLANNED_S = 30


class World:
    """A topic of one partition, and plans over it."""

    def __init__(self, kafka: CopiedKafka, topic: str, **settings: str) -> None:
        self.kafka, self.topic, self.split = kafka, topic, f"{topic}/0"
        topics.create(kafka.bootstrap, topic, 1, settings)
        self.source = KafkaSource("in", kafka.bootstrap, (topic,), StringFormat(), read_timeout_s=20)
        self.began = self.source.starting_point(StartingPoint())

    def reader(self) -> SourceReader:
        """The reader of another process: it knows nothing of the plans before."""
        return SourceReader(cast("Any", self.source), self.began, ALL_THERE, TOKEN)

    def write(self, *values: str, key: bytes | None = None) -> None:
        """Write records, each as a batch of its own, with a producer that knows nothing of the log."""
        producer = Producer({"bootstrap.servers": self.kafka.bootstrap, "linger.ms": 0})
        for value in values:
            producer.produce(self.topic, value.encode(), key, 0)
            assert producer.flush(30) == 0

    def transact(self, *values: str, commit: bool) -> None:
        """Write records in a transaction."""
        producer = Producer({"bootstrap.servers": self.kafka.bootstrap, "transactional.id": f"of {self.topic}"})
        producer.init_transactions(60)
        producer.begin_transaction()
        for value in values:
            producer.produce(self.topic, value.encode(), partition=0)
        assert producer.flush(30) == 0
        (producer.commit_transaction if commit else producer.abort_transaction)(30)

    def plan(self, reader: SourceReader, start: dict[str, Any] | None, end: int) -> dict[str, Any]:
        """The next plan, as it comes back from Spark's log; it reaches to `end`."""
        start = start or reader.initialOffset()
        deadline = time.monotonic() + _PLANNED_S
        while True:  # the end of a transaction is written after the producer's call has returned
            planned: dict[str, Any] = json.loads(json.dumps(_translated(lambda: reader.latestOffset(start, _NO_LIMIT))))
            if planned["ends"][self.split] >= end or time.monotonic() > deadline:
                assert planned["ends"] == {self.split: end}
                return planned

    def values(self, start: int, end: int) -> list[str]:
        """What a task reads."""
        batches = self.source.select(["value"]).read([OffsetRange(self.split, start, end)])
        return [value for batch in batches for value in batch.column("value").to_pylist()]

    def epoch(self) -> int | None:
        """The leader epoch of the partition."""
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap})
        (asked,) = admin.list_offsets({TopicPartition(self.topic, 0): OffsetSpec.latest()}).values()  # type: ignore[no-untyped-call]
        found: int | None = asked.result(30).leader_epoch
        return found


_NO_LIMIT = cast("Any", None)


def _translated(call: Any) -> Any:
    try:
        return call()
    except CarriedError as error:
        raise translate(error, "planning") from error


def _refused(call: Any, *parts: str) -> ConnectorError:
    with pytest.raises(OffsetOutOfRangeError) as caught:
        _translated(call)
    for part in parts:
        assert part in caught.value.message, caught.value.message
    assert "eos reset --to" in (caught.value.remedy or "")
    return caught.value


def _numbered(word: str, *numbers: int) -> Sequence[str]:
    return [f"{word} {number}" for number in numbers]


def test_h23_a_log_that_was_set_back_and_written_past_the_position_is_refused(copied_kafka: CopiedKafka) -> None:
    """By another process, and by the one that has planned; the epochs of the leader are those of before."""
    world = World(copied_kafka, "past")
    world.write(*_numbered("old", 0, 1, 2))
    copied_kafka.copy()
    world.write(*_numbered("lost", 3, 4, 5))
    running = world.reader()
    planned = world.plan(running, None, 6)
    assert world.values(0, 6) == [*_numbered("old", 0, 1, 2), *_numbered("lost", 3, 4, 5)]
    epoch = world.epoch()
    copied_kafka.put_back()
    assert world.epoch() == epoch, "an epoch would not tell"
    world.write(*_numbered("new", 3, 4, 5, 6))  # the pipeline would go on with 6, and leave out three records
    for reader in (running, world.reader()):
        refusal = _refused(lambda each=reader: each.latestOffset(planned, _NO_LIMIT), "past/0", "record at offset 5 is")
        assert "went back in time" in refusal.message
    begun = world.reader().initialOffset()
    _refused(lambda: world.reader().partitions(begun, planned), "past/0", "record at offset 5 is")  # a plan run again


def test_h23_a_log_that_was_set_back_to_the_very_position_is_refused_by_a_start(copied_kafka: CopiedKafka) -> None:
    """Nothing new came: a run until caught up would end well."""
    world = World(copied_kafka, "equal")
    world.write("old")
    copied_kafka.copy()
    world.write("lost")
    planned = world.plan(world.reader(), None, 2)
    copied_kafka.put_back()
    world.write("new")
    _refused(lambda: world.reader().latestOffset(planned, _NO_LIMIT), "equal/0", "record at offset 1 is")


def test_h23_a_log_that_was_set_back_and_is_shorter_is_refused(copied_kafka: CopiedKafka) -> None:
    world = World(copied_kafka, "shorter")
    world.write("old")
    copied_kafka.copy()
    world.write("lost")
    reader = world.reader()
    planned = world.plan(reader, None, 2)
    copied_kafka.put_back()
    begun = reader.initialOffset()
    for call in (
        lambda: world.reader().latestOffset(planned, _NO_LIMIT),
        lambda: world.reader().partitions(begun, planned),
    ):
        _refused(call, "shorter/0 ends at 1", "up to 2")


@pytest.mark.parametrize("commit", [True, False])
def test_h23_a_log_of_transactions_is_known_by_a_record(copied_kafka: CopiedKafka, *, commit: bool) -> None:
    """The range ends in the transaction's marker, and its records may be aborted ones."""
    name = f"transactions-{commit}"
    world = World(copied_kafka, name)
    world.write("old")
    copied_kafka.copy()
    world.write("lost")
    world.transact(*_numbered("more", 2, 3, 4), commit=commit)
    planned = world.plan(world.reader(), None, 6)
    assert planned["witnesses"][world.split].startswith("4:" if commit else "1:")
    assert world.plan(world.reader(), planned, 6) == planned
    copied_kafka.put_back()
    world.write(*_numbered("new", 1, 2, 3, 4, 5, 6))
    refusal = _refused(lambda: world.reader().latestOffset(planned, _NO_LIMIT), f"{name}/0")
    assert f"record at offset {4 if commit else 1} is" in refusal.message


def test_h23_the_same_log_after_restarts_is_read_on(copied_kafka: CopiedKafka) -> None:
    """The copy is of the newest moment; the leader's epoch is another one."""
    world = World(copied_kafka, "restarted")
    world.write(*_numbered("old", 0, 1))
    reader = world.reader()
    planned = world.plan(reader, None, 2)
    before = world.epoch()
    copied_kafka.copy()
    copied_kafka.put_back()
    assert world.epoch() != before
    world.write("new")
    assert world.plan(world.reader(), planned, 3) == world.plan(reader, planned, 3) != planned
    assert world.values(2, 3) == ["new"]


def test_h23_what_retention_has_deleted_is_not_judged(copied_kafka: CopiedKafka) -> None:
    world = World(copied_kafka, "retention")
    world.write(*_numbered("old", 0, 1, 2))
    planned = world.plan(world.reader(), None, 3)
    world.write("new")
    topics.delete_records(copied_kafka.bootstrap, {world.split: 3})
    following = world.plan(world.reader(), planned, 4)
    assert following["witnesses"][world.split].startswith("3:")
    topics.delete_records(copied_kafka.bootstrap, {world.split: 4})
    assert world.plan(world.reader(), following, 4) == following


def test_h23_what_compaction_has_deleted_is_not_judged(copied_kafka: CopiedKafka) -> None:
    """Until then the record is the same one, and after it the one that follows says nothing."""
    settings = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001"}
    world = World(copied_kafka, "compacted", **settings, **{"max.compaction.lag.ms": "100"})
    world.write("old", key=b"k")
    planned = world.plan(world.reader(), None, 1)
    deadline, end = time.monotonic() + 60, 1
    while world.values(0, 1):
        assert time.monotonic() < deadline, "nothing is compacted"
        time.sleep(0.5)
        world.write("newer", key=b"k")
        end += 1
        assert world.plan(world.reader(), planned, end)["ends"] == {world.split: end}
    assert world.plan(world.reader(), planned, end)["witnesses"][world.split].startswith(f"{end - 1}:")


class SqlitePipeline(Pipeline):
    """As Pipeline, into a file, where nothing is prepared."""

    def close(self) -> None:
        """See Pipeline."""
        for process in self.processes:
            process.kill()


@pytest.mark.timeout(900)
def test_h23_a_pipeline_does_not_read_on_in_a_log_that_was_set_back(copied_kafka: CopiedKafka, tmp_path: Path) -> None:
    """Its restart would leave out the records that took the offsets of those that are lost."""
    file = tmp_path / "records.db"
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE records (id INTEGER, word TEXT, payload TEXT)")
    topics.create(copied_kafka.bootstrap, "orders", PARTITIONS, {})

    def rows() -> Counter[Row]:
        with closing(sqlite3.connect(file)) as database:
            return Counter(database.execute("SELECT id, word, payload FROM records").fetchall())

    with SqlitePipeline(tmp_path, copied_kafka.bootstrap, "orders", "sqlite://") as pipeline:
        sink = {"name": "archive", "connector": "sqlite", "from": "rows", "path": str(file), "table": "records"}
        pipeline.spec["sinks"] = [{**sink, "commit": "write-ahead-log"}]
        pipeline.workload.produce(10)
        copied_kafka.copy()
        pipeline.workload.produce(10)
        pipeline.catch_up()
        assert rows() == pipeline.workload.expected
        copied_kafka.put_back()
        pipeline.workload.produce(14)
        pipeline.start().fail("orders/", "the record at offset 9 is another one", "went back in time", "eos reset --to")
        assert rows().total() == 20
        pipeline.command("reset", "--to", "orders/0=5,orders/1=5", "--yes").succeed()
        pipeline.catch_up()
        assert rows() == pipeline.workload.expected
        assert rows().total() == 34


def test_a_plan_without_witnesses_is_read_on(copied_kafka: CopiedKafka) -> None:
    """It is of an earlier version: nothing is compared, and the next plan has witnesses."""
    world = World(copied_kafka, "earlier")
    world.write(*_numbered("old", 0, 1))
    earlier = {key: value for key, value in world.plan(world.reader(), None, 2).items() if key in ("source", "ends")}
    assert world.plan(world.reader(), earlier, 2) == earlier
    world.write("new")
    following = world.plan(world.reader(), earlier, 3)
    assert following["format"] == 2
    assert following["witnesses"][world.split].startswith("2:")


def test_h23_another_cluster_with_the_same_records_is_refused(copied_kafka: CopiedKafka) -> None:
    """A mirror gives its topics ids of their own. The last test: the topics of all others are gone."""
    world = World(copied_kafka, "mirrored")
    world.write(*_numbered("old", 0, 1))
    reader = world.reader()
    planned = world.plan(reader, None, 2)
    copied_kafka.replace()
    topics.create(copied_kafka.bootstrap, world.topic, 1, {})
    world.write(*_numbered("old", 0, 1, 2))
    for each in (reader, world.reader()):
        with pytest.raises(OffsetOutOfRangeError, match="mirrored was deleted and made again"):
            _translated(lambda reader=each: reader.latestOffset(planned, _NO_LIMIT))
