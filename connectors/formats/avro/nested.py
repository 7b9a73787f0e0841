"""Reading of values with parts: records, unions, arrays and maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from connectors.formats.avro.cursor import Cursor, Rows
from connectors.formats.avro.groups import Unreadable, blocks, by_branch, items
from connectors.formats.avro.skipping import Skip
from connectors.formats.avro.steps import RunStep, Step, spans_of, text_of
from connectors.formats.spans import Ints, by_row, last_of_equal


@dataclass(frozen=True, slots=True)
class RecordStep:
    """`record`: the writer's fields in their order, into the reader's columns."""

    parts: Sequence[tuple[Step, int] | Skip]  # the writer's fields; of those that are read, the number of the column
    constants: Sequence[tuple[pa.Scalar, int]]  # defaults of fields that the writer does not have
    fields: Sequence[pa.Field]  # the reader's

    @property
    def type(self) -> pa.DataType:
        return pa.struct(self.fields)

    def columns(self, cursor: Cursor, rows: Rows) -> list[pa.Array]:
        """Read the fields of each row, as columns in the reader's order."""
        found: dict[int, pa.Array] = {}
        for part in self.parts:
            if isinstance(part, Skip):
                part.skip(cursor, rows)
            else:
                step, at = part
                found[at] = step.read(cursor, rows)
        found |= {at: pa.repeat(value, cursor.count(rows)) for value, at in self.constants}
        return [found[at] for at in range(len(self.fields))]

    def read(self, cursor: Cursor, rows: Rows) -> pa.Array:
        return pa.StructArray.from_arrays(self.columns(cursor, rows), fields=list(self.fields))


@dataclass(frozen=True, slots=True)
class UnionStep:
    """`union` of the writer, where the reader has one type, or one type and null."""

    what: str
    branches: Sequence[Step | Unreadable]
    type: pa.DataType

    def read(self, cursor: Cursor, rows: Rows) -> pa.Array:
        found = by_branch(cursor, rows, self.what, self.branches)
        parts = [(places, step.read(cursor, chosen)) for _, step, places, chosen in found]
        return _joined(cursor.count(rows), parts, self.type)


@dataclass(frozen=True, slots=True)
class MembersStep:
    """`union` of the writer, where the reader has several types: a STRUCT with a field for each, one of them set."""

    what: str
    branches: Sequence[Step | Unreadable]
    members: Sequence[int | None]  # the field of each branch; None: null
    fields: Sequence[pa.Field]

    @property
    def type(self) -> pa.DataType:
        return pa.struct(self.fields)

    def read(self, cursor: Cursor, rows: Rows) -> pa.Array:
        count = cursor.count(rows)
        parts: list[list[tuple[Ints, pa.Array]]] = [[] for _ in self.fields]
        missing = np.ones(count, np.bool_)
        for branch, step, places, chosen in by_branch(cursor, rows, self.what, self.branches):
            values = step.read(cursor, chosen)
            member = self.members[branch]
            if member is not None:
                parts[member].append((places, values))
                missing[places] = False
        columns = [_joined(count, each, field.type) for each, field in zip(parts, self.fields, strict=True)]
        return pa.StructArray.from_arrays(columns, fields=list(self.fields), mask=pa.array(missing))


@dataclass(frozen=True, slots=True)
class MemberStep:
    """One type of the writer, where the reader has several: the field of its type is set."""

    step: Step
    member: int
    fields: Sequence[pa.Field]

    @property
    def type(self) -> pa.DataType:
        return pa.struct(self.fields)

    def read(self, cursor: Cursor, rows: Rows) -> pa.Array:
        values = self.step.read(cursor, rows)
        columns = [values if at == self.member else pa.nulls(len(values), f.type) for at, f in enumerate(self.fields)]
        return pa.StructArray.from_arrays(columns, fields=list(self.fields))


@dataclass(frozen=True, slots=True)
class ArrayStep:
    """`array`: blocks of items, behind the last one a 0."""

    what: str
    item: Step
    least_bytes: int  # of an item
    type: pa.ListType

    def read(self, cursor: Cursor, rows: Rows) -> pa.Array:
        places, parts = [], []
        if isinstance(self.item, RunStep):
            for place, active, counts in blocks(cursor, rows, self.what, self.least_bytes):
                places.append(np.repeat(place, counts))
                parts.append(self.item.read_run(cursor, active, counts))
        else:
            for place, active in items(cursor, rows, self.what, self.least_bytes):
                places.append(place)
                parts.append(self.item.read(cursor, active))
        order, offsets = by_row(places, cursor.count(rows))
        values = _taken(_concatenated(parts, self.item.type), order)
        return pa.ListArray.from_arrays(offsets, values, type=self.type)


@dataclass(frozen=True, slots=True)
class MapStep:
    """`map`: as an array, of texts with a value each. Of two equal texts the later one counts, as in Avro's Java."""

    what: str
    value: Step
    least_bytes: int  # of an entry
    type: pa.MapType

    def read(self, cursor: Cursor, rows: Rows) -> pa.Array:
        places, keys, values = [], [], []
        for place, active in items(cursor, rows, self.what, self.least_bytes):
            places.append(place)
            keys.append(text_of(cursor, active, cursor.binary(spans_of(cursor, active, self.what, None)), self.what))
            values.append(self.value.read(cursor, active))
        key, value = _concatenated(keys, pa.string()), _concatenated(values, self.value.type)
        kept = last_of_equal(places, key)
        if kept is not None:
            place = np.concatenate(places)[kept]
            places, key, value = [place], key.take(pa.array(kept)), value.take(pa.array(kept))
        order, offsets = by_row(places, cursor.count(rows))
        return pa.MapArray.from_arrays(offsets, _taken(key, order), _taken(value, order), type=self.type)


def _joined(count: int, parts: Sequence[tuple[Ints, pa.Array]], kind: pa.DataType) -> pa.Array:
    """Return a column of `count` values: the values of the parts at their places, and null elsewhere."""
    if len(parts) == 1 and len(parts[0][0]) == count:
        return parts[0][1]
    index, start = np.full(count, -1, np.int64), 0
    for places, values in parts:
        index[places] = np.arange(start, start + len(values))
        start += len(values)
    return _concatenated([values for _, values in parts], kind).take(pa.array(index, mask=index < 0))


def _concatenated(parts: Sequence[pa.Array], kind: pa.DataType) -> pa.Array:
    return pa.concat_arrays(parts) if parts else pa.nulls(0, kind)


def _taken(values: pa.Array, order: Ints | None) -> pa.Array:
    return values if order is None else values.take(pa.array(order))
