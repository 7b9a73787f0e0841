"""What one JSON value must decode to, worked out with Python's own json: the oracle of the property tests."""

from __future__ import annotations

import base64
import binascii
import json
import re
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

BAD = "BAD"


class Bad(Exception):
    """The value is a bad record."""


class Number(str):
    """A number as it is written."""


class Pairs(list[tuple[str, Any]]):
    """An object's fields in order, with those given twice."""


_ISO = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})(?:[ T](\d{2})(?::?(\d{2})(?::?(\d{2})(?:\.(\d{1,6}))?)?)?(Z|[+-]\d{2}(?::?\d{2})?)?)?"
)
_INTEGERS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}


def expected(value: bytes | None, schema: pa.Schema) -> dict[str, Any] | str:
    """The row of a value, or BAD."""
    try:
        return _struct(_document(value), list(schema))
    except Bad:
        return BAD


def _document(value: bytes | None) -> Pairs:
    if value is None:
        return Pairs()
    try:
        text = value.decode().strip(" \t\n\r")
    except UnicodeDecodeError:
        raise Bad from None
    if not (text.startswith("{") and text.endswith("}")):
        raise Bad
    try:
        document = json.loads(
            text, object_pairs_hook=Pairs, parse_int=_number, parse_float=_number, parse_constant=lambda _: float("nan")
        )
    except ValueError:
        raise Bad from None
    _check_text(document)
    assert isinstance(document, Pairs)
    return document


def _number(text: str) -> Number:
    if abs(Decimal(text)) > Decimal("1.7976931348623157e308"):  # the greatest double
        raise ValueError(text)
    return Number(text)


def _check_text(node: Any) -> None:
    """Half a surrogate pair is no character, wherever it stands."""
    if isinstance(node, str):
        try:
            node.encode()
        except UnicodeEncodeError:
            raise Bad from None
    elif isinstance(node, Pairs):
        for key, child in node:
            _check_text(key)
            _check_text(child)
    elif isinstance(node, list):
        for child in node:
            _check_text(child)


def _struct(pairs: Pairs, fields: list[pa.Field]) -> dict[str, Any]:
    row = {}
    for field in fields:
        given = [child for key, child in pairs if key == field.name]
        if len(given) > 1:
            raise Bad
        row[field.name] = _value(given[0] if given else None, field.type)
        if row[field.name] is None and not field.nullable:
            raise Bad
    return row


def _value(node: Any, kind: pa.DataType) -> Any:
    if node is None:
        return None
    if pt.is_struct(kind):
        _need(isinstance(node, Pairs))
        return _struct(node, list(kind))
    if pt.is_list(kind):
        _need(isinstance(node, list) and not isinstance(node, Pairs))
        return [_value(child, kind.value_type) for child in node]
    if pt.is_map(kind):
        _need(isinstance(node, Pairs) and len({key for key, _ in node}) == len(node))
        entries = [(key, _value(child, kind.item_type)) for key, child in node]
        _need(kind.item_field.nullable or all(child is not None for _, child in entries))
        return entries
    if kind == pa.bool_():
        _need(isinstance(node, bool))
        return node
    if kind in _INTEGERS:
        _need(isinstance(node, Number) and re.fullmatch(r"-?\d+", node) is not None)
        _need(-(2 ** (_INTEGERS[kind] - 1)) <= int(node) < 2 ** (_INTEGERS[kind] - 1))
        return int(node)
    if pt.is_floating(kind):
        _need(isinstance(node, Number))
        return _float(float(node), kind)
    if pt.is_decimal(kind):
        _need(isinstance(node, str))
        return _decimal(node, kind.precision, kind.scale)
    _need(isinstance(node, str) and not isinstance(node, Number))
    return _text(node, kind)


def _float(value: float, kind: pa.DataType) -> float:
    if kind == pa.float64():
        return value
    _need(abs(value) < 3.4028236e38)
    return float(pa.scalar(value, pa.float64()).cast(pa.float32(), safe=False).as_py())


def _decimal(text: str, precision: int, scale: int) -> Decimal:
    _need(re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text) is not None)
    with localcontext() as context:
        context.prec = 1000
        value = Decimal(text)
        _need(abs(value) < Decimal(10) ** (precision - scale))
        fitted = value.quantize(Decimal(1).scaleb(-scale))
        _need(fitted == value)
    return fitted


def _text(text: str, kind: pa.DataType) -> Any:
    if kind == pa.string():
        return text
    if kind == pa.binary():
        try:
            return base64.b64decode(text.encode(), validate=True)
        except (binascii.Error, ValueError):
            raise Bad from None
    if kind == pa.date32():
        _need(re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII) is not None)
        return _calendar(date, *map(int, text.split("-")))
    match = re.fullmatch(_ISO, text)
    _need(match is not None and text.isascii())
    assert match is not None
    *numbers, fraction, zone = match.groups(default="0")
    _need(not (zone != "0" and kind == pa.timestamp("us")))
    moment = _calendar(datetime, *map(int, numbers), int(fraction.ljust(6, "0")))
    if kind == pa.timestamp("us"):
        return moment
    return (moment.replace(tzinfo=_zone(zone))).astimezone(UTC)


def _zone(text: str) -> timezone:
    if text in ("0", "Z"):
        return UTC
    digits = text[1:].replace(":", "").ljust(4, "0")
    _need(int(digits[:2]) < 24 and int(digits[2:]) < 60)
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-offset if text[0] == "-" else offset)


def _calendar(kind: Any, *numbers: int) -> Any:
    try:
        return kind(*numbers)
    except ValueError:
        raise Bad from None


def _need(condition: bool) -> None:
    if not condition:
        raise Bad
