"""Casts of a whole column that find the values which do not fit, and the reasons of these."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from connectors.formats.fine_numbers import too_fine, too_long
from connectors.formats.spans import Flags

Faults = dict[int, str]
"""Reasons by the index of a value in its column. The first reason counts."""

_DIGITS: Final = 76
"""Digits of a decimal256."""
_LONGEST_INTEGER: Final = 20
"""Digits of the largest integer of 64 bits."""

_FAMILIES = (pt.is_integer, pt.is_floating, pt.is_decimal, pt.is_string, pt.is_binary, pt.is_boolean, pt.is_date)


def flags(mask: pa.Array) -> Flags:
    """Return a boolean column without nulls for numpy."""
    return np.array(mask.to_numpy(zero_copy_only=False), np.bool_)


def add_faults(faults: Faults, wrong: Flags, reason: str) -> None:
    """Add a reason for each wrong value that has none."""
    if wrong.any():
        for at in np.flatnonzero(wrong).tolist():
            faults.setdefault(at, reason)


def cast_each(values: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Flags]:
    """Cast without loss, and return where a value does not fit, which is null then.

    Costs one cast if all values fit, and a further one for each halving of a part that does not.
    """
    wrong = np.zeros(len(values), np.bool_)
    if pt.is_decimal(kind) and pt.is_string(values.type):
        wrong = too_fine(values) | too_long(values)
        values = null_where(values, wrong)
    try:
        return _cast(values, kind), wrong
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        parts = [(0, values)]
    while parts:
        start, part = parts.pop()
        try:
            _cast(part, kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            half = len(part) // 2
            if half == 0:
                wrong[start] = True
            else:
                parts += [(start, part.slice(0, half)), (start + half, part.slice(half))]
    return _cast(null_where(values, wrong), kind), wrong


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast without loss. Raises ArrowInvalid, ArrowNotImplementedError."""
    if not pt.is_decimal(kind):
        return values.cast(kind)
    if pt.is_integer(values.type):  # Arrow refuses a decimal that does not hold all integers
        values = values.cast(pa.decimal128(_LONGEST_INTEGER, 0))
    # Arrow overflows silently if it scales 128 bits up. 256 bits hold 38 digits that are scaled by 38 more.
    return values.cast(pa.decimal256(_DIGITS, kind.scale)).cast(kind)


def null_where(values: pa.Array, wrong: Flags) -> pa.Array:
    """Return the values with null in these places."""
    return pc.if_else(pa.array(wrong), pa.scalar(None, values.type), values) if wrong.any() else values


def is_castable(source: pa.DataType, kind: pa.DataType) -> bool:
    """Whether values of one type may be read as another: numbers that grow or shrink, and never text as a number."""
    if source == kind or pt.is_null(source):
        return True
    if pt.is_timestamp(source) and pt.is_timestamp(kind):
        return (source.tz is None) == (kind.tz is None)
    if pt.is_struct(source) and pt.is_struct(kind):
        inside = {field.name: field.type for field in source}
        return all(field.name in inside and is_castable(inside[field.name], field.type) for field in kind)
    if pt.is_list(source) and pt.is_list(kind):
        return is_castable(source.value_type, kind.value_type)
    if pt.is_map(source) and pt.is_map(kind):
        return bool(source.key_type == kind.key_type) and is_castable(source.item_type, kind.item_type)
    if pt.is_integer(source) and (pt.is_decimal(kind) or pt.is_floating(kind)):
        return True
    return any(test(source) and test(kind) for test in _FAMILIES)
