"""Writing of values with parts: records, unions, arrays and maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.avro.pieces import Piece, constant, grouped, joined, numbers, spread
from connectors.formats.avro.write_steps import WriteStep
from connectors.formats.json_text import has_repeats


@dataclass(frozen=True, slots=True)
class RecordStep:
    """`record`: the schema's fields in their order, from the fields of a STRUCT."""

    parts: Sequence[tuple[int, WriteStep]]  # number of the field in the STRUCT

    def pieces(self, values: pa.StructArray) -> list[Piece]:
        return self.of_columns([values.field(at) for at in range(values.type.num_fields)])

    def of_columns(self, columns: Sequence[pa.Array]) -> list[Piece]:
        """Return the pieces of a record whose fields are columns of a batch."""
        return [piece for at, step in self.parts for piece in step.pieces(columns[at])]


@dataclass(frozen=True, slots=True)
class ArrayStep:
    """`array`: one block of all items, and behind it a 0."""

    item: WriteStep

    def pieces(self, values: pa.Array) -> list[Piece]:
        counts = pc.list_value_length(values).cast(pa.int64()).to_numpy()
        items = values.flatten()
        encoded = joined(self.item.pieces(items), len(items))
        return [numbers(counts), grouped(encoded, counts), spread(constant(b"\0"), counts > 0)]


@dataclass(frozen=True, slots=True)
class MapStep:
    """`map`: one block of all pairs, and behind it a 0."""

    what: str
    key: WriteStep
    value: WriteStep

    def pieces(self, values: pa.MapArray) -> list[Piece]:
        if has_repeats(values, values.keys):
            raise pa.ArrowInvalid(f"{self.what}: a map with two equal keys, of which a reader keeps one")
        ends = values.offsets.to_numpy()
        start, count = int(ends[0]), int(ends[-1] - ends[0])
        counts = np.diff(ends).astype(np.int64)
        keys, items = values.keys.slice(start, count), values.items.slice(start, count)
        pairs = joined([*self.key.pieces(keys), *self.value.pieces(items)], count)
        return [numbers(counts), grouped(pairs, counts), spread(constant(b"\0"), counts > 0)]


@dataclass(frozen=True, slots=True)
class UnionStep:
    """`union` of several types, from a STRUCT with a field for each type, one of which is set."""

    what: str
    members: Sequence[tuple[int, WriteStep]]  # by field of the STRUCT: the branch
    null_branch: int | None

    def pieces(self, values: pa.StructArray) -> list[Piece]:
        given = values.is_valid().to_numpy(zero_copy_only=False)
        if self.null_branch is None and not given.all():
            raise pa.ArrowInvalid(f"{self.what}: NULL, which the schema does not take")
        branches = np.full(len(values), self.null_branch or 0, np.int64)
        found: list[Piece] = []
        members = np.zeros(len(values), np.int64)
        for at, (branch, step) in enumerate(self.members):
            column = values.field(at)
            valid = given & column.is_valid().to_numpy(zero_copy_only=False)
            branches[valid] = branch
            members += valid
            found += [spread(each, valid) for each in step.pieces(column.filter(pa.array(valid)))]
        if (members != given).any():
            raise pa.ArrowInvalid(f"{self.what}: one field of the STRUCT must be set, which is the type of the union")
        return [numbers(branches), *found]
