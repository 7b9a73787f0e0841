"""The outcome of a batch whose records bring their own schemas: the rows of each table, bad and omitted records."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from connectors.api.contracts import METADATA
from connectors.api.decoding import Decoded, DecodedTables, TableRows, Undecodable
from connectors.formats.casting import flags
from connectors.formats.outcome import Outcome, in_order
from connectors.formats.spans import Flags, Ints

_Table: TypeAlias = tuple[str, tuple[str, ...], pa.Schema]
"""Name, key, and the columns of the rows."""


class TablesOutcome:
    """The rows, the bad and the omitted records of one column, as they are found. Each record is in one of them.

    Places are among the records that have a value.
    """

    def __init__(self, values: pa.Array) -> None:
        self.schemas: dict[str, str] = {}  # see Decoded
        self.given = flags(values.is_valid())
        """Which records have a value."""
        self._places: Ints = np.flatnonzero(self.given)
        self._bad: dict[int, str] = {}  # reason by place in the column
        self._parts: dict[_Table, list[tuple[Ints, pa.RecordBatch]]] = {}
        self._omitted: list[Ints] = []

    def omit_tombstones(self) -> None:
        """Add the records without a value to the omitted ones."""
        self._omitted.append(np.flatnonzero(~self.given))

    def reject_tombstones(self, reason: str) -> None:
        """Add the records without a value to the bad ones."""
        self._bad |= dict.fromkeys(np.flatnonzero(~self.given).tolist(), reason)

    def reject(self, places: Ints, reason: str) -> None:
        """Add bad records."""
        self._bad |= dict.fromkeys(self._places[places].tolist(), reason)

    def omit(self, places: Ints) -> None:
        """Add records that describe no row."""
        self._omitted.append(self._places[places])

    def add(self, name: str, key: tuple[str, ...], places: Ints, decoded: Decoded) -> None:
        """Add the records of one table, as its format has decoded them. `places`: of all its records, ascending."""
        kept = self.add_others(places, decoded)
        if decoded.rows.num_rows:
            rows = (self._places[places[kept]], decoded.rows)
            self._parts.setdefault((name, key, decoded.rows.schema), []).append(rows)

    def add_others(self, places: Ints, decoded: Decoded) -> Flags:
        """Add the bad and the omitted ones of these records, and their schemas. Return which records are rows."""
        kept = np.ones(len(places), np.bool_)
        if decoded.bad:
            kept[[each.index for each in decoded.bad]] = False
            of_column = self._places[places]
            self._bad |= {int(of_column[each.index]): each.reason for each in decoded.bad}
        if decoded.omitted:
            omitted = np.array(decoded.omitted, np.int64)
            kept[omitted] = False
            self.omit(places[omitted])
        self.schemas |= decoded.schemas
        return kept

    def decoded(self) -> DecodedTables:
        """Return all of it. Tables are in the order of their first rows."""
        tables = [_joined(table, parts) for table, parts in self._parts.items()]
        tables.sort(key=lambda each: int(each.places[0]))
        bad = tuple(Undecodable(at, self._bad[at]) for at in sorted(self._bad))
        omitted = np.sort(np.concatenate([np.empty(0, np.int64), *self._omitted])).tolist()
        return DecodedTables(tuple(tables), bad, self.schemas, tuple(omitted))


def common_rows(found: DecodedTables, schema: pa.Schema) -> Decoded:
    """Return the columns that the rows of all tables have, in the order of the records."""
    if not len(schema):
        count = sum(len(each.places) for each in found.tables)
        rows = pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))
        return Decoded(rows, found.bad, found.schemas, found.omitted)
    outcome = Outcome(schema)
    for table in found.tables:
        outcome.add(table.places, table.rows.select(schema.names), {})
    return Decoded(outcome.decoded().rows, found.bad, found.schemas, found.omitted)


def columns_problem(names: Sequence[str], own: Collection[str] = ()) -> str:
    """Return why no row can have these columns; empty if it can. `own`: columns that the format adds to each row."""
    if not names:
        return "its rows have no column"
    reserved = METADATA.union(own)
    seen: set[str] = set()
    for name in names:
        if not is_text(name):
            return f"a column's name is not Unicode: {name!a:.60}"
        if name.lower() in reserved:
            return f"column {name} has the name of a column that the pipeline adds to each row; rename it at its source"
        if name.lower() in seen:
            return f"two columns are named {name} (upper and lower case do not count)"
        seen.add(name.lower())
    return ""


def is_text(name: str) -> bool:
    """Whether a text from JSON can be encoded: JSON can escape halves of a character."""
    return name.isascii() or not any("\ud800" <= each <= "\udfff" for each in name)


def _joined(table: _Table, parts: Sequence[tuple[Ints, pa.RecordBatch]]) -> TableRows:
    name, key, schema = table
    places = np.sort(np.concatenate([places for places, _ in parts]))
    return TableRows(name, key, in_order(parts, schema), places)
