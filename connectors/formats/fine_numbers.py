"""Numbers with so many digits that Arrow must not convert their texts.

Arrow (26) divides by a power of ten from a table, and does not check that the table has it. With more digits behind
the point than `FINEST`, `1e-194` becomes 0 without an error, and `1e-999999999` ends the process. If a number has
more digits than `FINEST` in all, Arrow keeps its lower 256 bits: 300 nines become -1.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from connectors.formats.spans import Flags

FINEST: Final = 76
"""Digits behind the point that a text of a decimal256 may have."""
TOO_FINE: Final = f"more than {FINEST} digits behind the point"
_UNREADABLE: Final = "a number with a large negative exponent, in a text that is not JSON"
_MOST: Final = 38
"""Digits of a decimal in JSON. Arrow refuses longer ones before it divides."""

_NUMBER: Final = r"^[+-]?[0-9]*(?:\.(?P<behind>[0-9]*))?(?:[eE](?P<sign>[+-]?)0*(?P<exponent>[0-9]*))?$"
_ONE: Final = re.compile(_NUMBER)
_LONGEST: Final = 6
"""Digits of an exponent that are counted. A longer exponent is as good as infinite."""
_SUSPICIOUS: Final = r"[0-9.][eE]-0*(39|[4-9][0-9]|[1-9][0-9][0-9])"
"""An exponent with which a number of `_MOST` digits can be too fine."""


def too_fine(texts: pa.Array) -> Flags:
    """Return which texts are numbers with more than `FINEST` digits behind the point. Other texts are not."""
    found = np.zeros(len(texts), np.bool_)
    is_long = pc.or_(pc.greater(pc.binary_length(texts), FINEST), pc.match_substring(texts, "e", ignore_case=True))
    places = np.flatnonzero(pc.fill_null(is_long, False).to_numpy(zero_copy_only=False))
    if not len(places):
        return found
    parts = pc.extract_regex(texts.take(pa.array(places)), _NUMBER)
    behind, sign, exponent = (pc.struct_field(parts, [name]) for name in ("behind", "sign", "exponent"))
    exponent = pc.if_else(pc.greater(pc.binary_length(exponent), _LONGEST), "9" * _LONGEST, exponent)
    size = pc.if_else(pc.equal(exponent, ""), "0", exponent).cast(pa.int64())
    digits = pc.add(pc.binary_length(behind), pc.if_else(pc.equal(sign, "-"), size, pc.negate(size)))
    found[places] = pc.fill_null(pc.greater(digits, FINEST), False).to_numpy(zero_copy_only=False)
    return found


def too_long(texts: pa.Array) -> Flags:
    """Return which texts are numbers with more than `FINEST` digits, zeros in front of them left out."""
    found = np.zeros(len(texts), np.bool_)
    places = np.flatnonzero(pc.fill_null(pc.greater(pc.binary_length(texts), FINEST), False).to_numpy(False))
    if not len(places):
        return found
    digits = pc.replace_substring_regex(texts.take(pa.array(places)), r"[eE].*$|^[+-]?0*\.?0*|\.", "")
    found[places] = pc.greater(pc.binary_length(digits), FINEST).to_numpy(False)
    return found


def has_decimals(kind: pa.DataType) -> bool:
    """Return whether values of this type have decimals at any depth."""
    if pt.is_struct(kind):
        return any(has_decimals(child.type) for child in kind)
    if pt.is_map(kind):
        return has_decimals(kind.item_type)
    return has_decimals(kind.value_type) if pt.is_list(kind) else bool(pt.is_decimal(kind))


def check_decimals(values: pa.Array, text: bytes, schema: pa.Schema) -> None:
    """Raise ValueError if one of these JSON objects has a number for a decimal that is too fine.

    `values`: texts in UTF-8, without nulls. `text`: all of them joined. Reads the texts one by one that may have such a
    number. They are rare: a number below 1e-38 has a column of type DOUBLE.
    """
    if not (b"e-" in text or b"E-" in text) or not any(map(has_decimals, schema.types)):
        return
    kind = pa.struct(list(schema))
    for value in values.filter(pc.match_substring_regex(values, _SUSPICIOUS)).to_pylist():
        found = value.decode().strip(" \t\r\n")
        try:
            document, end = _DECODER.raw_decode(found)
        except (ValueError, RecursionError):  # Arrow may take what Python does not
            raise ValueError(_UNREADABLE) from None
        if end != len(found):
            raise ValueError("more than one JSON document in a value")
        if _has_fine(document, kind):
            raise ValueError(TOO_FINE)


_DECODER: Final = json.JSONDecoder(object_pairs_hook=tuple, parse_float=str, parse_int=str)
"""Reads objects as tuples of pairs, so a name that is given twice is there twice, and numbers as texts."""


def _has_fine(value: Any, kind: pa.DataType) -> bool:
    if pt.is_decimal(kind):
        return isinstance(value, str) and _is_fine(value)
    if pt.is_struct(kind) and isinstance(value, tuple):
        inside = {child.name: child.type for child in kind}
        return any(_has_fine(item, inside[name]) for name, item in value if name in inside)
    if pt.is_map(kind) and isinstance(value, tuple):
        return any(_has_fine(item, kind.item_type) for _, item in value)
    if pt.is_list(kind) and isinstance(value, list):
        return any(_has_fine(item, kind.value_type) for item in value)
    return False


def _is_fine(text: str) -> bool:
    match = _ONE.match(text)
    if match is None or match["sign"] != "-":
        return False
    exponent = match["exponent"]
    return len(exponent) > _LONGEST or len(match["behind"] or "") + int(exponent or 0) > FINEST
