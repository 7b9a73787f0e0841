"""Names of types and columns in Spark's SQL: users write SQL and DDL, and the code compares Arrow's types."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyarrow import types

_NAMES: Final = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.large_string(): "STRING",
    pa.binary(): "BINARY",
    pa.large_binary(): "BINARY",
    pa.date32(): "DATE",
    pa.timestamp("us"): "TIMESTAMP_NTZ",
    pa.null(): "VOID",
}


def spark_type(kind: pa.DataType) -> str:
    """Return the name of a type in Spark's SQL, or Arrow's name of a type that Spark does not have."""
    if types.is_timestamp(kind) and kind.unit == "us" and kind.tz is not None:
        return "TIMESTAMP"
    if types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if types.is_dictionary(kind):
        return spark_type(kind.value_type)
    if types.is_struct(kind):
        fields = (f"{field.name}: {spark_type(field.type)}" for field in kind)
        return f"STRUCT<{', '.join(fields)}>"
    if types.is_map(kind):
        return f"MAP<{spark_type(kind.key_type)}, {spark_type(kind.item_type)}>"
    if types.is_list(kind) or types.is_large_list(kind):
        return f"ARRAY<{spark_type(kind.value_type)}>"
    return _NAMES.get(kind, str(kind))


def spark_type_of_name(name: str) -> str:
    """Return Spark's name of a type that is known by Arrow's name only, as in a message of Arrow."""
    if name == "timestamp":  # with its unit cut off
        return "TIMESTAMP"
    return next((spark for arrow, spark in _NAMES.items() if str(arrow) == name), name)


def quoted(name: str) -> str:
    """Return a column's name as Spark's expressions take it, whatever it holds."""
    return "`" + name.replace("`", "``") + "`"
