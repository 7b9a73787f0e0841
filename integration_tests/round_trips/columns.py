"""Columns of every type: what is written, and the value that a database must have of it.

A value is compared in one form for all databases: a date as days since 1970, a moment as microseconds, a decimal as
Decimal, a nested value as the object that its JSON has, and anything else as itself.
"""

from __future__ import annotations

import base64
import datetime as dt
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from hypothesis import strategies as st

from connectors.formats.ddl import parse_ddl

REFUSED: Final = object()
"""In place of a value that a format cannot carry: its record is bad."""

FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""Days from 1970 to the years 1 and 9999."""
DAY_US: Final = 86_400_000_000
FIRST_US, LAST_US = FIRST_DAY * DAY_US, (LAST_DAY + 1) * DAY_US - 1
_GREGORIAN_DAY: Final = -141_428  # 1582-10-14, which the calendar of 1582 left out
_UNIX: Final = dt.datetime(1970, 1, 1)


@dataclass(frozen=True)
class Column:
    """A column, and values for it. Each of `edges` is written in each run, others as Hypothesis draws them."""

    type: str  # of Spark
    edges: Sequence[Any]
    values: st.SearchStrategy[Any]
    kind: Any = None  # in the schema of the format
    written: Callable[[Any], Any] = lambda value: value  # what the format's library is given
    expected: Callable[[Any], Any] = lambda value: value  # what a database has

    @property
    def base(self) -> str:
        """The type without its parts."""
        return self.type.partition("<")[0].partition("(")[0]

    @property
    def arrow(self) -> pa.DataType:
        """The column's type in Arrow."""
        return parse_ddl(f"c {self.type}").field(0).type

    def but(self, **changes: Any) -> Column:
        """Return the column with other fields."""
        return replace(self, **changes)


def _whole(name: str, bits: int) -> Column:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return Column(name, (0, low, high, -1), st.integers(low, high))


def decimals(precision: int, scale: int) -> Column:
    """Return a column of decimals."""
    most = 10**precision - 1
    units = st.integers(-most, most)

    def of(number: int) -> Decimal:
        return Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale))

    edges = tuple(map(of, (0, 1, -1, most, -most, most // 7, -(10 ** (precision - 1)))))
    return Column(f"DECIMAL({precision},{scale})", edges, units.map(of))


def moment(days: int, micros: int = 0) -> int:
    """Return microseconds since 1970."""
    return days * DAY_US + micros


_DAYS: Final = (0, -1, FIRST_DAY, LAST_DAY, _GREGORIAN_DAY, 19_782, -25_567)
_MOMENTS: Final = (0, -1, 1, FIRST_US, LAST_US, moment(_GREGORIAN_DAY, 1), 1_711_846_800_000_001, 4_102_444_799_999_999)
_TEXTS: Final = (
    "",
    " a ",
    "a\0b",
    "\U0001f600",
    "\u202e\ufeff\x85",
    "'\"\\`%s;--",
    "\t\r\n",
    "e\u0301",
    "\\u0000",
    "ü" * 300,
)
_INF: Final = math.inf


def iso(micros: int, zone: str) -> str:
    """Return a moment as text of ISO 8601."""
    return (_UNIX + dt.timedelta(microseconds=micros)).isoformat(timespec="microseconds") + zone


def iso_day(days: int) -> str:
    """Return a date as text."""
    return (_UNIX + dt.timedelta(days=days)).date().isoformat()


_PART: Final = {"text": "ü\U0001f600'\"\\", "day": _GREGORIAN_DAY, "at": moment(0, 1), "bytes": b"\xff\0", "x": 0.1}


def part_as_json(part: dict[str, Any] | None) -> Any:
    """Return the object of JSON that a database keeps of a STRUCT of _PART's fields."""
    return part and {
        **part,
        "day": iso_day(part["day"]),
        "at": iso(part["at"], "Z"),
        "bytes": base64.b64encode(part["bytes"]).decode(),
    }


_TEXT: Final = st.text(max_size=12)
_PARTS: Final = st.fixed_dictionaries(
    {
        "text": _TEXT,
        "day": st.integers(FIRST_DAY, LAST_DAY),
        "at": st.integers(FIRST_US, LAST_US),
        "bytes": st.binary(max_size=6),
        "x": st.floats(allow_nan=False, allow_infinity=False),
    }
)

COLUMNS: Final = {
    "yes": Column("BOOLEAN", (True, False), st.booleans()),
    "tiny": _whole("TINYINT", 8),
    "small": _whole("SMALLINT", 16),
    "middle": _whole("INT", 32),
    "big": _whole("BIGINT", 64),
    "single": Column(
        "FLOAT", (0.0, -1.5, 2.0**-149, 3.4028234663852886e38, math.nan, _INF, -_INF), st.floats(width=32)
    ),
    "real": Column("DOUBLE", (0.0, 0.1, 5e-324, 1.7976931348623157e308, math.nan, _INF, -_INF), st.floats()),
    "text": Column("STRING", _TEXTS, _TEXT),
    "bytes": Column("BINARY", (b"", bytes(range(256)), b"\0"), st.binary(max_size=20)),
    "day": Column("DATE", _DAYS, st.integers(FIRST_DAY, LAST_DAY)),
    "at": Column("TIMESTAMP", _MOMENTS, st.integers(FIRST_US, LAST_US)),
    "local": Column("TIMESTAMP_NTZ", _MOMENTS, st.integers(FIRST_US, LAST_US)),
    "price": decimals(9, 2),
    "exact": decimals(38, 18),
    "numbers": Column(
        "ARRAY<BIGINT>", ([], [2**63 - 1, -(2**63), 2**53 + 1]), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4)
    ),
    "facts": Column(
        "MAP<STRING, BOOLEAN>", ({}, {"": True, 'ü"': False}), st.dictionaries(_TEXT, st.booleans(), max_size=3)
    ),
    "part": Column(
        "STRUCT<text: STRING, day: DATE, at: TIMESTAMP, bytes: BINARY, x: DOUBLE>",
        (_PART,),
        _PARTS,
        expected=part_as_json,
    ),
}
"""By the column's name."""


def is_stored(database: str, column: Column, value: Any) -> bool:
    """Return whether a database has such a value. Otherwise its row must be refused."""
    match column.base:
        case "FLOAT" | "DOUBLE":
            unusual = database == "postgresql" or (database == "sqlite" and not math.isnan(value))
            return math.isfinite(value) or unusual
        case "STRING":  # a nested value has U+0000 as an escape, which JSON keeps
            return database != "postgresql" or "\0" not in value
        case "DATE":
            return _is_in_years(database, value)
        case "TIMESTAMP" | "TIMESTAMP_NTZ":
            return _is_in_years(database, value // DAY_US)
    return True


_YEARS: Final = {"mysql": (0, 9999), "postgresql": (1, 32_767), "sqlite": (1, 9999)}
"""Years of the dates that a database takes by this product. PostgreSQL has more of them, and Arrow writes these."""


def _is_in_years(database: str, day: int) -> bool:
    first, last = _YEARS[database]
    return _day_of(first) <= day < _day_of(last + 1)


def _day_of(year: int) -> int:
    """Return the days from 1970 to the first day of a year."""
    before = year - 1
    return FIRST_DAY + before * 365 + before // 4 - before // 100 + before // 400
