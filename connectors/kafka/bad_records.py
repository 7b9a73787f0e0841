"""What becomes of records that do not decode: the pipeline stops, or they are left out and counted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Message

from connectors.formats.decode import Undecodable
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
        remedy="correct the schema or the producer; or leave such records out with on_bad_record: skip",
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


def _shown(value: bytes | None) -> str:
    """The beginning of a value with everything escaped that is not printable ASCII."""
    if value is None:
        return "null"
    return repr(value[:_SHOWN_BYTES])[1:] + ("…" if len(value) > _SHOWN_BYTES else "")
