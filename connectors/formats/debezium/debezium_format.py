"""The format `debezium`: change events become rows of the table that they are of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.api.contracts import Finding
from connectors.api.decoding import Decoded
from connectors.formats.casting import Faults, add_faults, flags
from connectors.formats.change_rows import EVENT, moments, null_where, required, without_values
from connectors.formats.debezium.events import Encoding, Events, KeyRows
from connectors.formats.debezium.rows import unavailable
from connectors.formats.debezium.source_position import positions
from connectors.formats.outcome import Outcome
from connectors.formats.spans import Flags

_DELETE, _TRUNCATE = "d", "t"
_WRITES: Final = pa.array(["c", "u", "r"])
_TRUNCATED: Final = (
    "the table was truncated, and one record cannot delete all rows; leave such records out with truncate: skip"
)
_NO_KEY: Final = "a deletion without `before`, and the record's key has no column of the schema"
_UNLOGGED: Final = "the event lacks its value, which did not change; set REPLICA IDENTITY FULL, or leave the column out"


@dataclass(frozen=True)
class DebeziumFormat:
    """One row for each event that creates, changes, reads or deletes a row.

    A deletion has the columns of `before`, or of the record's key where `before` is missing. Omitted are tombstones,
    heartbeats, borders of transactions and changes of a schema. Bad is an event of another kind, or one that lacks the
    row, has a value that does not fit its column, or null where the schema has NOT NULL. NOT NULL does not hold for
    deleted rows, so no column of the result is NOT NULL.
    """

    row: pa.Schema
    encoding: Encoding
    truncate: Literal["refuse", "skip"] = "refuse"

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the row, then EVENT."""
        return pa.schema([*(field.with_nullable(True) for field in self.row), *EVENT])

    @property
    def names_schemas(self) -> bool:
        """Whether a registry keeps the schemas of the records. See NamedSchemas."""
        return self.encoding.names_schemas

    def with_schemas(self, known: Mapping[str, str]) -> DebeziumFormat:
        """Return this format with pinned schemas. See NamedSchemas."""
        return replace(self, encoding=self.encoding.with_schemas(known))

    def check(self) -> Sequence[Finding]:
        """Return the findings for `eos doctor`."""
        return self.encoding.check()

    def decode(self, values: pa.Array) -> Decoded:
        """Decode events whose records have no keys."""
        return self.decode_records(pa.nulls(len(values), pa.binary()), values)

    def decode_records(self, keys: pa.Array, values: pa.Array) -> Decoded:
        """Decode a batch. Keys are decoded only for deletions without `before`."""
        outcome = Outcome(self.schema)
        given = flags(values.is_valid())
        outcome.omit(np.flatnonzero(~given))
        places = np.flatnonzero(given)
        for events in self.encoding.events(values if given.all() else values.filter(pa.array(given)), places, outcome):
            self._add(events, keys, outcome)
        return outcome.decoded()

    def _add(self, events: Events, keys: pa.Array, outcome: Outcome) -> None:
        deletes = flags(pc.fill_null(pc.equal(events.ops, _DELETE), False))
        writes = flags(pc.is_in(events.ops, _WRITES))
        if not (deletes | writes).all():
            self._refuse(events, ~(deletes | writes), outcome)
        lacking = writes & flags(events.after.is_null())
        if lacking.any():
            for place, op in zip(events.places[lacking], events.ops.filter(pa.array(lacking)).to_pylist(), strict=True):
                outcome.bad[int(place)] = f"an event {op!r} without `after`"
        imaged, keyed = writes & ~lacking, deletes
        images = events.after
        if deletes.any():
            has_before = flags(events.before.is_valid())
            imaged, keyed = imaged | (deletes & has_before), deletes & ~has_before
            images = pc.if_else(pa.array(deletes), events.before, events.after)
        self._add_images(_chosen(events, images, imaged), outcome)
        if keyed.any():
            self._add_keyed(_chosen(events, images, keyed), keys, outcome)

    def _refuse(self, events: Events, others: Flags, outcome: Outcome) -> None:
        """Sort out the events that neither write nor delete a row."""
        for place, op in zip(
            events.places[others].tolist(), events.ops.filter(pa.array(others)).to_pylist(), strict=True
        ):
            if op == _TRUNCATE and self.truncate == "skip":
                outcome.omit(np.array([place], np.int64))
            elif op == _TRUNCATE:
                outcome.bad[place] = _TRUNCATED
            else:
                outcome.bad[place] = (
                    "no `op`: not a change event of Debezium" if op is None else f"unknown op {op!r:.40}"
                )

    def _add_images(self, found: _Chosen, outcome: Outcome) -> None:
        faults: Faults = {}
        columns = found.events.reader.columns(found.images, faults)
        writes = flags(pc.not_equal(found.events.ops, _DELETE))
        required(self.row, columns, writes, faults)
        for at, column in enumerate(columns):
            unlogged = unavailable(column)
            if unlogged is not None:
                add_faults(faults, unlogged & writes, f"{self.row.names[at]}: {_UNLOGGED}")
                columns[at] = null_where(column, unlogged)
        self._add_rows(found.events, columns, faults, outcome)

    def _add_keyed(self, found: _Chosen, keys: pa.Array, outcome: Outcome) -> None:
        """Deletions whose rows are known by the records' keys."""
        events = found.events
        of_events = keys.take(pa.array(events.places))
        given = flags(of_events.is_valid())
        outcome.reject(events.places[~given], "a deletion without `before`, and the record has no key")
        events = _filtered(events, given)
        for each in self.encoding.keys(of_events.filter(pa.array(given)), events.places, outcome):
            self._add_key_rows(each, _taken(events, each), outcome)

    def _add_key_rows(self, found: KeyRows, events: Events, outcome: Outcome) -> None:
        faults: Faults = {}
        columns = found.reader.columns(found.images, faults)
        add_faults(faults, without_values(columns, len(events.places)), _NO_KEY)
        self._add_rows(events, columns, faults, outcome)

    def _add_rows(self, events: Events, columns: Sequence[pa.Array], faults: Faults, outcome: Outcome) -> None:
        millis, micros = (pc.struct_field(events.source, [name]) for name in ("ts_ms", "ts_us"))
        at, wrong = moments(millis, micros)
        add_faults(faults, wrong, "source: its time is not in the years 1 to 9999")
        parts = [*columns, events.ops, pc.equal(events.ops, _DELETE), positions(events.source), at]
        outcome.add(events.places, pa.record_batch(parts, schema=self.schema), faults)


@dataclass(frozen=True, slots=True)
class _Chosen:
    events: Events
    images: pa.Array


def _chosen(events: Events, images: pa.Array, chosen: Flags) -> _Chosen:
    if chosen.all():
        return _Chosen(events, images)
    return _Chosen(_filtered(events, chosen), images.filter(pa.array(chosen)))


def _filtered(events: Events, chosen: Flags) -> Events:
    """Filter all parts except the images, which are not needed later."""
    if chosen.all():
        return events
    mask = pa.array(chosen)
    return Events(
        events.places[chosen],
        events.ops.filter(mask),
        events.before,
        events.after,
        events.source.filter(mask),
        events.reader,
    )


def _taken(events: Events, rows: KeyRows) -> Events:
    chosen = np.zeros(len(events.places), np.bool_)
    chosen[rows.places] = True
    return _filtered(events, chosen)
