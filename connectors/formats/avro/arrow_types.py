"""The columns that a reader's schema has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from connectors.formats.avro.nodes import (
    DEEPEST,
    Array,
    Enum,
    Fixed,
    Map,
    Named,
    Node,
    Primitive,
    Record,
    Schema,
    Union,
)
from connectors.formats.avro.steps import DURATION
from connectors.formats.plain import VALUE
from eos.errors import SpecError

MAX_PRECISION: Final = 38
"""Digits of Spark's longest DECIMAL."""

_MOST_TYPES: Final = 10_000
"""Columns and their parts that a schema may have. A short text can name one type exponentially often."""

_PLAIN: Final = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "date": pa.date32(),
    "time-millis": pa.string(),
    "time-micros": pa.string(),
    "uuid": pa.string(),
    "duration": DURATION,
    **dict.fromkeys(("timestamp-millis", "timestamp-micros", "timestamp-nanos"), pa.timestamp("us", "UTC")),
    **dict.fromkeys(("local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos"), pa.timestamp("us")),
}


class ArrowTypes:
    """Types of the columns of one reader's schema. Raises SpecError for a type that no column can have."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._types = 0
        self._known: dict[int, pa.DataType] = {}  # by the identity of a node, which `_schema` keeps

    def columns(self) -> pa.Schema:
        """Return a column for each field of the record, or the column `value` if the schema is of another type."""
        root = self._schema.follow(self._schema.root)
        if isinstance(root, Record):
            if not root.fields:
                raise SpecError("the Avro schema is a record without fields", remedy="name at least one field")
            return pa.schema(self.fields(root, ()))
        return pa.schema([self._field(VALUE, root, (), 0)])

    def fields(self, record: Record, inside: Sequence[str]) -> list[pa.Field]:
        """Return the columns of a record. `inside`: names of the records around it."""
        return list(self.type(record, inside))

    def _fields(self, record: Record, inside: Sequence[str], depth: int) -> list[pa.Field]:
        if record.name in inside:
            message = f"the Avro type {record.name} contains itself, and a column cannot"
            raise SpecError(message, remedy="leave the field out of the reader's schema: it is then skipped")
        return [self._field(each.name, each.type, [*inside, record.name], depth) for each in record.fields]

    def type(self, node: Node, inside: Sequence[str]) -> pa.DataType:
        """Return the type of a column that holds these values, or null."""
        found = self._known.get(id(self._schema.follow(node)))
        return self._type(node, inside, len(inside)) if found is None else found

    def _type(self, node: Node, inside: Sequence[str], depth: int) -> pa.DataType:
        """Return a type after counting it: also one that is known, since each use of it is a column."""
        self._types += 1
        if self._types > _MOST_TYPES:
            raise SpecError(f"the Avro schema has more than {_MOST_TYPES:,} fields", remedy="give a reader's schema")
        if depth > DEEPEST:
            message = f"the Avro schema has columns that are nested deeper than {DEEPEST} levels"
            raise SpecError(message, remedy="leave the field out of the reader's schema: it is then skipped")
        node = self._schema.follow(node)
        found = self._new_type(node, inside, depth + 1)
        self._known[id(node)] = found
        return found

    def _new_type(self, node: Node, inside: Sequence[str], depth: int) -> pa.DataType:
        match node:
            case Record():
                return pa.struct(self._fields(node, inside, depth))
            case Union() if len(not_null(node)) == 1:
                return self._type(not_null(node)[0], inside, depth - 1)
            case Union():
                members = [pa.field(member_name(each), self._type(each, inside, depth)) for each in not_null(node)]
                return pa.struct(members)
            case Array():
                return pa.list_(self._field("element", node.items, inside, depth))
            case Map():
                return pa.map_(pa.string(), self._field("value", node.values, inside, depth))
            case Enum():
                return pa.string()
            case Primitive(logical="decimal") | Fixed(logical="decimal"):
                return _decimal(node.precision, node.scale)
            case Fixed():
                return _PLAIN[node.logical or "bytes"]
            case Primitive():
                return _PLAIN[node.logical or node.type]
            case Named():
                raise AssertionError(node)  # follow has replaced it

    def _field(self, name: str, node: Node, inside: Sequence[str], depth: int) -> pa.Field:
        kind = self._type(node, inside, depth)
        return pa.field(name, kind, nullable=takes_null(self._schema.follow(node)))


def not_null(node: Node) -> list[Node]:
    """Return the branches of a union that hold a value; of any other type, the type itself."""
    return [each for each in node.branches if each != Primitive("null")] if isinstance(node, Union) else [node]


def takes_null(node: Node) -> bool:
    """Whether a value may be null."""
    return node == Primitive("null") or (isinstance(node, Union) and Primitive("null") in node.branches)


def member_name(node: Node) -> str:
    """Return the name of the field that holds a type of a union of several types."""
    match node:
        case Primitive():
            return f"member_{node.type}"
        case Named():
            return "member_" + node.name.replace(".", "_")
    return f"member_{type(node).__name__.lower()}"


def _decimal(precision: int, scale: int) -> pa.DataType:
    if precision > MAX_PRECISION:
        message = f"an Avro decimal of {precision} digits: Spark's DECIMAL has at most {MAX_PRECISION}"
        raise SpecError(message, remedy="give a reader's schema with a smaller precision, or with the field as bytes")
    return pa.decimal128(precision, scale)
