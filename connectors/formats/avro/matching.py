"""Comparison of a schema with the columns of rows, and the steps that write these columns. Pure; once per schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from pyarrow import types

from connectors.formats.avro.arrow_types import member_name, not_null, takes_null
from connectors.formats.avro.nodes import Array, Enum, Fixed, Map, Node, Primitive, Record, Schema, Union
from connectors.formats.avro.steps import DURATION
from connectors.formats.avro.write_nested import ArrayStep, MapStep, RecordStep, UnionStep
from connectors.formats.avro.write_steps import (
    BooleanStep,
    BytesStep,
    DecimalStep,
    DurationStep,
    EnumStep,
    FixedStep,
    FloatStep,
    LoneStep,
    NullStep,
    NumberStep,
    OptionalStep,
    RequiredStep,
    TimeTextStep,
    UuidStep,
    WriteStep,
)
from connectors.spark_types import spark_type

_INT: Final = (-(2**31), 2**31 - 1)
_LONG: Final = (-(2**63), 2**63 - 1)
_TIMES: Final[Mapping[str, tuple[int, int]]] = {"millis": (1, 1_000), "micros": (1, 1), "nanos": (1_000, 1)}
"""By the unit of a logical type: factor and divisor from microseconds."""


class MismatchError(Exception):
    """A column whose values the schema cannot hold."""


@dataclass(slots=True)
class Matching:
    """One schema and the columns of one kind of rows."""

    schema: Schema
    problems: list[str] = field(default_factory=list)
    """Reasons why the rows cannot be written with the schema."""

    def record(self, columns: Sequence[pa.Field]) -> RecordStep:
        """Return the step that writes the columns as the fields of the schema's record."""
        root = self.schema.follow(self.schema.root)
        if not isinstance(root, Record):
            self.problems.append("the schema is not a record, whose fields the columns would be")
            return RecordStep(())
        return self._record(root, columns, "")

    def value(self, column: pa.Field) -> WriteStep | None:
        """Return the step that writes one column as a whole value of the schema; None if there is a problem."""
        return self._step(self.schema.root, column.type, column.name)

    def _record(self, node: Record, columns: Sequence[pa.Field], inside: str) -> RecordStep:
        names = [each.name for each in columns]
        self.problems += differences(node, names, inside)
        parts = []
        for each in node.fields:
            if each.name in names:
                at = names.index(each.name)
                step = self._step(each.type, columns[at].type, inside + each.name)
                parts += [(at, step)] if step is not None else []
        return RecordStep(tuple(parts))

    def _step(self, node: Node, kind: pa.DataType, what: str) -> WriteStep | None:
        try:
            return self._of_type(self.schema.follow(node), kind, what)
        except MismatchError as error:
            self.problems.append(f"column {what} is {spark_type(kind)}, {error}")
            return None

    def _of_type(self, node: Node, kind: pa.DataType, what: str) -> WriteStep | None:
        if types.is_null(kind):
            return self._null(node)
        if isinstance(node, Union):
            return self._union(node, kind, what)
        step = self._plain(node, kind, what)
        return None if step is None else RequiredStep(what, step)

    def _null(self, node: Node) -> WriteStep:
        if not takes_null(node):
            raise MismatchError("and the schema takes no NULL: CAST it to a type")
        return NullStep(node.branches.index(Primitive("null")) if isinstance(node, Union) else None)

    def _union(self, node: Union, kind: pa.DataType, what: str) -> WriteStep | None:
        branches, members = list(node.branches), not_null(node)
        null = branches.index(Primitive("null")) if takes_null(node) else None
        if len(members) == 1:
            step = self._plain(self.schema.follow(members[0]), kind, what)
            if step is None:
                return None
            return LoneStep(what, step) if null is None else OptionalStep(step, branches.index(members[0]))
        fields = list(map(member_name, members))
        if not types.is_struct(kind) or [each.name for each in kind] != fields:
            raise MismatchError(f"not the STRUCT of a union of several types, with the fields {', '.join(fields)}")
        found = []
        for member, column in zip(members, kind, strict=True):
            step = self._plain(self.schema.follow(member), column.type, f"{what}.{column.name}")
            if step is None:
                return None
            found.append((branches.index(member), step))
        return UnionStep(what, tuple(found), null)

    def _plain(self, node: Node, kind: pa.DataType, what: str) -> WriteStep | None:
        match node:
            case Record():
                _expect(types.is_struct(kind), "not a STRUCT")
                return self._record(node, list(kind), f"{what}.")
            case Array():
                _expect(types.is_list(kind) or types.is_large_list(kind), "not an ARRAY")
                step = self._step(node.items, kind.value_type, f"{what}[]")
                return None if step is None else ArrayStep(step)
            case Map():
                _expect(types.is_map(kind) and _is_text(kind.key_type), "not a MAP with STRING keys")
                step = self._step(node.values, kind.item_type, f"{what}{{}}")
                return None if step is None else MapStep(what, RequiredStep(f"{what}: key", BytesStep()), step)
            case Enum():
                _expect(_is_text(kind), "not STRING, which an enum needs")
                return EnumStep(what, node.symbols)
            case Fixed(logical="decimal") | Primitive(logical="decimal"):
                return _decimal(node, kind, what)
            case Fixed():
                return _fixed(node, kind, what)
            case Primitive():
                return _primitive(node, kind, what)
        raise AssertionError(node)  # follow has replaced names, and unions have no unions


def differences(record: Record, names: Sequence[str], inside: str) -> Iterator[str]:
    """Yield the columns that the schema has no field for, and the fields without a column. `inside`: of a STRUCT."""
    known = [each.name for each in record.fields]
    yield from (f"the schema has no field for column {inside}{name}" for name in names if name not in known)
    yield from (f"column {inside}{name} is missing, which the schema has" for name in known if name not in names)


def _expect(fits: bool, reason: str) -> None:
    if not fits:
        raise MismatchError(reason)


def _is_text(kind: pa.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _decimal(node: Fixed | Primitive, kind: pa.DataType, what: str) -> WriteStep:
    _expect(types.is_decimal(kind), "not DECIMAL")
    fits = node.precision <= 38 and kind.scale <= node.scale
    _expect(fits, f"which a decimal of {node.precision} digits, {node.scale} behind the point, does not hold")
    size = node.size if isinstance(node, Fixed) else None
    return DecimalStep(what, pa.decimal128(node.precision, node.scale), size)


def _fixed(node: Fixed, kind: pa.DataType, what: str) -> WriteStep:
    if node.logical == "uuid":
        _expect(_is_text(kind), "not STRING with a UUID")
        return UuidStep(what, is_fixed=True)
    if node.logical == "duration":
        _expect(_is_duration(kind), "not STRUCT<months, days, milliseconds> of BIGINT")
        return DurationStep(what)
    _expect(_is_bytes(kind), "not BINARY")
    return FixedStep(what, node.size)


def _is_duration(kind: pa.DataType) -> bool:
    if not types.is_struct(kind) or [each.name for each in kind] != [each.name for each in DURATION]:
        return False
    return all(_is_whole(each.type) for each in kind)


def _is_whole(kind: pa.DataType) -> bool:
    return bool(types.is_signed_integer(kind))


def _is_float(kind: pa.DataType) -> bool:
    return bool(types.is_float32(kind) or types.is_float64(kind))


def _primitive(node: Primitive, kind: pa.DataType, what: str) -> WriteStep:
    if node.logical.startswith(("timestamp-", "local-timestamp-")):
        return _timestamp(node.logical, kind, what)
    if node.logical.startswith("time-"):
        return _time(node.logical, kind, what)
    reason, fits, step = _PRIMITIVES[node.logical or node.type](what)
    _expect(fits(kind), reason)
    return step


def _timestamp(logical: str, kind: pa.DataType, what: str) -> WriteStep:
    is_local = logical.startswith("local-")
    name = "TIMESTAMP_NTZ" if is_local else "TIMESTAMP"
    _expect(types.is_timestamp(kind) and (kind.tz is None) == is_local, f"not {name}")
    multiply, divide = _TIMES[logical.rpartition("-")[2]]
    return NumberStep(what, *_LONG, multiply, divide)


def _time(logical: str, kind: pa.DataType, what: str) -> WriteStep:
    multiply, divide = _TIMES[logical.rpartition("-")[2]]
    number = NumberStep(what, *_LONG, multiply, divide)
    _expect(types.is_time(kind) or _is_text(kind), "not TIME, and not STRING with a time")
    return number if types.is_time(kind) else TimeTextStep(what, number)


_Fits = tuple[str, Callable[[pa.DataType], bool], WriteStep]

_PRIMITIVES: Final[Mapping[str, Callable[[str], _Fits]]] = {
    "null": lambda what: ("not VOID", types.is_null, NullStep(None)),
    "boolean": lambda what: ("not BOOLEAN", types.is_boolean, BooleanStep()),
    "int": lambda what: ("not a whole number", _is_whole, NumberStep(what, *_INT)),
    "long": lambda what: ("not a whole number", _is_whole, NumberStep(what, *_LONG)),
    "float": lambda what: ("not FLOAT", types.is_float32, FloatStep("<f4")),
    "double": lambda what: ("not DOUBLE or FLOAT", _is_float, FloatStep("<f8")),
    "string": lambda what: ("not STRING", _is_text, BytesStep()),
    "bytes": lambda what: ("not BINARY", _is_bytes, BytesStep()),
    "date": lambda what: ("not DATE", types.is_date, NumberStep(what, *_INT)),
    "uuid": lambda what: ("not STRING with a UUID", _is_text, UuidStep(what, is_fixed=False)),
}
"""By the type of a schema: why a column does not fit, the test for it, and its step."""
