"""Avro schemas as trees of nodes. `fastavro` parses and checks the text; names are resolved when they are met.

Source: Apache Avro 1.12 specification, "Schema Declaration" and "Logical Types".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from eos.errors import SpecError

DEEPEST: Final = 64
"""Levels of types in types, of the columns and of values that are skipped."""
MOST_SKIPPED: Final = 10_000
"""Parts of the values that are skipped in one record."""
_MOST_PARTS: Final = 50_000
"""Types, fields, branches and symbols of a schema."""
_DEEPEST_JSON: Final = 200
"""Levels of objects and lists in a schema's JSON. A record in a record takes three."""
_PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_NO_DEFAULT: Final = object()
_MOST_BYTES: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Primitive:
    """A type without a name, such as `long`."""

    type: str
    logical: str = ""  # empty unless the specification defines it for this type
    precision: int = 0  # of a decimal
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Fixed:
    """Bytes of one size."""

    name: str  # with its namespace
    size: int
    aliases: tuple[str, ...] = ()
    logical: str = ""
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Enum:
    """One of some symbols."""

    name: str
    symbols: tuple[str, ...]
    default: str | None = None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Array:
    """Items in an order."""

    items: Node


@dataclass(frozen=True, slots=True)
class Map:
    """Values by text."""

    values: Node


@dataclass(frozen=True, slots=True)
class Union:
    """One of several types."""

    branches: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Named:
    """A type that is defined elsewhere in the schema; `Schema.follow` returns it."""

    name: str


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record."""

    name: str
    type: Node
    aliases: tuple[str, ...] = ()
    default: Any = _NO_DEFAULT

    @property
    def has_default(self) -> bool:
        """Whether a reader may use `default`, which can be None."""
        return self.default is not _NO_DEFAULT


@dataclass(frozen=True, slots=True)
class Record:
    """Fields in the order of their encoding."""

    name: str
    fields: tuple[Field, ...]
    aliases: tuple[str, ...] = ()


Node: TypeAlias = Primitive | Fixed | Enum | Array | Map | Union | Named | Record


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """A parsed schema. Two are equal only if they are one object. It is a quick key of a cache."""

    root: Node
    named: Mapping[str, Node] = field(repr=False)
    fingerprint: bytes = b""  # CRC-64-AVRO of the canonical form, in the byte order of the single-object encoding

    def follow(self, node: Node) -> Node:
        """Return the type of a name. Any other node is returned unchanged."""
        return self.named[node.name] if isinstance(node, Named) else node


def parse_schema(text: str, references: Sequence[str] = ()) -> Schema:
    """Parse the JSON text of a schema. `references`: schemas that define the names it uses, each before its first use.

    Raises SpecError for a text that is not an Avro schema, with the reason of the parser, and for too large a one.
    """
    from fastavro import schema as parser  # of the extra `avro`

    known: dict[str, Any] = {}
    try:
        *others, own = (json.loads(each) for each in (*references, text))
        check_bounds([*others, own])
        for each in others:
            parser.parse_schema(each, known)
        parsed = parser.parse_schema(own, known)
        digest = parser.fingerprint(parser.to_parsing_canonical_form(parsed), "CRC-64-AVRO")
        builder = _Builder()
        for each in known.values():
            builder.node(each)
        root = builder.node(parsed)
    except RecursionError:
        raise SpecError("the Avro schema is nested too deeply") from None
    except parser.UnknownType as error:
        raise SpecError(f"not an Avro schema: the type {error.name} is not defined") from error
    except (parser.SchemaParseException, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SpecError(f"not an Avro schema: {error}", remedy="check its JSON text") from error
    return Schema(root, builder.named, bytes.fromhex(digest)[::-1])


def check_bounds(schema: Any) -> None:
    """Raise SpecError for the JSON of a schema that is too large, or nested too deeply. Takes any JSON.

    This bounds the time and the memory for a schema, and the depth of each recursion over it. So the outcome of a
    record does not depend on the size of a stack.
    """
    left, parts = [(schema, 0)], 0
    while left:
        node, depth = left.pop()
        if depth > _DEEPEST_JSON:
            raise SpecError("the Avro schema is nested too deeply", remedy="nest its types less deeply")
        inner = list(node.values()) if isinstance(node, dict) else node if isinstance(node, list) else []
        parts += len(node) if isinstance(node, list) else 1
        if parts > _MOST_PARTS:
            raise SpecError(f"the Avro schema has more than {_MOST_PARTS:,} parts", remedy="divide its records")
        left += [(each, depth + 1) for each in inner if isinstance(each, dict | list)]


class _Builder:
    """Converts parsed JSON to nodes, and collects the named types."""

    def __init__(self) -> None:
        self.named: dict[str, Node] = {}

    def node(self, parsed: Any) -> Node:
        if isinstance(parsed, str):
            return Primitive(parsed) if parsed in _PRIMITIVES else Named(parsed)
        if isinstance(parsed, list):
            if any(isinstance(branch, list) for branch in parsed) or not parsed:
                raise ValueError("a union has no types, or a union among them")
            return Union(tuple(map(self.node, parsed)))
        kind = parsed["type"]
        if kind in ("record", "error", "enum", "fixed"):
            self.named.setdefault(parsed["name"], Named(parsed["name"]))
            self.named[parsed["name"]] = self._named(parsed)
            return Named(parsed["name"])
        if kind == "array":
            return Array(self.node(parsed["items"]))
        if kind == "map":
            return Map(self.node(parsed["values"]))
        if not isinstance(kind, str) or kind not in _PRIMITIVES:
            return self.node(kind)
        return Primitive(kind, **_logical(parsed, kind))

    def _named(self, parsed: Mapping[str, Any]) -> Node:
        name = parsed["name"]
        aliases = tuple(_full_name(alias, name) for alias in parsed.get("aliases", ()))
        if parsed["type"] == "enum":
            return Enum(name, tuple(parsed["symbols"]), parsed.get("default"), aliases)
        if parsed["type"] == "fixed":
            return Fixed(name, _size(parsed["size"]), aliases, **_logical(parsed, "fixed"))
        fields = tuple(
            Field(
                _text(each["name"]),
                self.node(each["type"]),
                tuple(map(_text, each.get("aliases", ()))),
                each.get("default", _NO_DEFAULT),
            )
            for each in parsed["fields"]
        )
        return Record(name, fields, aliases)


_LOGICAL: Final[Mapping[str, frozenset[str]]] = {
    "int": frozenset({"date", "time-millis"}),
    "long": frozenset(
        {
            "time-micros",
            "timestamp-millis",
            "timestamp-micros",
            "timestamp-nanos",
            "local-timestamp-millis",
            "local-timestamp-micros",
            "local-timestamp-nanos",
        }
    ),
    "bytes": frozenset({"decimal"}),
    "string": frozenset({"uuid"}),
    "fixed": frozenset({"decimal", "uuid", "duration"}),
}
"""Logical types by the type that carries them. The specification has readers ignore any other."""


_SIZES: Final[Mapping[tuple[str, Any], int]] = {("fixed", "uuid"): 16, ("fixed", "duration"): 12}
"""Bytes that a `fixed` has for its logical type."""


def _logical(parsed: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return the fields of a node that describe its logical type; none if it is not valid, which readers ignore."""
    logical = parsed.get("logicalType")
    if logical not in _LOGICAL.get(kind, ()):
        return {}
    if logical != "decimal":
        return {"logical": logical} if parsed.get("size") == _SIZES.get((kind, logical)) else {}
    precision, scale = parsed.get("precision"), parsed.get("scale", 0)
    is_valid = isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision and precision > 0
    return {"logical": logical, "precision": precision, "scale": scale} if is_valid else {}


def _text(name: Any) -> str:
    if not isinstance(name, str):
        raise ValueError(f"{name!r:.40} for a name")
    return name


def _size(size: Any) -> int:
    if type(size) is not int or not 0 <= size <= _MOST_BYTES:
        raise ValueError(f"a fixed has no size of {size!r:.40}")
    return size


def _full_name(alias: str, name: str) -> str:
    """Return an alias with the namespace of the type that has it, unless the alias has its own."""
    namespace, _, _ = name.rpartition(".")
    return alias if "." in alias or not namespace else f"{namespace}.{alias}"
