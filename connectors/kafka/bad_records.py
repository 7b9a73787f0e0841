"""What becomes of records that do not decode: the pipeline stops, or they are left out and counted, or put aside."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import Message

from connectors.api.decoding import Undecodable
from connectors.dead_letters import RECORD, encode_headers, printable
from connectors.formats.key_columns import OF_KEY
from connectors.kafka import columns
from connectors.kafka.columns import Metadata
from connectors.kafka.splits import offset_of
from eos.errors import BadRecordError

_log: Final = logging.getLogger("eos.source")
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


def stop_at(messages: Sequence[Message], bad: Sequence[Undecodable], unfit: Sequence[str] = ()) -> BadRecordError:
    """The error for `on_bad_record: fail`: names topic, partition, offset, reason and the beginning of the value.

    `unfit`: the columns of metadata that cannot hold the record's, where its value decodes.
    """
    first = bad[0]
    message = messages[first.index]
    where = f"topic {message.topic()}, partition {message.partition()}, offset {message.offset()}"
    mend = f"correct the producer, or let no step use {' and '.join(unfit)}" if unfit else ""
    return BadRecordError(
        f"{where}: {printable(first.reason)}; {_content(message, first.reason)}",
        remedy=f"{mend or 'correct the schema or the producer'}; keep such records elsewhere with a `dead_letter`; or "
        "leave them out with on_bad_record: skip",
    )


def skip(messages: Sequence[Message], bad: Sequence[Undecodable]) -> None:
    """Tell of records that are left out, in one log line and to the listeners. Called once per batch that has any.

    In a task nothing else escapes what the line quotes of a value.
    """
    offsets = tuple(offset_of(messages[entry.index]) for entry in bad)
    skipped = Skipped(str(messages[0].topic()), messages[0].partition() or 0, offsets, bad[0].reason)
    shown = ", ".join(map(str, offsets[:_SHOWN_OFFSETS])) + (", …" if len(offsets) > _SHOWN_OFFSETS else "")
    _log.warning(
        "left out %d bad records: topic %s, partition %d, offsets %s; the first: %s",
        len(offsets),
        skipped.topic,
        skipped.partition,
        shown,
        printable(skipped.first_reason),
    )
    for listener in listeners:
        listener(skipped)


def letters(
    source: str, messages: Sequence[Message], reasons: Mapping[int, str], known: Metadata | None = None
) -> pa.RecordBatch:
    """Those of these messages of one split that have a reason, by index, as rows of dead_letters.RECORD.

    With all that they consist of; what a column cannot hold is NULL, and told in `error`. `known`: all metadata of the
    messages, where they were asked for it before: see Metadata.
    """
    metadata = known or Metadata.of(messages, columns.METADATA.names)
    why = metadata.why(columns.METADATA.names)
    errors = ["; ".join(filter(None, [printable(reason), *why.get(at, ())])) for at, reason in reasons.items()]
    chosen = pa.array(list(reasons), pa.int64())
    of_record = {name.removeprefix("_"): column.take(chosen) for name, column in metadata.columns.items()}
    parts = {
        **of_record,
        "source": pa.repeat(pa.scalar(source), len(reasons)),
        "sink": pa.nulls(len(reasons), pa.string()),
        "value": columns.values_of([messages[at] for at in reasons]),
        "headers": pa.array(map(_headers_text, of_record["headers"].to_pylist()), pa.string()),
        "error": pa.array(errors, pa.string()),
    }
    return pa.record_batch([parts[name] for name in RECORD.names], schema=RECORD)


def _headers_text(headers: Sequence[Mapping[str, Any]] | None) -> str | None:
    return encode_headers([(each["key"], each["value"]) for each in headers or ()])


def _content(message: Message, reason: str) -> str:
    """The beginning of the value, and of the key if the key does not decode."""
    key = f"the key: {_shown(message.key())}; " if OF_KEY in reason else ""
    return f"{key}the value: {_shown(message.value())}"


def _shown(value: bytes | None) -> str:
    """The beginning of a value with everything escaped that is not printable ASCII."""
    if value is None:
        return "null"
    return repr(value[:_SHOWN_BYTES])[1:] + ("…" if len(value) > _SHOWN_BYTES else "")
