"""A judge of single JSON records: after a batch failed to parse, it finds most of what is bad without Arrow.

A call of Arrow's parser takes about as long as a hundred of Python's. So the records that are bad for sure leave a
batch first, and Arrow parses the others at once.

Invariant: a record that the judge calls bad is one that Arrow's parser refuses. The other way round does not hold: what
the judge does not know for sure (`UNSURE`) is left to the parser.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt

from connectors.formats.json_checks import KINDS, OTHER, UNSURE, check_of, is_twice

_WHITESPACE: Final = " \t\n\r"
_LONG: Final = 300  # digits: fewer make no number that is larger than any double
_LARGEST_EXPONENT: Final = 308


@dataclass(frozen=True, slots=True)
class Broken:
    """No JSON object. `reason`: in the parser's words, where the judge knows them."""

    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Unfit:
    """The value of a column does not fit it, and the columns before it are sound."""

    column: str
    kind: str | None = None  # equal for values that the parser refuses in the same words; None: the words quote a value


@dataclass(frozen=True, slots=True)
class Bad:
    """Refused, and the parser has to say why."""


Fault = Broken | Unfit | Bad

BROKEN: Final = Broken()
BAD: Final = Bad()
EMPTY: Final = Broken("empty value")
NO_OBJECT: Final = Broken("not a JSON object")
NUL: Final = Broken("a raw NUL byte is not JSON")


class _TooBigError(Exception):
    """A number with an exponent that the parser refuses wherever the number stands."""


class Judge:
    """Of records of one schema. Cheap to make; not shared between threads."""

    def __init__(self, schema: pa.Schema) -> None:
        exact = any(map(_has_decimals, schema.types))
        decoder: Any = json.JSONDecoder(object_pairs_hook=tuple, parse_float=self._decimal if exact else self._float)
        self._scan = decoder.scan_once
        self._infinite = 0  # numbers of the newest record that are larger than any double
        self._checks = [(field.name, field.nullable, check_of(field.type)) for field in schema]
        self._unfit = {
            (field.name, kind): Unfit(field.name, kind)
            for field in schema
            for kind in (*KINDS.values(), "absent", "null")
        }

    def fault(self, text: str) -> Fault | None:
        """Why the parser refuses a value that is UTF-8; None where it takes it, or where only the parser knows."""
        if not (text.startswith("{") and text.endswith("}")):
            text = text.strip(_WHITESPACE)
            if not (text.startswith("{") and text.endswith("}")):
                return NO_OBJECT if text else EMPTY
        return NUL if "\0" in text else self._of_object(text)

    def _of_object(self, text: str) -> Fault | None:
        self._infinite = 0
        try:
            pairs, end = self._scan(text, 0)
        except (json.JSONDecodeError, StopIteration):
            if not _has_constant(text):
                return BROKEN
            translated = _INFINITY.sub(_as_python_says_it, text)  # the parser takes this word, too
            return self._of_object(translated) if translated != text else None
        except _TooBigError:
            return BROKEN
        except (ValueError, RecursionError):  # a number with very many digits; nested very deep
            return None
        if end != len(text):
            return None if _has_constant(text) else BROKEN
        if ("\\ud" in text or "\\uD" in text) and _has_half_pairs(pairs):
            return BROKEN
        return self._column(pairs, is_plain=not _has_constant(text) and not _has_long_number(text))

    def _float(self, text: str) -> float:
        value = float(text)
        if value in (math.inf, -math.inf):
            exponent = text.lower().partition("e")[2]
            if exponent and int(exponent) > _LARGEST_EXPONENT + len(text):
                raise _TooBigError
            self._infinite += 1  # no column takes it; where none is given it the parser takes some, 9e308 for one
        return value

    def _decimal(self, text: str) -> Decimal:
        self._float(text)
        try:
            return Decimal(text)
        except InvalidOperation:  # an exponent that Python does not take: nearly zero, which `_decimals` is unsure of
            return Decimal()

    def _column(self, pairs: Sequence[tuple[str, Any]], *, is_plain: bool) -> Fault | None:
        values = dict(pairs)
        if len(values) != len(pairs) and is_twice(pairs, [name for name, _, _ in self._checks]):
            return BAD
        is_sure = is_plain
        for name, nullable, check in self._checks:
            value = values.get(name)
            if value is None:
                if nullable:
                    continue
                found: str | None = "null" if name in values else "absent"
            else:
                found = check(value)
            if found is None:
                continue
            if found is UNSURE:
                is_sure = False
            elif not is_sure or self._infinite > (value in (math.inf, -math.inf)):
                return BAD
            else:
                return Unfit(name) if found is OTHER else self._unfit[name, found]
        return None


def _has_constant(text: str) -> bool:
    return "Inf" in text or "NaN" in text


_INFINITY: Final = re.compile(r'"(?:[^"\\]|\\.)*+"|Inf(?!inity)', re.DOTALL)
"""A text, which may hold the word; or the word."""


def _as_python_says_it(match: re.Match[str]) -> str:
    return "Infinity" if match[0] == "Inf" else match[0]


_LONG_NUMBER: Final = re.compile(rf"(?<![0-9])[0-9]{{{_LONG}}}")


def _has_long_number(text: str) -> bool:
    """Whether there may be a whole number that is larger than any double. Python reads it."""
    return len(text) > _LONG and _LONG_NUMBER.search(text) is not None


def _has_decimals(kind: pa.DataType) -> bool:
    if pt.is_struct(kind):
        return any(_has_decimals(child.type) for child in kind)
    if pt.is_map(kind):
        return _has_decimals(kind.item_type)
    return _has_decimals(kind.value_type) if pt.is_list(kind) else bool(pt.is_decimal(kind))


def _has_half_pairs(value: Any) -> bool:
    """Whether a text in it has half of a surrogate pair, which is no character."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, (list, tuple)):
            left.extend(each)
        elif isinstance(each, str) and _HALF.search(each):
            return True
    return False


_HALF: Final = re.compile("[\ud800-\udfff]")
