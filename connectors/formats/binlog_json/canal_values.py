"""Columns from the texts in which Canal writes all values. A text that does not fit is null."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from connectors.formats.casting import cast_each, flags, null_where
from connectors.formats.spans import Flags, binary_of, content_of

_WHOLE: Final = r"^-?[0-9]+$"
_NUMBER: Final = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
"""Arrow's casts also take hexadecimal numbers, NaN and infinity, which MySQL does not have."""


def is_readable(kind: pa.DataType) -> bool:
    """Return whether texts can be read as this type.

    TIMESTAMP is not: the text is in the time zone of Canal's process, which no record states.
    """
    if pt.is_timestamp(kind):
        return kind.tz is None
    return bool(_is_number(kind) or kind in (pa.string(), pa.binary(), pa.bool_(), pa.date32()))


def from_text(texts: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Flags]:
    """Return a column, and which texts do not fit."""
    if kind == pa.string():
        return texts, np.zeros(len(texts), np.bool_)
    if kind == pa.binary():
        return _latin_1(texts)
    if kind == pa.bool_():
        known = pc.is_in(texts, pa.array(["0", "1"]))
        wrong = flags(pc.and_(texts.is_valid(), pc.invert(known)))
        return pc.if_else(texts.is_valid(), pc.equal(texts, "1"), pa.scalar(None, kind)), wrong
    odd = np.zeros(len(texts), np.bool_)
    if _is_number(kind):
        pattern = _WHOLE if pt.is_integer(kind) else _NUMBER
        odd = flags(pc.invert(pc.fill_null(pc.match_substring_regex(texts, pattern), True)))
        texts = null_where(texts, odd)
    column, wrong = cast_each(texts, kind)
    return column, odd | wrong


def _is_number(kind: pa.DataType) -> bool:
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind))


def _latin_1(texts: pa.Array) -> tuple[pa.Array, Flags]:
    """Return the bytes of texts in which each character, up to U+00FF, is a byte.

    In UTF-8 such a character has one byte, or a first byte of 0xC2 or 0xC3 and a second one.
    """
    if not len(texts):
        return pa.array([], pa.binary()), np.zeros(0, np.bool_)
    data, starts, ends = content_of(pc.fill_null(texts.cast(pa.binary()), b""))
    wide = np.concatenate([[0], np.cumsum(data > 0xC3)])
    wrong = wide[ends] > wide[starts]
    kept = (data != 0xC2) & (data != 0xC3)
    content = data.copy()
    content[1:][data[:-1] == 0xC3] += 0x40
    places = np.concatenate([[0], np.cumsum(kept)])
    column = binary_of(content[kept], (places[starts], places[ends]))
    return null_where(column, wrong | flags(texts.is_null())), wrong
