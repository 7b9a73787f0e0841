"""From messages to Arrow columns: the value bytes, and the metadata of those records that are kept."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from connectors.dead_letters import FIRST_US, LAST_US

Unfit = Mapping[int, str]
"""What a column cannot hold and has NULL for: index of the message -> why, in words."""

Build = Callable[[Sequence[Message]], tuple[pa.Array, Unfit]]

_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

METADATA: Final = pa.schema(
    [
        pa.field("_key", pa.binary()),
        pa.field("_topic", pa.string(), nullable=False),
        pa.field("_partition", pa.int32(), nullable=False),
        pa.field("_offset", pa.int64(), nullable=False),
        pa.field("_timestamp", pa.timestamp("us", "UTC")),
        pa.field("_headers", _HEADERS),
    ]
)
"""The columns of record metadata, after the decoded ones."""

MAY_BE_UNFIT: Final = frozenset({"_timestamp", "_headers"})
"""Those that cannot hold all that Kafka takes."""

_FIRST_MS: Final = FIRST_US // 1000
_LAST_MS: Final = LAST_US // 1000
"""Of the years 1 to 9999: no database, and not Python, has a moment for all that Kafka takes."""

_ALL_FIT: Final[Unfit] = {}
_UNREADABLE: Final = "its headers cannot be read: the name of one is not UTF-8"


def values_of(messages: Sequence[Message]) -> pa.Array:
    """The value bytes; null for a tombstone."""
    return pa.array(list(map(Message.value, messages)), pa.binary())


def keys_of(messages: Sequence[Message]) -> pa.Array:
    """The key bytes; null for a record without a key."""
    return pa.array(list(map(Message.key, messages)), pa.binary())


def _keys(messages: Sequence[Message]) -> tuple[pa.Array, Unfit]:
    return keys_of(messages), _ALL_FIT


def _topics(messages: Sequence[Message]) -> tuple[pa.Array, Unfit]:
    topic = messages[0].topic() if messages else None
    return pa.repeat(pa.scalar(topic, pa.string()), len(messages)), _ALL_FIT


def _partitions(messages: Sequence[Message]) -> tuple[pa.Array, Unfit]:
    partition = messages[0].partition() if messages else None
    return pa.repeat(pa.scalar(partition, pa.int32()), len(messages)), _ALL_FIT


def _offsets(messages: Sequence[Message]) -> tuple[pa.Array, Unfit]:
    return pa.array(list(map(Message.offset, messages)), pa.int64()), _ALL_FIT


def _timestamps(messages: Sequence[Message]) -> tuple[pa.Array, Unfit]:
    stamps = [None if kind == TIMESTAMP_NOT_AVAILABLE else ms for kind, ms in map(Message.timestamp, messages)]
    since_1970, unfit = pa.array(stamps, pa.int64()), _ALL_FIT
    ends = pc.min_max(since_1970).as_py()
    if ends["min"] is not None and (ends["min"] < _FIRST_MS or ends["max"] > _LAST_MS):
        wrong = pc.or_(pc.less(since_1970, _FIRST_MS), pc.greater(since_1970, _LAST_MS))
        at = pc.indices_nonzero(pc.fill_null(wrong, False)).to_pylist()
        unfit = {index: f"its timestamp, {stamps[index]} ms since 1970, is not in the years 1 to 9999" for index in at}
        since_1970 = pc.if_else(wrong, pa.scalar(None, pa.int64()), since_1970)
    return since_1970.cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC")), unfit


def _headers(messages: Sequence[Message]) -> tuple[pa.Array, Unfit]:
    """NULL where the client cannot read them, since the name of one is not UTF-8; Kafka itself takes any bytes."""
    found: list[Any] = []
    unread: list[int] = []
    # By `map`, since a plain call is not checked once Python has specialized it, and what comes ends the process.
    rest = map(Message.headers, messages)
    while len(found) < len(messages):
        try:
            found.extend(rest)  # has what came before an error, and `rest` goes on behind it
        except SystemError:
            unread.append(len(found))
            found.append(None)
    return pa.array(found, _HEADERS), dict.fromkeys(unread, _UNREADABLE)


_BUILDERS: Final[Mapping[str, Build]] = {
    "_key": _keys,
    "_topic": _topics,
    "_partition": _partitions,
    "_offset": _offsets,
    "_timestamp": _timestamps,
    "_headers": _headers,
}


@dataclass(frozen=True, slots=True)
class Metadata:
    """Columns of METADATA, of messages of one split."""

    columns: Mapping[str, pa.Array]  # by name
    unfit: Mapping[str, Unfit]  # of those columns that cannot hold each message's

    @classmethod
    def of(cls, messages: Sequence[Message], names: Collection[str]) -> Metadata:
        """These columns. Once for each message: headers that the client could not read once end the process then."""
        built = {name: _BUILDERS[name](messages) for name in names}
        unfit = {name: unfit for name, (_, unfit) in built.items() if unfit}
        return cls({name: column for name, (column, _) in built.items()}, unfit)

    def why(self, names: Collection[str]) -> dict[int, list[str]]:
        """What these columns cannot hold: index of the message -> in words, for each of them."""
        found: dict[int, list[str]] = {}
        for name in names:
            for index, reason in self.unfit.get(name, _ALL_FIT).items():
                found.setdefault(index, []).append(reason)
        return found
