"""What a dead letter is: a record that the pipeline could not take, as a row for the sink `dead_letter`."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Final

import pyarrow as pa
from pyarrow import types

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


def refused(sink: str, row: pa.RecordBatch, error: str) -> pa.RecordBatch:
    """One row that a sink does not take, as a letter: the row as JSON, and of its record what the row knows.

    Not meant for many rows: it is made in Python.
    """
    named = zip(row.schema.names, row.columns, strict=True)
    text = json.dumps({name: _json(_readable(column)[0].as_py()) for name, column in named}, ensure_ascii=False)
    parts = {name: row.column(of) for name, of in _OF_ROW.items() if of in row.schema.names}
    parts |= {"sink": pa.array([sink]), "value": pa.array([text.encode()]), "error": pa.array([error])}
    letter = [_as(parts[f.name], f.type) if f.name in parts else pa.nulls(1, f.type) for f in RECORD]
    return pa.record_batch(letter, schema=RECORD)


def _as(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """NULL where a step has put something else into a column of this name."""
    try:
        return values.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(1, kind)


def _readable(values: pa.Array) -> pa.Array:
    """Moments as Arrow writes them: Python's own know no year beyond 9999."""
    return values.cast(pa.string()) if types.is_timestamp(values.type) or types.is_date(values.type) else values


def _json(value: object) -> object:
    """What JSON has no type for, such as NaN, as text; bytes as base64."""
    if isinstance(value, dict):
        return {str(key): _json(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json(each) for each in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    plain = value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and isfinite(value))
    return value if plain else str(value)


Headers = Sequence[tuple[str, bytes | None]]


def headers_text(headers: Headers | None) -> str | None:
    """A record's headers as JSON, `[["name", "value in base64"], …]` in their order; None where there are none."""
    if not headers:
        return None
    return json.dumps([[name, None if value is None else base64.b64encode(value).decode()] for name, value in headers])


def headers_of(text: str | None) -> Headers:
    """The inverse."""
    pairs: Iterable[tuple[str, str | None]] = json.loads(text) if text else []
    return [(name, None if value is None else base64.b64decode(value)) for name, value in pairs]
