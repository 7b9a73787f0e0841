"""Readings: how the values of a column, in the type in which they are written, become the column of the schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from connectors.formats.avro.unscaled import decimal_column
from connectors.formats.casting import cast_each, flags, is_castable
from connectors.formats.debezium.times import days, moments, times_of_day
from connectors.formats.debezium.written import Written
from connectors.formats.spans import Flags
from connectors.spark_types import spark_type
from eos.errors import SpecError

Convert = Callable[[pa.Array], tuple[pa.Array, Flags]]
"""Return a column, and where a value does not fit, which is null then. Null stays null."""

VARIABLE: Final = pa.struct([("scale", pa.int32()), ("value", pa.binary())])
"""A decimal with its own scale, as Debezium writes `VariableScaleDecimal`."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How one column is read."""

    wire: pa.DataType  # of the values as they are decoded
    convert: Convert | None = None  # None: these are the column
    reason: str = ""  # why a value is wrong


def reading_of(target: pa.DataType, written: Written | None) -> Reading:
    """Return the reading of a column of type `target`. `written`: None if no schema and no spec states it. Pure."""
    name = written.name if written else _assumed(target)
    if pt.is_decimal(target):
        if name == "Decimal":
            scale = target.scale if written is None or written.scale is None else written.scale
            return Reading(pa.binary(), partial(_fixed_scale, target, scale), f"not a number of {spark_type(target)}")
        if name == "VariableScaleDecimal":
            return Reading(VARIABLE, partial(_variable_scale, target), f"not a number of {spark_type(target)}")
    elif target == pa.date32() and name == "Date":
        return Reading(pa.int64(), days, "not a day of the years 1 to 9999")
    elif pt.is_timestamp(target) and name in _MOMENTS:
        wrong = "has nanoseconds, or is" if name == "NanoTimestamp" else "is"
        return Reading(pa.int64(), partial(moments, target, *_MOMENTS[name]), f"{wrong} not in the years 1 to 9999")
    elif pt.is_timestamp(target) and name == _UNKNOWN:
        return Reading(pa.int64(), partial(_unknown, target), _NO_UNIT)
    elif pt.is_timestamp(target) and name == "IsoTimestamp" and target.tz is None:
        return Reading(pa.string(), partial(_iso, target), "not a time in ISO 8601")
    elif target == pa.string() and name in _TIMES:
        wrong = "has nanoseconds, or is" if name == "NanoTime" else "is"
        return Reading(pa.int64(), partial(times_of_day, *_TIMES[name]), f"{wrong} more than 999 hours")
    return Reading(target)


def cast_reading(kind: pa.DataType, target: pa.DataType, written: Written | None) -> Reading | str:
    """Return the reading of a column whose values are decoded to `kind`, or why there is not any."""
    if kind == pa.null():
        return Reading(kind, partial(cast_each, kind=target))
    reading = reading_of(target, written)
    if reading.convert is not None and is_castable(kind, reading.wire):
        return reading
    if kind == target:
        return Reading(kind)
    is_exact = pt.is_decimal(target) or pt.is_timestamp(target) or pt.is_date(target)
    if (pt.is_string(kind) and is_exact) or (pt.is_floating(kind) and pt.is_decimal(target)):
        return Reading(kind, partial(_from_text, target), f"does not fit {spark_type(target)}")
    if not is_castable(kind, target):
        return f"written as {spark_type(kind)}, and the schema has {spark_type(target)}"
    return Reading(kind, partial(cast_each, kind=target), f"does not fit {spark_type(target)}")


def check_written(column: str, target: pa.DataType, name: str) -> None:
    """Raise SpecError if the spec names a type that the column cannot be read from."""
    for test, names in _TAKEN.items():
        if test(target):
            if name not in names:
                message = f"types: column {column} is {spark_type(target)}, which is not read from {name!r}"
                raise SpecError(message, remedy=f"use {', '.join(names)}")
            return
    message = f"types: column {column} is {spark_type(target)}, which is read as it is written"
    raise SpecError(message, remedy="leave the column out of `types`")


_UNKNOWN: Final = "a number without a unit"
_NO_UNIT: Final = (
    "a number, and neither the record nor `types` states its unit; name it in `types`, such as MicroTimestamp"
)
_MILLIS, _MICROS, _NANOS = (1_000, 1), (1, 1), (1, 1_000)
"""By what a number is multiplied, and divided, to be microseconds."""
_MOMENTS: Final = {"Timestamp": _MILLIS, "MicroTimestamp": _MICROS, "NanoTimestamp": _NANOS}
_TIMES: Final = {"Time": _MILLIS, "MicroTime": _MICROS, "NanoTime": _NANOS}
CONVERTED: Final = frozenset({"Decimal", "VariableScaleDecimal", "Date", "IsoTimestamp", *_MOMENTS, *_TIMES})
"""Types whose values become other values in a column."""
_TAKEN: Final[Mapping[Callable[[pa.DataType], bool], tuple[str, ...]]] = {
    pt.is_decimal: ("Decimal", "VariableScaleDecimal", "string", "double"),
    pt.is_date: ("Date", "IsoDate"),
    lambda kind: pt.is_timestamp(kind) and kind.tz is None: (*_MOMENTS, "IsoTimestamp"),
    pt.is_timestamp: ("ZonedTimestamp", "IsoTimestamp", *_MOMENTS),
    pt.is_string: ("string", *_TIMES),
}
"""By a test of the column's type, the types that it can be read from."""
WRITTEN: Final = tuple(dict.fromkeys(name for names in _TAKEN.values() for name in names))
"""All types that a column can be read from."""


def _assumed(target: pa.DataType) -> str:
    """Return the type that Debezium writes by default, where only one is possible."""
    if pt.is_decimal(target):
        return "Decimal"
    if target == pa.date32():
        return "Date"
    return _UNKNOWN if target == pa.timestamp("us") else ""


def _fixed_scale(target: pa.Decimal128Type, scale: int, values: pa.Array) -> tuple[pa.Array, Flags]:
    if scale == target.scale:
        return decimal_column(values, target)
    if scale > _DIGITS:
        return pa.nulls(len(values), target), flags(values.is_valid())
    found, wrong = decimal_column(values, pa.decimal128(_DIGITS, scale))
    cast, lost = cast_each(found, target)
    return cast, wrong | lost


def _variable_scale(target: pa.Decimal128Type, values: pa.Array) -> tuple[pa.Array, Flags]:
    scales, numbers = pc.struct_field(values, ["scale"]), pc.struct_field(values, ["value"])
    known = pc.fill_null(pc.and_(pc.greater_equal(scales, 0), pc.less_equal(scales, _DIGITS)), False)
    left = pc.and_(known, numbers.is_valid())
    wrong = flags(pc.and_not(values.is_valid(), left))
    found = pa.nulls(len(values), target)
    for scale in pc.unique(scales.filter(left)).to_pylist():
        chosen = pc.and_(left, pc.fill_null(pc.equal(scales, scale), False))
        column, lost = _fixed_scale(target, scale, pc.if_else(chosen, numbers, pa.scalar(None, pa.binary())))
        found, wrong = pc.coalesce(found, column), wrong | lost
    return found, wrong


_DIGITS: Final = 38


def _from_text(target: pa.DataType, values: pa.Array) -> tuple[pa.Array, Flags]:
    """Cast texts, and doubles by their shortest text: a cast of the numbers would round them."""
    return cast_each(values.cast(pa.string()), target)


def _iso(target: pa.DataType, values: pa.Array) -> tuple[pa.Array, Flags]:
    """Cast texts of times without a zone, which Debezium writes as if they were in UTC."""
    return cast_each(pc.replace_substring_regex(values, "Z$", ""), target)


def _unknown(target: pa.DataType, values: pa.Array) -> tuple[pa.Array, Flags]:
    return pa.nulls(len(values), target), flags(values.is_valid())
