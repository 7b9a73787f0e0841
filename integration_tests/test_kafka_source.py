"""The Kafka source on a real broker: what a range is, over everything that is not a record."""

from __future__ import annotations

import gc
import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import pyarrow.compute as pc
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from connectors.formats.plain import RawFormat, StringFormat
from connectors.kafka import pool
from connectors.kafka.client import open_consumer
from connectors.kafka.ranges import messages
from connectors.kafka.source import KafkaSource
from connectors.kafka.splits import as_offset
from eos.errors import OffsetOutOfRangeError, SourceError, UnknownTopicError
from integration_tests import topics
from integration_tests.conftest import TopicFactory
from integration_tests.services import Services
from twophase.values import OffsetRange, StartingPoint

pytestmark = pytest.mark.any_server

MakeSource = Callable[..., KafkaSource]
NOWHERE = StartingPoint()  # nothing is known yet


@pytest.fixture
def source(services: Services) -> MakeSource:
    """A source on this run's broker; impatient, so that a test of an error ends soon."""

    def make(*topics: str, **settings: object) -> KafkaSource:
        arguments = {"format": StringFormat(), "connect_timeout_s": 10.0, "read_timeout_s": 30.0, **settings}
        return KafkaSource("in", services.kafka_bootstrap, topics, **arguments)  # type: ignore[arg-type]

    return make


@pytest.fixture
def producer(services: Services) -> Iterator[Producer]:
    made = Producer({"bootstrap.servers": services.kafka_bootstrap, "linger.ms": 0})
    yield made
    made.flush(10)


@pytest.fixture
def transactional(services: Services, request: pytest.FixtureRequest) -> Producer:
    made = Producer({"bootstrap.servers": services.kafka_bootstrap, "transactional.id": f"tx-{request.node.name}"})
    made.init_transactions(60)
    return made


def transaction(producer: Producer, topic: str, count: int, *, commit: bool) -> None:
    producer.begin_transaction()
    for number in range(count):
        producer.produce(topic, f"{'c' if commit else 'a'}{number}".encode(), partition=0)
    producer.flush(10)
    if commit:
        producer.commit_transaction(10)
    else:
        producer.abort_transaction(10)


def plain(producer: Producer, topic: str, values: Sequence[bytes | None], **settings: object) -> None:
    for value in values:
        producer.produce(topic, value, **settings)  # type: ignore[arg-type]
    producer.flush(10)


def offsets_read(source: KafkaSource, topic: str, start: int, end: int) -> list[int]:
    batches = source.select(["_offset"]).read([OffsetRange(f"{topic}/0", start, end)])
    return [offset for batch in batches for offset in batch.column("_offset").to_pylist()]


def test_columns_and_metadata(topic: TopicFactory, source: MakeSource, producer: Producer) -> None:
    name = topic(2)
    before_ms = int(time.time() * 1000) - 1000
    plain(producer, name, [b"v0", None], partition=1, key=b"\xff", headers=[("h", b"1"), ("h", None)])
    plain(producer, name, [b"v2"], partition=1, timestamp=1_700_000_000_123)
    (batch,) = source(name).read([OffsetRange(f"{name}/1", 0, 3)])
    assert batch.schema == source(name).schema
    rows = batch.to_pylist()
    assert [row["value"] for row in rows] == ["v0", None, "v2"]
    assert [row["_key"] for row in rows] == [b"\xff", b"\xff", None]
    assert [row["_offset"] for row in rows] == [0, 1, 2]
    assert {(row["_topic"], row["_partition"]) for row in rows} == {(name, 1)}
    assert rows[0]["_headers"] == [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    assert rows[2]["_headers"] is None
    assert rows[2]["_timestamp"].isoformat() == "2023-11-14T22:13:20.123000+00:00"
    assert rows[0]["_timestamp"].timestamp() * 1000 > before_ms


def test_every_range_over_transactions(
    topic: TopicFactory, source: MakeSource, producer: Producer, transactional: Producer
) -> None:
    """Each `[start, end)` of a log of committed, aborted and plain records, and the markers of their transactions."""
    name = topic()
    reader, split = source(name), f"{name}/0"

    def settled(end: int) -> None:
        """A marker is written after the producer's call has returned."""
        deadline = time.monotonic() + 20
        while reader.horizon(NOWHERE).ends != {split: end}:
            assert time.monotonic() < deadline, reader.horizon(NOWHERE).ends

    plain(producer, name, [b"p0"])  # 0
    transaction(transactional, name, 2, commit=True)  # 1, 2, marker 3
    settled(4)
    transaction(transactional, name, 3, commit=False)  # 4, 5, 6, marker 7
    settled(8)
    plain(producer, name, [b"p8"])  # 8
    transaction(transactional, name, 1, commit=False)  # 9, marker 10
    settled(11)
    transaction(transactional, name, 1, commit=True)  # 11, marker 12
    settled(13)
    for start, end in combinations(range(14), 2):
        expected = [offset for offset in (0, 1, 2, 8, 11) if start <= offset < end]
        assert offsets_read(reader, name, start, end) == expected, (start, end)
    uncommitted = source(name, isolation_level="read_uncommitted")
    assert offsets_read(uncommitted, name, 3, 10) == [4, 5, 6, 8, 9]


def test_nothing_is_planned_past_an_open_transaction(
    topic: TopicFactory, source: MakeSource, producer: Producer, transactional: Producer
) -> None:
    name = topic()
    plain(producer, name, [b"p0", b"p1"])
    transactional.begin_transaction()
    transactional.produce(name, b"open", partition=0)
    transactional.flush(10)
    plain(producer, name, [b"behind"])
    split = f"{name}/0"
    reader = source(name, starting_offsets="latest")
    found = reader.horizon(NOWHERE)
    assert (found.ends, found.withheld) == ({split: 2}, {split: 4})
    assert reader.starting_point(NOWHERE).positions == {split: 2}
    assert offsets_read(reader, name, 0, 2) == [0, 1]
    found = source(name, isolation_level="read_uncommitted").horizon(NOWHERE)
    assert (found.ends, found.withheld) == ({split: 4}, {})
    transactional.commit_transaction(10)
    deadline = time.monotonic() + 20
    while reader.horizon(NOWHERE).ends != {split: 5}:  # the marker is written after the producer's call has returned
        assert time.monotonic() < deadline
    assert reader.horizon(NOWHERE).withheld == {}
    assert offsets_read(reader, name, 0, 5) == [0, 1, 2, 3]


@pytest.mark.parametrize("commit", [True, False])
def test_nothing_is_withheld_by_what_is_no_record(
    topic: TopicFactory, source: MakeSource, transactional: Producer, commit: bool
) -> None:
    """The log ends with a marker, or with aborted records and their marker: it can be read to its end."""
    name = topic()
    transaction(transactional, name, 3, commit=commit)
    reader, deadline = source(name), time.monotonic() + 20
    while (found := reader.horizon(NOWHERE)).ends != {f"{name}/0": 4}:
        assert time.monotonic() < deadline, found
    assert found.withheld == {}


def test_records_that_are_just_written_are_not_withheld(
    topic: TopicFactory, source: MakeSource, producer: Producer
) -> None:
    """The ends are asked for in two requests, between which a producer goes on."""
    name = topic()
    reader, is_over = source(name), threading.Event()

    def go_on() -> None:
        while not is_over.is_set():
            plain(producer, name, [b"x"] * 20)

    writing = threading.Thread(target=go_on)
    writing.start()
    try:
        found = [reader.horizon(NOWHERE) for _ in range(200)]
    finally:
        is_over.set()
        writing.join()
    assert as_offset(found[-1].ends[f"{name}/0"]) > as_offset(found[50].ends[f"{name}/0"]) > 0, "the producer goes on"
    assert [each.withheld for each in found if each.withheld] == []


def test_a_silence_is_not_the_end(topic: TopicFactory, source: MakeSource, producer: Producer) -> None:
    name = topic()
    plain(producer, name, [b"0"])
    late = threading.Timer(2.0, plain, (producer, name, [b"1", b"2"]))
    late.start()
    assert offsets_read(source(name), name, 0, 3) == [0, 1, 2]
    late.join()


def test_a_range_past_the_end_of_the_log(topic: TopicFactory, source: MakeSource, producer: Producer) -> None:
    name = topic()
    plain(producer, name, [b"0", b"1"])
    began = time.monotonic()
    with pytest.raises(OffsetOutOfRangeError, match=rf"{name}/0: the log ends at 2 now, .*\[0, 5\): it has \[0, 2\)"):
        offsets_read(source(name, read_timeout_s=1.0), name, 0, 5)
    assert time.monotonic() - began < 15


def test_records_that_retention_took(
    topic: TopicFactory, source: MakeSource, producer: Producer, services: Services
) -> None:
    name = topic()
    plain(producer, name, [b"x"] * 10)
    admin = AdminClient({"bootstrap.servers": services.kafka_bootstrap})
    for future in admin.delete_records([TopicPartition(name, 0, 4)]).values():
        future.result(10)
    reader = source(name)
    assert reader.starting_point(NOWHERE).positions == {f"{name}/0": 4}
    assert reader.lost_ranges([OffsetRange(f"{name}/0", 2, 6)]) == []
    with pytest.raises(OffsetOutOfRangeError, match=rf"{name}/0: offset 2 does not exist.*it has \[4, 10\)"):
        offsets_read(reader, name, 2, 6)
    with pytest.raises(OffsetOutOfRangeError, match="offset 20 does not exist"):
        offsets_read(reader, name, 20, 22)
    assert offsets_read(reader, name, 4, 10) == [4, 5, 6, 7, 8, 9]
    lenient = source(name, fail_on_data_loss=False)
    assert offsets_read(lenient, name, 2, 6) == [4, 5]
    assert offsets_read(lenient, name, 0, 3) == []
    ranges = [OffsetRange(f"{name}/0", start, end) for start, end in ((2, 6), (0, 3), (4, 6))]
    assert [(each.start, each.end) for each in lenient.lost_ranges(ranges)] == [(2, 4), (0, 3)]
    with pytest.raises(OffsetOutOfRangeError, match="offset 20 does not exist"):  # that is not retention's work
        offsets_read(lenient, name, 20, 22)


def test_ranges_of_many_splits_are_read_at_once_each_to_its_end(
    topic: TopicFactory, source: MakeSource, producer: Producer, transactional: Producer, services: Services
) -> None:
    """With more behind them, with a start that is gone, and with an end that no record has."""
    name, partitions = topic(20), 20
    for partition in range(partitions):
        plain(producer, name, [b"x" * 1_000] * (2_000 + partition), partition=partition)
    last = topic()
    transaction(transactional, last, 5, commit=True)
    transaction(transactional, last, 5, commit=False)
    admin = AdminClient({"bootstrap.servers": services.kafka_bootstrap})
    for future in admin.delete_records([TopicPartition(name, 3, 7)]).values():
        future.result(10)
    ranges = [OffsetRange(f"{name}/{number}", number, number + 30) for number in range(partitions)]
    ranges += [OffsetRange(f"{last}/0", 3, 12), OffsetRange(f"{name}/19", 2_019, 2_019)]
    wanted = {each.split: list(range(as_offset(each.start), as_offset(each.end))) for each in ranges[:-2]}
    wanted |= {f"{name}/3": list(range(7, 33)), f"{last}/0": [3, 4]}
    with pytest.raises(OffsetOutOfRangeError, match=rf"{name}/3: offset 3 does not exist"):
        list(source(name, last).read(ranges))
    lenient = source(name, last, fail_on_data_loss=False)
    for _ in range(2):  # with a new consumer, then with one that has read all this before
        found: dict[str, list[int]] = {}
        for batch in lenient.select(["_topic", "_partition", "_offset"]).read(ranges):
            ((of, partition),) = {(row["_topic"], row["_partition"]) for row in batch.to_pylist()}
            found.setdefault(f"{of}/{partition}", []).extend(batch.column("_offset").to_pylist())
        assert found == wanted


def test_topics_that_are_read_for_the_first_time_are_read_at_once(
    topic: TopicFactory, source: MakeSource, producer: Producer
) -> None:
    """The client finds the leaders of topics that it has begun to read about once a second, for a few of them."""
    names = [topic() for _ in range(64)]
    for name in names:
        producer.produce(name, b"x")
    assert producer.flush(30) == 0
    client = open_consumer(source(*names).connection)
    took_s = []
    for _ in range(2):
        began_s = time.monotonic()
        found = [chunk[0].topic() for chunk in messages(client, [OffsetRange(f"{name}/0", 0, 1) for name in names])]
        took_s.append(time.monotonic() - began_s)
        assert sorted(map(str, found)) == sorted(names)
        client.handle.unassign()
    assert took_s[0] < took_s[1] + 3  # seven times a second, without the leaders
    client.handle.close()


class _Counting:
    """A consumer that counts how often it is told what to read."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self.assigned = 0

    def __getattr__(self, name: str) -> Any:
        self.assigned += name == "assign"
        return getattr(self._consumer, name)


def test_a_split_that_is_read_leaves_the_others_under_way(
    topic: TopicFactory, source: MakeSource, producer: Producer
) -> None:
    """Where producers go on, more comes behind each range, and to begin anew with the others costs time for each."""
    name, partitions = topic(8), 8
    for partition in range(partitions):
        plain(producer, name, [b"x"] * 100, partition=partition)
    client = open_consumer(source(name).connection)
    counting = _Counting(client.handle)
    for start in (0, 20):  # another time with the same consumer
        ranges = [
            OffsetRange(f"{name}/{number}", start + number, start + 2 * number + 5) for number in range(partitions)
        ]
        found: dict[str, list[int | None]] = {}
        for chunk in messages(replace(client, handle=counting), ranges):
            found.setdefault(f"{name}/{chunk[0].partition()}", []).extend(each.offset() for each in chunk)
        assert found == {each.split: list(range(as_offset(each.start), as_offset(each.end))) for each in ranges}
        client.handle.unassign()
    assert counting.assigned == 2
    client.handle.close()


def test_a_compacted_topic(topic: TopicFactory, source: MakeSource, producer: Producer) -> None:
    """Ranges that start, end, or lie whole in what compaction took away."""
    name = topic(
        cleanup_policy="compact",
        segment_ms="100",
        min_cleanable_dirty_ratio="0.001",
        max_compaction_lag_ms="100",
        delete_retention_ms="100",
    )
    reader = source(name)
    for number in range(20):
        plain(producer, name, [b"%d" % number], key=b"k%d" % (number % 2), partition=0)
    deadline = time.monotonic() + 120
    while len(kept := offsets_read(reader, name, 0, 20)) > 12:
        assert time.monotonic() < deadline, f"the broker has not compacted: {kept}"
        time.sleep(1.0)
        plain(producer, name, [b"roll"], key=b"k9", partition=0)  # only older segments are compacted
    assert kept == sorted(kept)
    gap = next(offset for offset in range(19) if offset not in kept and offset + 1 not in kept)
    assert offsets_read(reader, name, gap, gap + 2) == []
    for start, end in ((0, gap + 1), (gap, 20), (gap + 1, 15), (0, 20)):
        found = offsets_read(reader, name, start, end)
        assert set(found) <= set(range(start, end))
        # The broker may go on compacting between two reads, so that less can be there, never more.
        assert set(found) <= {offset for offset in kept if start <= offset < end}
        assert 19 in found or end < 20


def test_an_unknown_topic(topic: TopicFactory, source: MakeSource) -> None:
    name = topic()
    with pytest.raises(UnknownTopicError, match=rf"topic {name}x does not exist on .*; nearest: .*{name}"):
        source(f"{name}x").horizon(NOWHERE)


def test_a_topic_deleted_under_a_reader(topic: TopicFactory, source: MakeSource, services: Services) -> None:
    name = topic()
    reader = source(name)
    assert reader.horizon(NOWHERE).ends == {f"{name}/0": 0}
    admin = AdminClient({"bootstrap.servers": services.kafka_bootstrap})
    topics.delete(services.kafka_bootstrap, [name])
    with pytest.raises(UnknownTopicError, match=name):
        reader.horizon(NOWHERE)
    began = time.monotonic()
    with pytest.raises(UnknownTopicError, match=f"topic {name} does not exist"):
        offsets_read(reader, name, 0, 5)
    assert time.monotonic() - began < 15
    assert name not in admin.list_topics(timeout=10).topics  # reading did not make it again
    topic_again(services, name)


def topic_again(services: Services, name: str) -> None:
    """The fixture deletes the topic at the end, so it must be there."""
    topics.create(services.kafka_bootstrap, name, 1, {})


def test_a_topic_made_again_is_not_read_on(
    topic: TopicFactory, source: MakeSource, producer: Producer, services: Services
) -> None:
    """Though it is longer already than what was read of the first one, so that its offsets look like the next ones."""
    name = topic()
    reader = source(name)
    plain(producer, name, [b"old"])
    began = reader.starting_point(NOWHERE)
    assert reader.horizon(began).ends == {f"{name}/0": 1}
    admin = AdminClient({"bootstrap.servers": services.kafka_bootstrap})
    for future in admin.delete_topics([name], operation_timeout=10).values():
        future.result(10)
    topic_again(services, name)
    plain(producer, name, [b"new", b"new"])
    for ask in (lambda: reader.horizon(began), lambda: reader.starting_point(began)):
        with pytest.raises(OffsetOutOfRangeError, match=f"topic {name} was deleted and made again"):
            ask()
    assert reader.horizon(reader.starting_point(NOWHERE)).ends == {f"{name}/0": 2}


def test_partitions_added_later_are_found(topic: TopicFactory, source: MakeSource, services: Services) -> None:
    from confluent_kafka.cimpl import NewPartitions

    name = topic(1)
    reader = source(name)
    assert list(reader.horizon(NOWHERE).ends) == [f"{name}/0"]
    admin = AdminClient({"bootstrap.servers": services.kafka_bootstrap})
    for future in admin.create_partitions([NewPartitions(name, 3)]).values():
        future.result(10)
    deadline = time.monotonic() + 20
    while len(reader.horizon(NOWHERE).ends) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert reader.horizon(NOWHERE).ends == {f"{name}/{partition}": 0 for partition in range(3)}


def test_large_records_come_in_bounded_batches(topic: TopicFactory, source: MakeSource, producer: Producer) -> None:
    name = topic(max_message_bytes="2000000")
    value = b"x" * 900_000
    plain(producer, name, [value] * 60)
    reader = source(name, format=RawFormat()).select(["value"])
    batches = list(reader.read([OffsetRange(f"{name}/0", 0, 60)]))
    assert sum(batch.num_rows for batch in batches) == 60
    assert max(batch.nbytes for batch in batches) <= 17 * 1024 * 1024


def packed(services: Services, topic: str, codec: str, values: Sequence[bytes]) -> None:
    """Produce each value in a batch of its own. The broker compares the compressed size with its limit of 1 MB."""
    settings = {"bootstrap.servers": services.kafka_bootstrap, "compression.type": codec}
    producer = Producer({**settings, "message.max.bytes": 1_000_000_000})
    for value in values:
        plain(producer, topic, [value])


def sizes_read(source: KafkaSource, split: OffsetRange) -> list[int]:
    return [size for batch in source.read([split]) for size in pc.binary_length(batch.column("value")).to_pylist()]


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_a_record_may_be_much_larger_than_its_batch(
    topic: TopicFactory, source: MakeSource, services: Services, codec: str
) -> None:
    name, size = topic(), 60_000_000
    packed(services, name, codec, [b"before", b"x" * size, b"after"])
    reader = source(name, format=RawFormat()).select(["value"])
    assert sizes_read(reader, OffsetRange(f"{name}/0", 0, 3)) == [6, size, 5]


def test_a_batch_in_zstd_has_a_bound_that_the_error_names(
    topic: TopicFactory, source: MakeSource, services: Services
) -> None:
    name, size = topic(), 120_000_000
    packed(services, name, "zstd", [b"before", b"x" * size])
    whole = OffsetRange(f"{name}/0", 0, 2)
    reader = source(name, format=RawFormat()).select(["value"])
    with pytest.raises(SourceError, match=f"{name}/0") as error:
        sizes_read(reader, whole)
    assert "receive.message.max.bytes" in error.value.remedy
    larger = source(name, format=RawFormat(), properties={"receive.message.max.bytes": "900000000"}).select(["value"])
    assert sizes_read(larger, whole) == [6, size]


def test_a_consumer_serves_one_reader_at_a_time(topic: TopicFactory, source: MakeSource, producer: Producer) -> None:
    names = topic(), topic()
    for name in names:
        plain(producer, name, [name.encode()] * 3)
    reader = source(*names, format=RawFormat(), group_id="own-pool")

    def idle() -> set[int]:
        return {id(client) for client in pool._own().idle if client.connection == reader.connection}

    kept: set[int] = set()
    for _ in range(2):  # with new consumers, then with the ones that were kept
        both = [reader.read([OffsetRange(f"{name}/0", 0, 3)]) for name in names]
        for name, batches in zip(names, both, strict=True):
            assert next(batches).column("value").to_pylist() == [name.encode()] * 3
        assert idle() == set()
        assert [list(batches) for batches in both] == [[], []]
        assert len(idle()) == 2
        assert kept in (set(), idle())
        kept = idle()


def test_a_consumer_that_nobody_asks_for_gives_way(topic: TopicFactory, source: MakeSource, producer: Producer) -> None:
    name = topic()
    plain(producer, name, [b"0"])
    readers = [source(name, group_id=f"gives-way-{number}") for number in range(6)]
    for reader in readers:
        assert offsets_read(reader, name, 0, 1) == [0]
    assert [client.connection for client in pool._own().idle] == [reader.connection for reader in readers[2:]]


def test_a_consumer_is_thrown_away_after_an_error(topic: TopicFactory, source: MakeSource, producer: Producer) -> None:
    name = topic()
    plain(producer, name, [b"0", b"1"])
    reader = source(name, group_id="thrown-away")
    with pytest.raises(OffsetOutOfRangeError):
        offsets_read(reader, name, 7, 9)
    abandoned = reader.read([OffsetRange(f"{name}/0", 0, 2)])
    next(abandoned)
    abandoned.close()  # type: ignore[attr-defined]
    assert not [client for client in pool._own().idle if client.connection == reader.connection]
    assert offsets_read(reader, name, 0, 2) == [0, 1]


def _read_in_child(reader: KafkaSource, name: str, answers: multiprocessing.Queue[list[int]]) -> None:
    answers.put(offsets_read(reader, name, 0, 3))


def test_a_forked_worker_has_clients_of_its_own(topic: TopicFactory, source: MakeSource, producer: Producer) -> None:
    name = topic()
    plain(producer, name, [b"0", b"1", b"2"])
    reader = source(name)
    assert offsets_read(reader, name, 0, 3) == [0, 1, 2]
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_read_in_child, args=(reader, name, answers))
    gc.collect()
    gc.freeze()  # the clients of other tests, which this process has and a daemon of Spark's has not, stay alone in it
    child.start()
    gc.unfreeze()
    assert answers.get(timeout=30) == [0, 1, 2]
    child.join(30)
    assert child.exitcode == 0
    assert offsets_read(reader, name, 1, 3) == [1, 2]


def test_an_unreachable_broker_is_told_in_time(source: MakeSource, services: Services) -> None:
    reader = KafkaSource("in", "127.0.0.1:9", ("t",), StringFormat(), connect_timeout_s=2.0, read_timeout_s=2.0)
    asking = (
        lambda: reader.horizon(NOWHERE),
        lambda: reader.starting_point(NOWHERE),
        lambda: list(reader.read([OffsetRange("t/0", 0, 1)])),
    )
    for ask in asking:
        began = time.monotonic()
        with pytest.raises(SourceError, match=r"no answer from Kafka at 127\.0\.0\.1:9 within 2 s \(.*refused") as told:
            ask()
        assert told.value.retriable
        assert time.monotonic() - began < 15
