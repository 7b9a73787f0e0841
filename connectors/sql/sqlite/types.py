"""How SQLite declares what a run makes in it. A declared type is an affinity there: see columns."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyarrow import types
from sqlalchemy.dialects import sqlite

from connectors.formats.json_text import supported
from connectors.sql.kinds import is_bytes, is_nested, is_text
from connectors.sql.schema_migration import Types
from connectors.sql.sqlite.columns import EXACT_DIGITS, INT64_DIGITS

_PREPARER: Final = sqlite.dialect().identifier_preparer


def quote(name: str) -> str:
    """An identifier in quotes, for a format string."""
    return _PREPARER.quote_identifier(name).replace("%", "%%")


def _decimal(kind: pa.DataType) -> str | None:
    """A number while SQLite keeps all of its digits."""
    if kind.scale == 0 and kind.precision <= INT64_DIGITS:
        return "INTEGER"
    return f"DECIMAL({kind.precision},{kind.scale})" if kind.precision <= EXACT_DIGITS else "TEXT"


TYPES: Final = Types(
    quote=quote,
    plain={
        types.is_boolean: "INTEGER",
        types.is_integer: "INTEGER",
        types.is_floating: "DOUBLE",
        is_bytes: "BLOB",
        is_text: "TEXT",
        types.is_date: "TEXT",
        types.is_timestamp: "TEXT",
        types.is_time: "TEXT",
        lambda kind: is_nested(kind) and supported(kind): "TEXT",
    },
    decimal=_decimal,
    in_key=dict.fromkeys((types.is_floating, is_nested), ""),
    has_schemas=False,
)
