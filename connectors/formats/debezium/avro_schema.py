"""The part of a writer's Avro schema that is read: a reader's schema with the columns and the types of their values.

Connect's AvroConverter writes the name of Connect's type beside Avro's, as `connect.name`. Each named type is defined
once more wherever it is used, since the place of its definition may be in a part that is not read.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any, Final

import pyarrow as pa

from connectors.formats.avro.arrow_types import ArrowTypes
from connectors.formats.avro.inlining import inlined
from connectors.formats.avro.nodes import parse_schema
from connectors.formats.debezium.readings import CONVERTED, Reading, cast_reading
from connectors.formats.debezium.source_position import SOURCE
from connectors.formats.debezium.written import Written, of_connect
from eos.errors import SpecError

_KEPT: Final = 1_000
"""Plans that a process keeps."""
_DEEPEST: Final = 64
_MOST_EXPANDED: Final = 10_000
"""Types of the columns, with the parts of each. A short text can name one type exponentially often."""
_STAMPS: Final = frozenset({"ts_ms", "ts_us", "ts_ns"})
_TRANSACTION: Final = frozenset({"status", "id", "event_count", "data_collections"})
_SCHEMA_CHANGE: Final = frozenset({"source", "ddl", "tableChanges"})

Declared = tuple[tuple[str, Written], ...]
"""Types of the spec, by column."""


@dataclass(frozen=True, slots=True)
class AvroPlan:
    """How the records of one writer's schema are read."""

    reader: str  # a reader's schema
    readings: tuple[Reading | None, ...] = ()  # by column; None: the writer's schema lacks it
    has_texts: bool = False  # images are texts


OMITTED: Final = AvroPlan("")
"""The plan for records that describe no row."""


@lru_cache(_KEPT)
def event_plan(text: str, references: tuple[str, ...], row: pa.Schema, declared: Declared) -> AvroPlan | str:
    """Return the plan for events of a writer's schema, or why they cannot be read. Pure."""
    try:
        types = _Types(json.loads(inlined(text, references)))
        fields = types.fields(types.root)
        names = frozenset(fields)
        if "op" not in fields or not fields.keys() & {"before", "after"}:
            is_known = names <= _STAMPS or names >= _TRANSACTION or names >= _SCHEMA_CHANGE
            return OMITTED if is_known else "no `op`: not a change event of Debezium"
        image = next(types.branch(fields[name]) for name in ("after", "before") if name in fields)
        parts = [_field("op", types.expanded(fields["op"]))]
        if "source" in fields:
            found = types.fields(types.branch(fields["source"]))
            known = {name: types.expanded(found[name]) for name in SOURCE.names if name in found}
            parts += [_field("source", _record("Source", known))] if known else []
        has_texts = types.name(image) == "string"
        columns = {} if has_texts else types.columns(image, row.names, declared)
        if not (has_texts or columns):
            return "its rows have no column of the schema"
        kind = "string" if has_texts else _record("Row", {name: each.node for name, each in columns.items()})
        images = [name for name in ("before", "after") if name in fields]
        parts += [_field(name, ["null", kind if at == 0 or has_texts else "Row"]) for at, name in enumerate(images)]
        reader = json.dumps({"type": "record", "name": "Envelope", "fields": parts})
        decoded = ArrowTypes(parse_schema(reader)).columns()
        return _plan(reader, row, columns, decoded.field(images[0]).type, has_texts)
    except (SpecError, _UnreadableError) as error:
        return str(error)


def table_columns(text: str, references: tuple[str, ...]) -> Mapping[str, tuple[pa.DataType, Written | None]] | None:
    """Return the columns of a table from the schema of its events; None for a schema of other records.

    Raises SpecError if a column has a type that no column can have.
    """
    try:
        types = _Types(json.loads(inlined(text, references)))
        fields = types.fields(types.root)
        if "op" not in fields or "after" not in fields:
            return None
        image = types.branch(fields["after"])
        columns = types.columns(image, types.fields(image), ())
    except _UnreadableError:
        return None
    reader = json.dumps(_record("Row", {name: each.node for name, each in columns.items()}))
    decoded = ArrowTypes(parse_schema(reader)).columns()
    return {name: (decoded.field(name).type, each.written) for name, each in columns.items()}


def record_of(text: str, references: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the name of a record, as Connect names it, and the names of its fields.

    Raises SpecError if the schema is of another type.
    """
    try:
        types = _Types(json.loads(inlined(text, references)))
        fields = tuple(types.fields(types.root))
    except _UnreadableError as error:
        raise SpecError(str(error)) from None
    root = types.root
    named = root.get("connect.name")
    return named if isinstance(named, str) else _full_name(root["name"], root.get("namespace", "")), fields


@lru_cache(_KEPT)
def key_plan(text: str, references: tuple[str, ...], row: pa.Schema, declared: Declared) -> AvroPlan | str:
    """Return the plan for keys of a writer's schema, or why they cannot be read. Pure."""
    try:
        types = _Types(json.loads(inlined(text, references)))
        columns = types.columns(types.root, row.names, declared)
        if not columns:
            return "it has no column of the schema"
        reader = json.dumps(_record("Key", {name: each.node for name, each in columns.items()}))
        return _plan(reader, row, columns, pa.struct(list(ArrowTypes(parse_schema(reader)).columns())), False)
    except (SpecError, _UnreadableError) as error:
        return str(error)


@lru_cache(_KEPT)
def scalar_plan(
    text: str, references: tuple[str, ...], row: pa.Schema, declared: Declared, column: str
) -> AvroPlan | str:
    """Return the plan for keys that are the value of one column, or why they cannot be read. Pure."""
    try:
        types = _Types(json.loads(inlined(text, references)))
        if types.name(types.branch(types.root)) in ("record", "array", "map"):
            return "its schema is not that of a number or a text"
        found = types.column(types.root, dict(declared).get(column))
        reader = json.dumps(found.node)
        kind = ArrowTypes(parse_schema(reader)).columns().field(0).type
        return _plan(reader, row, {column: found}, pa.struct([(column, kind)]), False)
    except (SpecError, _UnreadableError) as error:
        return str(error)


class _UnreadableError(Exception):
    """A schema that is not one of change events."""


@dataclass(frozen=True, slots=True)
class _Column:
    node: Any
    written: Written | None


def _plan(
    reader: str, row: pa.Schema, columns: Mapping[str, _Column], image: pa.DataType, has_texts: bool
) -> AvroPlan | str:
    if has_texts:
        return AvroPlan(reader, has_texts=True)
    readings: list[Reading | None] = []
    for field in row:
        if field.name not in columns:
            readings.append(None)
            continue
        reading = cast_reading(image.field(field.name).type, field.type, columns[field.name].written)
        if isinstance(reading, str):
            return f"{field.name}: {reading}"
        readings.append(reading)
    return AvroPlan(reader, tuple(readings))


class _Types:
    """The parsed JSON of a writer's schema. Any JSON may be given."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self._named: dict[str, Any] = {}
        self._spaces = count()
        self._expanded = 0
        self._collect(root, "", 0)

    def _collect(self, node: Any, space: str, depth: int) -> None:
        if depth > _DEEPEST:
            raise _UnreadableError("the Avro schema is nested too deeply")
        if isinstance(node, list):
            for each in node:
                self._collect(each, space, depth + 1)
        elif isinstance(node, dict):
            if isinstance(node.get("name"), str) and node.get("type") in ("record", "enum", "fixed", "error"):
                full = _full_name(node["name"], node.get("namespace", space))
                self._named[full] = node
                space = full.rpartition(".")[0]
                node["namespace"] = space
            for key in ("type", "items", "values"):
                self._collect(node.get(key), space, depth + 1)
            for each in node.get("fields") or ():
                self._collect(each.get("type") if isinstance(each, dict) else None, space, depth + 1)

    def branch(self, node: Any) -> Any:
        """Return the one type of a union beside null; any other type itself, with its definition."""
        if isinstance(node, list):
            others = [each for each in node if each != "null"]
            if len(others) != 1:
                raise _UnreadableError("an image of a row is a union of several types")
            node = others[0]
        return self._followed(node)

    def _followed(self, node: Any) -> Any:
        return self._named.get(node, node) if isinstance(node, str) else node

    def name(self, node: Any) -> str:
        """Return the name of a type without its attributes."""
        return str(node.get("type")) if isinstance(node, dict) else str(node)

    def fields(self, node: Any) -> dict[str, Any]:
        """Return the types of a record's fields by name."""
        node = self._followed(node)
        if not isinstance(node, dict) or node.get("type") != "record":
            raise _UnreadableError("not a record")
        space = node.get("namespace", "")
        return {each["name"]: self._absolute(each["type"], space) for each in node["fields"]}

    def _absolute(self, node: Any, space: str) -> Any:
        """Return a type whose name, if it is one, has its namespace."""
        if isinstance(node, list):
            return [self._absolute(each, space) for each in node]
        if isinstance(node, str) and _full_name(node, space) in self._named:
            return _full_name(node, space)
        return node

    def columns(self, record: Any, names: Collection[str], declared: Declared) -> dict[str, _Column]:
        """Return the columns of a record that the schema has."""
        known = dict(declared)
        return {name: self.column(node, known.get(name)) for name, node in self.fields(record).items() if name in names}

    def column(self, node: Any, declared: Written | None) -> _Column:
        """Return the column of values of a type."""
        written = declared or self._written(node)
        return _Column(self.expanded(node, is_raw=written is not None), written)

    def _written(self, node: Any) -> Written | None:
        """Return Connect's type if the meaning of the values depends on it."""
        others = [each for each in node if each != "null"] if isinstance(node, list) else [node]
        single = self._followed(others[0]) if len(others) == 1 else None
        if not isinstance(single, dict):
            return None
        found = of_connect({"connect.parameters": {"scale": str(single.get("scale"))}, **single, "name": None})
        return found if found.name in CONVERTED else None

    def expanded(self, node: Any, depth: int = 0, *, is_raw: bool = False) -> Any:
        """Return a type with all definitions that it needs. `is_raw`: without its logical type."""
        if depth > _DEEPEST:
            raise _UnreadableError("a type of a column contains itself, or is nested too deeply")
        if self._expanded >= _MOST_EXPANDED:
            raise _UnreadableError(f"its columns have more than {_MOST_EXPANDED:,} parts")
        self._expanded += 1
        if isinstance(node, list):
            return [self.expanded(each, depth + 1, is_raw=is_raw) for each in node]
        node = self._followed(node)
        if not isinstance(node, dict):
            return node
        kept = {key: each for key, each in node.items() if not (is_raw and key == "logicalType")}
        space = node.get("namespace", "")
        if "name" in node:
            kept["name"], kept["namespace"] = _simple(node["name"]), f"n{next(self._spaces)}"
            kept.pop("aliases", None)
        for key in ("type", "items", "values"):
            if isinstance(kept.get(key), dict | list) or kept.get(key) in self._named:
                kept[key] = self.expanded(kept[key], depth + 1)
            elif key in ("items", "values") and key in kept:
                kept[key] = self.expanded(self._absolute(kept[key], space), depth + 1)
        if "fields" in node:
            kept["fields"] = [_field(name, self.expanded(each, depth + 1)) for name, each in self.fields(node).items()]
        return kept


def _field(name: str, node: Any) -> Mapping[str, Any]:
    return {"name": name, "type": node}


def _record(name: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"type": "record", "name": name, "fields": [_field(each, node) for each, node in fields.items()]}


def _full_name(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _simple(name: str) -> str:
    return name.rpartition(".")[2]
