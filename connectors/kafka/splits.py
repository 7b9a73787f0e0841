"""Names of splits: `<topic>/<partition>`. A topic's name has no slash."""

from __future__ import annotations

from dataclasses import dataclass

from confluent_kafka import Message, TopicPartition

from twophase.positions import Position
from twophase.values import OffsetRange


@dataclass(frozen=True, slots=True)
class Offsets(OffsetRange):
    """A range of a partition. Its positions are offsets."""

    start: int
    end: int

    @classmethod
    def of(cls, found: OffsetRange) -> Offsets:
        """Return a planned range of this source."""
        return cls(found.split, as_offset(found.start), as_offset(found.end))


def as_offset(position: Position) -> int:
    """Return a position of a split of this source: an offset."""
    assert isinstance(position, int)
    return position


def split_name(topic: str, partition: int) -> str:
    """The split of a topic's partition."""
    return f"{topic}/{partition}"


def parse_split(split: str) -> tuple[str, int]:
    """Topic and partition of a split that `split_name` wrote; ValueError for anything else."""
    topic, _, partition = split.rpartition("/")
    return topic, int(partition)


def at(split: str, offset: int) -> TopicPartition:
    """A split at an offset, as the client wants it."""
    topic, partition = parse_split(split)
    return TopicPartition(topic, partition, offset)


def split_of(message: Message) -> str:
    """The split that a message was delivered of, or that has ended."""
    return f"{message.topic()}/{message.partition()}"


def offset_of(message: Message) -> int:
    """The offset of a message that was delivered, or that the end of a partition stands at."""
    offset = message.offset()
    assert offset is not None
    return offset
