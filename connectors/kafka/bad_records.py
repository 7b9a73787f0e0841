"""What becomes of records that do not decode: the pipeline stops, or they are left out and counted, or put aside."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from confluent_kafka import Message

from connectors.dead_letters import RECORD, headers_text, printable
from connectors.formats.decode import Undecodable
from connectors.kafka import columns
from connectors.kafka.splits import offset_of
from twophase.errors import BadRecordError

_log: Final = logging.getLogger(__name__)
_SHOWN_BYTES: Final = 100
_SHOWN_OFFSETS: Final = 20


@dataclass(frozen=True, slots=True)
class Skipped:
    """Records of one batch that were left out."""

    topic: str
    partition: int
    offsets: tuple[int, ...]
    first_reason: str


listeners: Final[list[Callable[[Skipped], None]]] = []
"""Called in the reading process with each batch's left-out records; a counter is added by appending it here."""


def stop_at(messages: Sequence[Message], bad: Sequence[Undecodable]) -> BadRecordError:
    """The error for `on_bad_record: fail`: names topic, partition, offset, reason and the beginning of the value."""
    first = bad[0]
    message = messages[first.index]
    where = f"topic {message.topic()}, partition {message.partition()}, offset {message.offset()}"
    return BadRecordError(
        f"{where}: {first.reason}; the value: {_shown(message.value())}",
        remedy="correct the schema or the producer; keep such records elsewhere with a `dead_letter`; or leave them "
        "out with on_bad_record: skip",
    )


def skip(messages: Sequence[Message], bad: Sequence[Undecodable]) -> None:
    """Tell of records that are left out, in one log line and to the listeners. Called once per batch that has any."""
    offsets = tuple(offset_of(messages[entry.index]) for entry in bad)
    skipped = Skipped(str(messages[0].topic()), messages[0].partition() or 0, offsets, bad[0].reason)
    shown = ", ".join(map(str, offsets[:_SHOWN_OFFSETS])) + (", …" if len(offsets) > _SHOWN_OFFSETS else "")
    _log.warning(
        "left out %d records that do not decode: topic %s, partition %d, offsets %s; the first: %s",
        len(offsets),
        skipped.topic,
        skipped.partition,
        shown,
        skipped.first_reason,
    )
    for listener in listeners:
        listener(skipped)


def letters(source: str, messages: Sequence[Message], reasons: Sequence[str]) -> pa.RecordBatch:
    """Bad records of one split as rows of dead_letters.RECORD, with all that they consist of."""
    headers = [_headers(message) for message in messages]
    unread = ["; its headers cannot be read: the name of one is not UTF-8" * (each is None) for each in headers]
    errors = [printable(reason) + more for reason, more in zip(reasons, unread, strict=True)]
    parts = {
        "source": pa.repeat(pa.scalar(source), len(messages)),
        "sink": pa.nulls(len(messages), pa.string()),
        "topic": columns.metadata_of("_topic", messages),
        "partition": columns.metadata_of("_partition", messages),
        "offset": columns.metadata_of("_offset", messages),
        "timestamp": columns.metadata_of("_timestamp", messages),
        "key": columns.metadata_of("_key", messages),
        "value": columns.values_of(messages),
        "headers": pa.array(map(headers_text, headers), pa.string()),
        "error": pa.array(errors, pa.string()),
    }
    return pa.record_batch([parts[name] for name in RECORD.names], schema=RECORD)


def _headers(message: Message) -> list[tuple[str, bytes | None]] | None:
    """As they came; the client's own types allow for what producers take. None where the client cannot read them."""
    try:  # by `map`, since a plain call is not checked once Python has specialized it, and what comes ends the process
        (headers,) = map(Message.headers, [message])
    except SystemError:
        return None
    pairs = headers.items() if isinstance(headers, dict) else headers or []
    return [(name, value.encode() if isinstance(value, str) else value) for name, value in pairs]


def _shown(value: bytes | None) -> str:
    """The beginning of a value with everything escaped that is not printable ASCII."""
    if value is None:
        return "null"
    return repr(value[:_SHOWN_BYTES])[1:] + ("…" if len(value) > _SHOWN_BYTES else "")
