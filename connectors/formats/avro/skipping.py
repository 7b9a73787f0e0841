"""Stepping over values that the reader's schema does not have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from connectors.formats.avro.cursor import Cursor, Rows
from connectors.formats.avro.groups import blocks, by_branch, items
from connectors.formats.avro.nodes import (
    DEEPEST,
    MOST_SKIPPED,
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

_TEXT: Final = Primitive("string")


@dataclass(frozen=True, slots=True)
class Skip:
    """Steps over a value of the writer. A type may contain itself here: no column is built."""

    what: str
    schema: Schema
    node: Node

    def skip(self, cursor: Cursor, rows: Rows, depth: int = 0) -> None:
        """Move the cursor of each row behind the value. A row with a fault is parked."""
        if not cursor.count(rows):
            return
        node = self.schema.follow(self.node)
        if depth > DEEPEST:
            cursor.park(
                rows, np.ones(cursor.count(rows), np.bool_), f"{self.what}: nested deeper than {DEEPEST} levels"
            )
            return
        match node:
            case Primitive("null"):
                pass
            case Primitive("boolean"):
                cursor.fixed(rows, "u1", self.what)
            case Primitive("float"):
                cursor.fixed(rows, "<f4", self.what)
            case Primitive("double"):
                cursor.fixed(rows, "<f8", self.what)
            case Primitive("int" | "long") | Enum():
                cursor.longs(rows, self.what)
            case Primitive():
                cursor.spans(rows, cursor.longs(rows, self.what), self.what)
            case Fixed():
                cursor.spans(rows, np.full(cursor.count(rows), node.size, np.int64), self.what)
            case Record():
                for each in node.fields:
                    self._of(each.type).skip(cursor, rows, depth + 1)
            case Union():
                for number, _, _, chosen in by_branch(cursor, rows, self.what, node.branches):
                    self._of(node.branches[number]).skip(cursor, chosen, depth + 1)
            case Array(Primitive("null" | "boolean" | "float" | "double" | "int" | "long") as item):
                self._skip_numbers(cursor, rows, item)
            case Array():
                self._skip_items(cursor, rows, [node.items], depth)
            case Map():
                self._skip_items(cursor, rows, [_TEXT, node.values], depth)

    def _skip_numbers(self, cursor: Cursor, rows: Rows, item: Primitive) -> None:
        least = least_bytes(self.schema, item)
        for _, active, counts in blocks(cursor, rows, self.what, least):
            if item.type in ("int", "long"):
                cursor.longs_run(active, counts, self.what)
            else:  # all values have one width
                cursor.spans(active, counts * least, self.what)

    def _skip_items(self, cursor: Cursor, rows: Rows, parts: Sequence[Node], depth: int) -> None:
        steps = [self._of(part) for part in parts]
        least = sum(least_bytes(self.schema, part) for part in parts)
        for _, active in items(cursor, rows, self.what, least):
            for step in steps:
                step.skip(cursor, active, depth + 1)

    def _of(self, node: Node) -> Skip:
        return Skip(self.what, self.schema, node)


def most_parts(schema: Schema, node: Node, known: dict[str, int] | None = None, depth: int = 0) -> int:
    """Return how many values one value of the type has at most, items of arrays and maps once.

    A short text can name one type exponentially often. More than MOST_SKIPPED for a type with too many levels.
    `known`: of the types met before.
    """
    known = {} if known is None else known
    if depth > DEEPEST:
        return MOST_SKIPPED + 1
    if isinstance(node, Named):
        if node.name not in known:
            known[node.name] = 1  # where the type contains itself: the record's bytes bound it
            known[node.name] = most_parts(schema, schema.follow(node), known, depth)
        return known[node.name]
    match node:
        case Record():
            return 1 + sum(most_parts(schema, each.type, known, depth + 1) for each in node.fields)
        case Union():
            return 1 + max((most_parts(schema, each, known, depth + 1) for each in node.branches), default=0)
        case Array():
            return 1 + most_parts(schema, node.items, known, depth + 1)
        case Map():
            return 2 + most_parts(schema, node.values, known, depth + 1)
    return 1


def least_bytes(schema: Schema, node: Node, known: dict[str, int] | None = None, depth: int = 0) -> int:
    """Return a number of bytes that each value of the type has at least. `known`: of the records met before."""
    known = {} if known is None else known
    node = schema.follow(node)
    if depth > DEEPEST:
        return 0
    match node:
        case Primitive("null"):
            return 0
        case Primitive("float"):
            return 4
        case Primitive("double"):
            return 8
        case Fixed():
            return node.size
        case Record():
            if node.name not in known:
                known[node.name] = 0  # where the record contains itself
                known[node.name] = sum(least_bytes(schema, each.type, known, depth + 1) for each in node.fields)
            return known[node.name]
    return 1
