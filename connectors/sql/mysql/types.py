"""How MySQL and MariaDB declare what a run makes in them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pyarrow as pa
from pyarrow import types

from connectors.formats.json_text import supported
from connectors.sql.kinds import is_bytes, is_nested, is_text
from connectors.sql.mysql.dialect import Dialect
from connectors.sql.mysql.engine import quote
from connectors.sql.schema_migration import KEY_LENGTH, Tests, Types

MOST_DIGITS: Final = 65  # of a DECIMAL
MOST_SCALE: Final = 30

_BY_KIND: Final[Tests] = {
    types.is_boolean: "BOOLEAN",
    types.is_int8: "TINYINT",
    types.is_int16: "SMALLINT",
    types.is_int32: "INT",
    types.is_int64: "BIGINT",
    types.is_uint8: "TINYINT UNSIGNED",
    types.is_uint16: "SMALLINT UNSIGNED",
    types.is_uint32: "INT UNSIGNED",
    types.is_uint64: "BIGINT UNSIGNED",
    types.is_floating: "DOUBLE",  # a FLOAT is shown with six digits, though it holds more
    types.is_date: "DATE",
    types.is_timestamp: "DATETIME(6)",  # in UTC; a TIMESTAMP ends in 2038
    types.is_time: "TIME(6)",
    is_text: "LONGTEXT",
    is_bytes: "LONGBLOB",
    lambda kind: is_nested(kind) and supported(kind): "JSON",
}
_IN_KEY: Final[Tests] = {
    is_text: f"VARCHAR({KEY_LENGTH})",
    is_bytes: f"VARBINARY({KEY_LENGTH})",
    **dict.fromkeys((types.is_floating, types.is_time, is_nested), ""),
}


def _decimal(kind: pa.DataType) -> str | None:
    """With all of its digits."""
    fits = kind.precision <= MOST_DIGITS and 0 <= kind.scale <= MOST_SCALE
    return f"DECIMAL({kind.precision},{kind.scale})" if fits else None


TYPES: Final = Types(quote, _BY_KIND, _decimal, _IN_KEY, "VARCHAR({})")


def types_of(dialect: Dialect) -> Types:
    """By code point and without padding: a key of the server's is then one key of Spark's, too (H15, H16)."""
    collation = "utf8mb4_nopad_bin" if dialect.is_mariadb else "utf8mb4_0900_bin"
    return replace(TYPES, options=f" ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation}")
