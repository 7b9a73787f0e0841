"""From messages to Arrow columns: the value bytes, and the metadata of those records that are kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import pyarrow as pa
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

Build = Callable[[Sequence[Message]], pa.Array]

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


def values_of(messages: Sequence[Message]) -> pa.Array:
    """The value bytes; null for a tombstone."""
    return pa.array(list(map(Message.value, messages)), pa.binary())


def _keys(messages: Sequence[Message]) -> pa.Array:
    return pa.array(list(map(Message.key, messages)), pa.binary())


def _topics(messages: Sequence[Message]) -> pa.Array:
    return pa.repeat(pa.scalar(messages[0].topic(), pa.string()), len(messages))


def _partitions(messages: Sequence[Message]) -> pa.Array:
    return pa.repeat(pa.scalar(messages[0].partition(), pa.int32()), len(messages))


def _offsets(messages: Sequence[Message]) -> pa.Array:
    return pa.array(list(map(Message.offset, messages)), pa.int64())


def _timestamps(messages: Sequence[Message]) -> pa.Array:
    stamps = [None if kind == TIMESTAMP_NOT_AVAILABLE else ms for kind, ms in map(Message.timestamp, messages)]
    return pa.array(stamps, pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))


def _headers(messages: Sequence[Message]) -> pa.Array:
    return pa.array(list(map(Message.headers, messages)), _HEADERS)


_BUILDERS: Final[Mapping[str, Build]] = {
    "_key": _keys,
    "_topic": _topics,
    "_partition": _partitions,
    "_offset": _offsets,
    "_timestamp": _timestamps,
    "_headers": _headers,
}


def metadata_of(name: str, messages: Sequence[Message]) -> pa.Array:
    """One column of METADATA. `messages` are of one split and not empty."""
    return _BUILDERS[name](messages)
