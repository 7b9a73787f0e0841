"""Columns from their texts: exact, or bad."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from connectors.formats.casting import cast_each, flags, null_where
from connectors.formats.spans import Flags
from connectors.spark_types import spark_type
from eos.errors import SpecError

_WHOLE: Final = r"^-?[0-9]{1,19}$"
_NUMBER: Final = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?$"
_FLAG: Final = r"^([tT][rR][uU][eE]|[fF][aA][lL][sS][eE])$"
_DAY: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_MOMENT: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?)?"
_ZONE: Final = r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)$"
_LONGEST: Final = 400
"""Bytes of the text of a number. A double has no more than 310 digits in front of its point."""
_SUPPORTED: Final = (pt.is_boolean, pt.is_signed_integer, pt.is_floating, pt.is_decimal, pt.is_string, pt.is_date)


def check(schema: pa.Schema) -> None:
    """Refuse, as SpecError, a schema whose columns have no text."""
    for field in schema:
        if not any(test(field.type) for test in (*_SUPPORTED, pt.is_timestamp)):
            message = f"column {field.name}: {spark_type(field.type)} is not supported in CSV"
            raise SpecError(message, remedy="use STRING, and convert it in a step: unbase64(…), from_json(…)")


def column_of(texts: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Flags]:
    """Return the column of these texts, and where a text does not fit it, which is null then. Null stays null."""
    if pt.is_string(kind):
        return texts, np.zeros(len(texts), np.bool_)
    if pt.is_boolean(kind):
        return _cast(texts, kind, _FLAG)
    if pt.is_signed_integer(kind):
        return _cast(texts, kind, _WHOLE)
    if pt.is_date(kind):
        return _cast(texts, kind, _DAY)
    if pt.is_timestamp(kind):
        return _moments(texts, kind)
    if pt.is_decimal(kind):
        return _cast(texts, kind, _NUMBER)
    found, wrong = _cast(texts, kind, _NUMBER)
    finite = pc.fill_null(pc.is_finite(found), True)
    return null_where(found, ~flags(finite)), wrong | ~flags(finite)


def _moments(texts: pa.Array, kind: pa.TimestampType) -> tuple[pa.Array, Flags]:
    if kind.tz is None:
        return _cast(texts, kind, f"{_MOMENT}$")
    has_zone = pc.match_substring_regex(texts, _ZONE)
    has_time = pc.match_substring_regex(texts, ":")
    zoned = pc.if_else(pc.and_(has_zone, has_time), texts, pc.binary_join_element_wise(texts, "Z", ""))
    bare_day = pc.match_substring_regex(texts, _DAY)
    zoned = pc.if_else(bare_day, pc.binary_join_element_wise(texts, "T00:00Z", ""), zoned)
    return _cast(zoned, kind, f"{_MOMENT}{_ZONE}")


def _cast(texts: pa.Array, kind: pa.DataType, form: str) -> tuple[pa.Array, Flags]:
    """Cast the texts of a form. Costs one cast if all fit, and one for each halving of a part that does not."""
    matches = pc.and_(pc.match_substring_regex(texts, form), pc.less_equal(pc.binary_length(texts), _LONGEST))
    wrong = ~flags(pc.fill_null(matches, True))
    texts = null_where(texts, wrong)
    found, lost = cast_each(texts, kind)
    return found, wrong | lost
