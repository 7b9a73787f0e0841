"""Which Arrow types a SQLite column takes without changing a value, and how they are stored.

SQLite converts what it is given by the column's affinity (https://sqlite.org/datatype3.html, 3.1): text that looks
like a number becomes one in an INTEGER, REAL or NUMERIC column, and a number becomes text of 15 digits in a TEXT
column. So a pair of types is accepted only if every value survives it (but for -0.0, which SQLite does not have).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

import pyarrow as pa
from pyarrow import types

from connectors.formats.json_text import supported

EXACT_DIGITS: Final = 15  # decimal digits that survive a REAL
INT64_DIGITS: Final = 18  # decimal digits that always fit a signed 64-bit integer


class Affinity(Enum):
    """The five of SQLite; the last belongs to columns without a type too."""

    INTEGER = "INTEGER"
    REAL = "REAL"
    NUMERIC = "NUMERIC"
    TEXT = "TEXT"
    BLOB = "BLOB"


class Form(Enum):
    """How the values of a column are stored, and with it how they are converted."""

    INTEGER = "integer"
    REAL = "real"
    TEXT = "text"  # strings as they are
    LEXICAL = "lexical"  # decimals and times: Arrow's own text for them
    BLOB = "blob"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """One column of the table as SQLite declares it."""

    name: str
    declared: str
    nullable: bool  # NULL stays NULL
    required: bool  # NOT NULL, and nothing fills it in where the rows do not give it
    generated: bool = False

    @property
    def affinity(self) -> Affinity:
        """By the rules of the manual, in their order."""
        declared = self.declared.upper()
        if "INT" in declared:
            return Affinity.INTEGER
        if any(word in declared for word in ("CHAR", "CLOB", "TEXT")):
            return Affinity.TEXT
        if "BLOB" in declared or not declared:
            return Affinity.BLOB
        if any(word in declared for word in ("REAL", "FLOA", "DOUB")):
            return Affinity.REAL
        return Affinity.NUMERIC


@dataclass(frozen=True, slots=True)
class Binding:
    """One column of the rows, bound to one of the table. Made on the driver, used in tasks."""

    name: str  # in the rows
    column: str  # in the table
    type: pa.DataType
    form: Form
    nullable: bool


_NUMBER: Final = (Affinity.INTEGER, Affinity.NUMERIC, Affinity.BLOB)
_FLOAT: Final = (Affinity.REAL, Affinity.NUMERIC, Affinity.BLOB)
_STRING: Final = (Affinity.TEXT, Affinity.BLOB)
_TIME: Final = (Affinity.TEXT, Affinity.NUMERIC, Affinity.BLOB)


def form_of(kind: pa.DataType, affinity: Affinity) -> Form | None:
    """How `kind` is stored in a column of this affinity; None if a value would not survive it."""
    if types.is_dictionary(kind):
        return form_of(kind.value_type, affinity)
    if types.is_boolean(kind):
        return Form.INTEGER if affinity in _NUMBER else None
    if types.is_integer(kind):
        return _integer(kind, affinity)
    if types.is_floating(kind):
        return Form.REAL if affinity in _FLOAT else None
    if types.is_decimal(kind):
        return _decimal(kind, affinity)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return Form.TEXT if affinity in _STRING else None
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return Form.BLOB if affinity is Affinity.BLOB else None
    if types.is_date(kind) or types.is_timestamp(kind) or types.is_time(kind):
        return Form.LEXICAL if affinity in _TIME else None
    if types.is_null(kind):
        return Form.INTEGER
    if types.is_nested(kind) and supported(kind):
        return Form.JSON if affinity in _STRING else None
    return None


def _integer(kind: pa.DataType, affinity: Affinity) -> Form | None:
    if affinity in _NUMBER:
        return Form.INTEGER  # unsigned ones above 2**63-1 are refused row by row
    if affinity is Affinity.REAL:
        return Form.INTEGER if kind.bit_width < 64 else None  # beyond 2**53 a double has gaps
    return Form.LEXICAL if types.is_uint64(kind) else None


def _decimal(kind: pa.Decimal128Type, affinity: Affinity) -> Form | None:
    if affinity in _STRING:
        return Form.LEXICAL
    if kind.scale == 0 and affinity is not Affinity.REAL and kind.precision <= INT64_DIGITS:
        return Form.INTEGER
    return Form.LEXICAL if kind.precision <= EXACT_DIGITS else None  # SQLite makes the number of it
