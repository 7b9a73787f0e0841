"""How PostgreSQL declares what a run makes in it."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyarrow import types

from connectors.formats.json_text import supported
from connectors.sql.kinds import is_bytes, is_nested, is_text
from connectors.sql.postgres.engine import quote
from connectors.sql.postgres.target import LONGEST_NAME
from connectors.sql.schema_migration import KEY_LENGTH, Types


def _has_zone(kind: pa.DataType) -> bool:
    return bool(types.is_timestamp(kind)) and kind.tz is not None


def _decimal(kind: pa.DataType) -> str | None:
    return f"NUMERIC({kind.precision},{kind.scale})" if kind.scale >= 0 else None


TYPES: Final = Types(
    quote=quote,
    plain={
        types.is_boolean: "BOOLEAN",
        types.is_int8: "SMALLINT",
        types.is_uint8: "SMALLINT",
        types.is_int16: "SMALLINT",
        types.is_uint16: "INTEGER",
        types.is_int32: "INTEGER",
        types.is_uint32: "BIGINT",
        types.is_int64: "BIGINT",
        types.is_uint64: "NUMERIC(20,0)",
        types.is_float64: "DOUBLE PRECISION",
        types.is_floating: "REAL",
        types.is_date32: "DATE",
        _has_zone: "TIMESTAMP(6) WITH TIME ZONE",
        types.is_timestamp: "TIMESTAMP(6)",
        types.is_time: "TIME(6)",
        is_text: "TEXT",
        is_bytes: "BYTEA",
        # Not JSONB, which refuses U+0000 in a text: after the decision, where rows wait in a log.
        lambda kind: is_nested(kind) and supported(kind): "JSON",
    },
    decimal=_decimal,
    in_key={is_text: f"VARCHAR({KEY_LENGTH})", **dict.fromkeys((types.is_floating, types.is_time, is_nested), "")},
    bounded_text="VARCHAR({})",
    longest_name=LONGEST_NAME,
)
