"""What fits a column of a JSON record: a check for each type, of a value as Python's parser gives it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt

UNSURE: Final = "unsure"
OTHER: Final = "another value"
"""The answers of a check that are no kind of value: the parser has to look; a value does not fit, and is quoted."""

Check = Callable[[Any], str | None]
"""Of one value as Python's parser gives it: None if it fits; UNSURE; OTHER; else the kind of what it is."""

KINDS: Final[Mapping[type, str]] = {
    str: "string",
    bool: "boolean",
    int: "number",
    float: "number",
    Decimal: "number",
    tuple: "object",
    list: "array",
}


def is_twice(pairs: Sequence[tuple[str, Any]], names: Sequence[str]) -> bool:
    """Whether an object names one of these twice."""
    given = [name for name, _ in pairs]
    return any(given.count(name) > 1 for name in names)


def check_of(kind: pa.DataType) -> Check:
    """Of objects as tuples of pairs, arrays as lists, and numbers as `Judge` has them read."""
    if pt.is_struct(kind):
        return _struct(kind)
    if pt.is_list(kind):
        return _list(check_of(kind.value_type), kind.value_field.nullable)
    if pt.is_map(kind):
        return _map(check_of(kind.item_type), kind.item_field.nullable)
    if pt.is_signed_integer(kind):
        return _integer(kind.bit_width)
    if pt.is_floating(kind):
        return _floating(3.4028235e38 if kind == pa.float32() else 1.7976931348623157e308)
    if pt.is_decimal(kind):
        return _decimals(kind.precision, kind.scale)
    if kind == pa.bool_():
        return lambda value: None if type(value) is bool else KINDS[type(value)]
    if kind == pa.string():
        return lambda value: None if type(value) is str else KINDS[type(value)]
    form = _FORMS[kind]
    return lambda value: form(value) if type(value) is str else KINDS[type(value)]


def _integer(bits: int) -> Check:
    first, last = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    def check(value: Any) -> str | None:
        kind = type(value)
        if kind is int:
            return None if first <= value <= last else OTHER
        return OTHER if kind is float or kind is Decimal else KINDS[kind]

    return check


def _floating(most: float) -> Check:
    def check(value: Any) -> str | None:
        kind = type(value)
        if kind is float or kind is int or kind is Decimal:
            if -most < value < most:
                return None
            return OTHER if not -1.0001 * most < value < 1.0001 * most else UNSURE  # what is rounded to the greatest
        return KINDS[kind]

    return check


_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")


def _decimals(precision: int, scale: int) -> Check:
    def check(value: Any) -> str | None:
        kind = type(value)
        if kind is str:
            if _DECIMAL.fullmatch(value) is None:
                return OTHER
            try:
                value = Decimal(value)
            except InvalidOperation:
                return UNSURE
        elif kind is float:  # NaN or an infinity
            return OTHER
        elif kind is int:
            return None if abs(value) < 10 ** (precision - scale) else OTHER
        elif kind is not Decimal:
            return KINDS[kind]
        _, digits, exponent = value.as_tuple()
        if not isinstance(exponent, int) or not any(digits):
            return UNSURE  # too large for Python; or zero, with an exponent
        if len(digits) + exponent > precision - scale or (-exponent > scale and any(digits[-(-exponent - scale) :])):
            return OTHER
        return None if len(digits) <= precision and exponent <= 0 else UNSURE

    return check


def _struct(kind: pa.StructType) -> Check:
    checks = [(child.name, child.nullable, check_of(child.type)) for child in kind]
    names = [name for name, _, _ in checks]

    def check(value: Any) -> str | None:
        if type(value) is not tuple:
            return KINDS[type(value)]
        values = dict(value)
        if len(values) != len(value) and is_twice(value, names):
            return OTHER
        answers = []
        for name, nullable, inner in checks:
            child = values.get(name)
            answers.append((None if nullable else OTHER) if child is None else inner(child))
        return _worst(answers)

    return check


def _list(inner: Check, nullable: bool) -> Check:
    def check(value: Any) -> str | None:
        if type(value) is not list:
            return KINDS[type(value)]
        return _worst([(None if nullable else OTHER) if child is None else inner(child) for child in value])

    return check


def _map(inner: Check, nullable: bool) -> Check:
    def check(value: Any) -> str | None:
        if type(value) is not tuple:
            return KINDS[type(value)]
        if len(dict(value)) != len(value):
            return OTHER
        return _worst([(None if nullable else OTHER) if child is None else inner(child) for _, child in value])

    return check


def _worst(answers: Sequence[str | None]) -> str | None:
    """Of what is inside a value: the words for it name the place, and so they are not those for another value."""
    if all(answer is None for answer in answers):
        return None
    return OTHER if any(answer is not None and answer is not UNSURE for answer in answers) else UNSURE


_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_MOMENT: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})(?:[ T]([0-9]{2})(?::?([0-9]{2})(?::?([0-9]{2})(?:\.[0-9]{1,6})?)?)?"
    r"(Z|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]*+={0,2}")
_DAYS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def _is_day(year: str, month: str, day: str) -> bool:
    if not (1 <= int(month) <= 12 and 1 <= int(day) <= _DAYS[int(month) - 1]):
        return False
    at = int(year)
    return month != "02" or day != "29" or (at % 4 == 0 and (at % 100 != 0 or at % 400 == 0))


def _date(text: str) -> str | None:
    match = _DATE.fullmatch(text)
    return None if match is not None and _is_day(*match.groups()) else OTHER


def _moment(text: str) -> str | None:
    match = _MOMENT.fullmatch(text)
    if match is None or not _is_day(match[1], match[2], match[3]):
        return OTHER
    if int(match[4] or 0) > 23 or int(match[5] or 0) > 59 or int(match[6] or 0) > 59:
        return OTHER
    return None if match[7] in (None, "Z") else UNSURE  # which hours of a zone there are is left to the parser


def _local(text: str) -> str | None:
    return OTHER if text.endswith("Z") else _moment(text)


def _base64(text: str) -> str | None:
    return None if len(text) % 4 == 0 and _BASE64.fullmatch(text) is not None else OTHER


_FORMS: Final[Mapping[pa.DataType, Check]] = {
    pa.date32(): _date,
    pa.timestamp("us"): _local,
    pa.timestamp("us", "UTC"): _moment,
    pa.binary(): _base64,
}
