"""Images of changed rows, and the rows that they become."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.api.decoding import ROW
from connectors.formats.casting import Faults, add_faults, flags
from connectors.formats.change_rows import EVENT, moments, required
from connectors.formats.outcome import Outcome
from connectors.formats.spans import Flags, Ints

CREATE, UPDATE, DELETE, READ = "c", "u", "d", "r"


@dataclass(frozen=True, slots=True)
class Images:
    """The images of one batch: the new row of an insert or an update, or the deleted row."""

    records: Ints  # by image, the index of its record; ascending
    ops: pa.Array  # CREATE, UPDATE, DELETE or READ
    columns: Sequence[pa.Array]  # by column of the table
    old_keys: Sequence[pa.Array]  # by column of the key, its value before an update; null where it is not given
    positions: pa.Array  # text, or null
    millis: pa.Array  # of the change since 1970, int64, or null


@dataclass(frozen=True)
class TableRows:
    """A table, and the columns of its key. Converts images to rows.

    An update of the key becomes a deletion, which has the key only, and a row. NOT NULL does not hold for deleted rows,
    so no column of the result is NOT NULL.
    """

    row: pa.Schema
    key: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table, then EVENT, then ROW."""
        numbered = pa.field(ROW, pa.int32(), nullable=False)
        return pa.schema([*(field.with_nullable(True) for field in self.row), *EVENT, numbered])

    @property
    def key_places(self) -> list[int]:
        """Numbers of the columns of the key."""
        return [self.row.get_field_index(name) for name in self.key]

    def add(self, images: Images, faults: Faults, outcome: Outcome) -> None:
        """Add the rows of images to the outcome. `faults`: by image, whose record is bad."""
        at, wrong = moments(images.millis, pa.nulls(len(images.millis), pa.int64()))
        add_faults(faults, wrong, "its time is not in the years 1 to 9999")
        deletes = flags(pc.equal(images.ops, DELETE))
        required(self.row, images.columns, ~deletes, faults)
        for place in self.key_places:
            nulls = flags(images.columns[place].is_null())
            add_faults(faults, nulls, f"{self.row.names[place]} is in the key, and null or absent")
        moved = self._moved(images)
        chosen = np.repeat(np.arange(len(moved)), 1 + moved)
        removed = np.zeros(len(chosen), np.bool_)
        removed[:-1] = chosen[:-1] == chosen[1:]
        columns = self._columns(images, chosen, removed) if moved.any() else list(images.columns)
        places = images.records[chosen]
        numbers = pa.array(np.arange(len(places)) - np.searchsorted(places, places), pa.int32())
        order = pa.array(chosen)
        parts = [*columns, *_event(images, moved, removed, order), at.take(order), numbers]
        of_rows: Faults = {}
        for image, reason in faults.items():
            of_rows[int(np.searchsorted(chosen, image))] = reason
        outcome.add(places, pa.record_batch(parts, schema=self.schema), dict(sorted(of_rows.items())))

    def _moved(self, images: Images) -> Flags:
        """Return which images are updates of the key."""
        moved = np.zeros(len(images.records), np.bool_)
        updates = flags(pc.equal(images.ops, UPDATE))
        for place, old in zip(self.key_places, images.old_keys, strict=True):
            if old.null_count < len(old):
                moved |= updates & flags(pc.fill_null(pc.not_equal(old, images.columns[place]), False))
        return moved

    def _columns(self, images: Images, chosen: Ints, removed: Flags) -> list[pa.Array]:
        """Return the columns of the rows. `removed`: the rows that delete the old key of an update."""
        order, mask = pa.array(chosen), pa.array(removed)
        old = dict(zip(self.key_places, images.old_keys, strict=True))
        columns = []
        for place, column in enumerate(images.columns):
            taken = column.take(order)
            before = pc.coalesce(old[place].take(order), taken) if place in old else pa.scalar(None, column.type)
            columns.append(pc.if_else(mask, before, taken))
        return columns


_DELETED_KEY: Final = ":0"
_WRITTEN: Final = ":1"
"""Behind a place in a file: of one statement, the row that leaves a key is before the row that gets the key."""


def _event(images: Images, moved: Flags, removed: Flags, order: pa.Array) -> list[pa.Array]:
    """Return `_op`, `_deleted` and `_position`."""
    ops = images.ops.take(order)
    created = moved[order.to_numpy()] & ~removed
    ops = pc.if_else(pa.array(removed), DELETE, pc.if_else(pa.array(created), CREATE, ops))
    deleted = pc.equal(ops, DELETE)
    texts = images.positions.take(order)
    in_file = pc.match_substring(texts, ":")
    last = pc.if_else(in_file, pc.if_else(deleted, _DELETED_KEY, _WRITTEN), "")
    return [ops, deleted, pc.binary_join_element_wise(texts, last, "")]
