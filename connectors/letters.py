"""Dead letters as they are read again, from wherever they were written: for people, and to be sent once more."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from connectors.dead_letter_names import COLUMNS
from connectors.dead_letters import Headers, headers_of


@dataclass(frozen=True, slots=True)
class Letter:
    """See dead_letter_names for what is in it."""

    source: str | None
    sink: str | None
    topic: str | None
    partition: int | None
    offset: int | None
    timestamp: str | None
    key: bytes | None
    value: bytes | None
    headers: Headers  # the record's own
    error: str
    checkpoint_id: int

    @classmethod
    def of(cls, columns: Mapping[str, Any]) -> Self:
        """From a row, by the names of dead_letter_names."""
        known: dict[str, Any] = {name: columns.get(name) for name in COLUMNS}
        stamp, headers = known["timestamp"], known["headers"]
        known["timestamp"] = stamp.isoformat() if isinstance(stamp, datetime) else stamp
        known["headers"] = headers_of(headers) if headers is None or isinstance(headers, str) else headers
        return cls(**known)

    @property
    def place(self) -> str | None:
        """`topic/partition/offset` of the record; None where it is not known."""
        if self.topic is None or self.partition is None or self.offset is None:
            return None
        return f"{self.topic}/{self.partition}/{self.offset}"

    @property
    def digest(self) -> str:
        """Of key, value and time: where a topic was made again, another record has the place of an earlier one."""
        found = hashlib.sha256()
        for part in (self.key, self.value, _in_utc(self.timestamp)):
            found.update(b"-" if part is None else b"%d:%b" % (len(part), part))
        return found.hexdigest()[:16]

    @property
    def record(self) -> tuple[str, str, str] | None:
        """Source, place and digest of the record whose bytes these are; None for a row of which no more is known."""
        return None if self.source is None or self.place is None else (self.source, self.place, self.digest)


def _in_utc(timestamp: str | None) -> bytes | None:
    """The same for one moment however it is kept: a topic's letters name the zone, and most tables do not."""
    if timestamp is None:
        return None
    try:
        at = datetime.fromisoformat(timestamp)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC).isoformat().encode()
    except (ValueError, OverflowError):
        return timestamp.encode()
