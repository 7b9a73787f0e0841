"""What belongs to a range of offsets, of what a client delivers: records, ends of partitions, and what is left over.

Real clients and brokers: integration_tests/test_kafka_source.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from connectors.kafka import ranges
from connectors.kafka.client import Client
from connectors.kafka.ranges import messages
from connectors.kafka.settings import Connection
from eos.errors import OffsetOutOfRangeError, SourceError
from twophase.values import OffsetRange


def record(offset: int, partition: int = 0) -> Message:
    return Message(topic="t", partition=partition, offset=offset, value=b"v")


def event(code: int, offset: int, partition: int = 0) -> Message:
    return Message(topic="t", partition=partition, offset=offset, error=KafkaError(code))


def end(offset: int, partition: int = 0) -> Message:
    return event(KafkaError._PARTITION_EOF, offset, partition)


class Consumer:
    """A client that delivers these chunks, and has to be asked for no more."""

    def __init__(self, chunks: Sequence[Sequence[Message]]) -> None:
        self.chunks = [list(chunk) for chunk in chunks]
        self.rest: list[Message] = []
        self.assigned: list[dict[str, int]] = []
        self.unassigned: list[str] = []
        self.queried: list[str] = []
        self.is_away = False

    def list_topics(self, topic: str, timeout: float) -> None:
        self.queried.append(topic)
        assert timeout < 5
        if self.is_away:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    def assign(self, splits: Sequence[TopicPartition]) -> None:
        self.assigned.append({f"{each.topic}/{each.partition}": each.offset for each in splits})

    def incremental_unassign(self, splits: Sequence[TopicPartition]) -> None:
        self.unassigned += [f"{each.topic}/{each.partition}" for each in splits]

    def poll(self, _timeout_s: float) -> Message | None:
        if not self.chunks:
            pytest.fail("it waits for more than there is")
        first, *self.rest = self.chunks.pop(0) or [None]  # type: ignore[list-item]
        return first

    def consume(self, _count: int, _timeout_s: float) -> list[Message]:
        return self.rest


def read(*chunks: Sequence[Message], of: Sequence[OffsetRange] = (OffsetRange("t/0", 3, 7),)) -> list[tuple[int, int]]:
    """Partition and offset of each record of these ranges."""
    client = Client(Connection("127.0.0.1:1", "g"), Consumer(chunks))
    return [(m.partition() or 0, m.offset() or 0) for chunk in messages(client, of) for m in chunk]


def offsets(*chunks: Sequence[Message]) -> list[int]:
    return [offset for _, offset in read(*chunks)]


def test_a_range_ends_before_its_end() -> None:
    for last in (6, 7, 12):
        assert offsets([record(n) for n in range(3, last + 1)]) == [3, 4, 5, 6]


def test_a_range_is_over_where_its_last_offset_is_no_record() -> None:
    """Markers of transactions and aborted records are not delivered."""
    assert offsets([record(3), record(4)], [record(9)]) == [3, 4]
    assert offsets([record(3)], [end(7)]) == [3]
    assert offsets([end(7)]) == []


def test_the_end_of_a_partition_before_the_end_of_the_range_is_not_its_end() -> None:
    assert offsets([record(3), end(4)], [], [record(4), record(6)]) == [3, 4, 6]


def test_what_is_left_of_another_range_is_an_error() -> None:
    with pytest.raises(SourceError, match="t/0: Kafka delivered offset 3 of t/1"):
        offsets([record(3, partition=1)])


def test_records_come_once_and_in_order() -> None:
    with pytest.raises(SourceError, match="t/0: Kafka delivered offset 4 after 5"):
        offsets([record(3), record(4), record(5)], [record(4)])
    with pytest.raises(SourceError, match="t/0: Kafka delivered offset 2 after 2"):
        offsets([record(2), record(3)])


def test_an_offset_that_is_gone_is_an_error_that_no_retry_cures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "existing", lambda *_: "it has [5, 9)")
    with pytest.raises(OffsetOutOfRangeError, match=r"offset 3 does not exist.*\[3, 7\): it has \[5, 9\)") as caught:
        offsets([event(KafkaError._AUTO_OFFSET_RESET, 3)])
    assert not caught.value.retriable


def test_what_retention_has_deleted_is_left_out_only_where_that_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "existing", lambda *_: "it has [5, 9)")
    monkeypatch.setattr(ranges, "earliest", lambda _client, splits: dict.fromkeys(splits, 5))
    consumer = Consumer([[event(KafkaError._AUTO_OFFSET_RESET, 3)], [record(5), record(6)]])
    client = Client(Connection("127.0.0.1:1", "g"), consumer)
    found = [m.offset() for chunk in messages(client, [OffsetRange("t/0", 3, 7)], skip_lost=True) for m in chunk]
    assert (found, consumer.assigned) == ([5, 6], [{"t/0": 3}, {"t/0": 5}])


def test_several_ranges_at_once_are_each_read_to_their_end() -> None:
    wanted = [OffsetRange("t/0", 0, 2), OffsetRange("t/1", 5, 8)]
    mixed: Any = [record(0), record(5, 1), record(1), record(2), record(6, 1)]
    assert read(mixed, [record(7, 1)], of=wanted) == [(0, 0), (1, 5), (0, 1), (1, 6), (1, 7)]


def test_more_ranges_than_are_read_at_once_are_all_read() -> None:
    wanted = [OffsetRange(f"t/{number}", 0, 1) for number in range(11)]
    chunks = [[record(0, number)] for number in range(11)]
    assert read(*chunks, of=wanted) == [(number, 0) for number in range(11)]


@pytest.mark.parametrize("is_away", [False, True])
def test_the_leaders_of_a_topic_are_queried_once_unless_the_cluster_is_away(is_away: bool) -> None:
    """Reading goes on without them: the client finds them, too, or meets the error."""
    consumer = Consumer([[record(3, 0), record(4, 0)], [record(3, 0), record(4, 0)]])
    consumer.is_away = is_away
    client = Client(Connection("127.0.0.1:1", "g"), consumer)
    for _ in range(2):
        assert [len(chunk) for chunk in messages(client, [OffsetRange("t/0", 3, 5)])] == [2]
    assert consumer.queried == ["t"] * (2 if is_away else 1)


def test_a_batch_that_decompresses_to_too_much_names_the_setting() -> None:
    """librdkafka bounds a batch in zstd, and delivers nothing behind one that is larger."""
    with pytest.raises(SourceError, match="reading t/0 at offset 3") as error:
        offsets([record(3), event(KafkaError._BAD_COMPRESSION, 4)])
    assert "receive.message.max.bytes" in error.value.remedy
