"""Dead letters: records that the pipeline could not take, as rows for the sink `dead_letter`.

`DeadLetter` is a dead letter as it is read back from where it was written, to be shown or to be sent again.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import heappop, heappush
from math import isfinite
from typing import Any, Final, Self

import pyarrow as pa
from pyarrow import types

from connectors.control_characters import escapes
from connectors.dead_letter_names import COLUMNS

_TYPES: Final = {
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "key": pa.binary(),
    "value": pa.binary(),
    "checkpoint_id": pa.int64(),
}
_REQUIRED: Final = frozenset({"error", "checkpoint_id"})

SCHEMA: Final = pa.schema([pa.field(each, _TYPES.get(each, pa.string()), each not in _REQUIRED) for each in COLUMNS])
"""Of the sink's rows."""

RECORD: Final = pa.schema([field for field in SCHEMA if field.name != "checkpoint_id"])
"""As a source gives it: in which checkpoint it is read, the source does not know."""

_OF_ROW: Final = {name: f"_{name}" for name in ("topic", "partition", "offset", "timestamp", "key")}
"""What a row says of the record that it was made of, where it has these columns."""


PLACE: Final = ("_topic", "_partition", "_offset")
"""The columns of a row that say where its record is."""


def encode_refused_row(
    sink: str, row: pa.RecordBatch, error: str, place: pa.RecordBatch | None = None
) -> pa.RecordBatch:
    """One row that a sink does not take, as a letter: the row as JSON, and of its record what the row knows.

    Not meant for many rows: it is made in Python. `place`: the columns of PLACE, where the row came with them.
    """
    named = zip(row.schema.names, row.columns, strict=True)
    text = json.dumps({name: _json(column[0]) for name, column in named}, ensure_ascii=False)
    told = {each: batch.column(each) for batch in (row, place) if batch is not None for each in batch.schema.names}
    parts = {name: told[of] for name, of in _OF_ROW.items() if of in told}
    parts |= {"sink": pa.array([sink]), "value": pa.array([text.encode()]), "error": pa.array([printable(error)])}
    letter = [_as(parts[f.name], f.type) if f.name in parts else pa.nulls(1, f.type) for f in RECORD]
    return pa.record_batch(letter, schema=RECORD)


def add_checkpoint_id(found: pa.RecordBatch | pa.Table, checkpoint_id: int) -> pa.Table:
    """Rows of RECORD as rows of SCHEMA."""
    checkpoint = pa.repeat(pa.scalar(checkpoint_id, pa.int64()), found.num_rows)
    parts = dict(zip(RECORD.names, found.columns, strict=True)) | {"checkpoint_id": checkpoint}
    return pa.table([parts[name] for name in SCHEMA.names], schema=SCHEMA)


FIRST_US: Final = -62_135_596_800_000_000
LAST_US: Final = 253_402_300_799_999_999
"""Of the years 1 to 9999, which are all that MySQL, MariaDB and Python know."""


def _as(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """NULL where a step has put something else into a column of this name, what is no text into one of text, or a
    moment or text that not every sink takes.
    """
    try:
        found = (values.cast(pa.binary()) if types.is_string(kind) else values).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(1, kind)
    if found.null_count:
        return found
    if types.is_timestamp(kind) and not FIRST_US <= found[0].value <= LAST_US:
        return pa.nulls(1, kind)
    return pa.nulls(1, kind) if types.is_string(kind) and "\0" in found[0].as_py() else found


def _json(value: pa.Scalar) -> object:
    """What JSON has no type for, such as NaN, as text; bytes as base64. Never fails: that would block the pipeline."""
    kind = value.type
    if not value.is_valid:
        return None
    if types.is_struct(kind):
        return {kind.field(at).name: _json(value[at]) for at in range(kind.num_fields)}
    if types.is_nested(kind):
        return [_json(each) for each in value.values]
    if types.is_string(kind) or types.is_large_string(kind):  # Spark's CAST lets bytes pass that are no text
        return value.as_buffer().to_pybytes().decode(errors="replace")
    if types.is_binary(kind) or types.is_large_binary(kind):
        return base64.b64encode(value.as_buffer()).decode()
    if types.is_temporal(kind):  # as Arrow writes them: Python's own know no year beyond 9999
        return str(value.cast(pa.int64() if types.is_duration(kind) else pa.string()).as_py())
    plain = value.as_py()
    return plain if isinstance(plain, int) or (isinstance(plain, float) and isfinite(plain)) else str(plain)


_MOST_ERROR_CHARS: Final = 2_000
_ESCAPES: Final = escapes()


def printable(error: str) -> str:
    """As any sink, log and terminal can take it, whatever value it quotes: one line, whose end is not far, without
    control characters. PostgreSQL refuses NUL."""
    short = error if len(error) <= _MOST_ERROR_CHARS else error[:_MOST_ERROR_CHARS] + "…"
    return short.translate(_ESCAPES)


_MOST_ROW_CHARS: Final = 1_000


def append_row(error: str, row: bytes) -> str:
    """What stands in the error of a letter whose value is its record: a record may give several rows."""
    text = row.decode()
    return f"{error}; the row: {printable(text[:_MOST_ROW_CHARS])}" + "…" * (len(text) > _MOST_ROW_CHARS)


Headers = Sequence[tuple[str, bytes | None]]


def encode_headers(headers: Headers | None) -> str | None:
    """A record's headers as JSON, `[["name", "value in base64"], …]` in their order; None where there are none."""
    if not headers:
        return None
    return json.dumps([[name, None if value is None else base64.b64encode(value).decode()] for name, value in headers])


def decode_headers(text: str | None) -> Headers:
    """The inverse."""
    pairs: Iterable[tuple[str, str | None]] = json.loads(text) if text else []
    return [(name, None if value is None else base64.b64decode(value)) for name, value in pairs]


@dataclass(frozen=True, slots=True)
class DeadLetter:
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
        known["headers"] = decode_headers(headers) if headers is None or isinstance(headers, str) else headers
        return cls(**known)

    @property
    def size(self) -> int:
        """Bytes of key and value."""
        return len(self.key or b"") + len(self.value or b"")

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


MOST_BYTES: Final = 8 * 1024 * 1024
"""Of the keys and values that `newest` keeps."""

LAST_ID: Final = 2**63 - 1
"""The highest checkpoint id."""


def newest(
    letters: Iterable[DeadLetter], most: int, reached: int = LAST_ID, most_bytes: int = MOST_BYTES
) -> list[DeadLetter]:
    """Return at most `most` dead letters, the newest first, and fewer if they are large. Keeps no more in memory.

    `reached`: the id of the checkpoint in progress. A higher id is of an earlier incarnation, so it is sorted as older.
    """
    kept: list[tuple[bool, int, int, int, DeadLetter]] = []
    size = 0
    for number, letter in enumerate(letters):
        heappush(kept, (letter.checkpoint_id <= reached, letter.checkpoint_id, letter.offset or 0, number, letter))
        size += letter.size
        while len(kept) > most or (size > most_bytes and len(kept) > 1):
            size -= heappop(kept)[-1].size
    return [letter for *_, letter in sorted(kept, reverse=True)]


def _in_utc(timestamp: str | None) -> bytes | None:
    """The same for one moment however it is kept: a topic's letters name the zone, and most tables do not."""
    if timestamp is None:
        return None
    try:
        at = datetime.fromisoformat(timestamp)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC).isoformat().encode()
    except (ValueError, OverflowError):
        return timestamp.encode()
