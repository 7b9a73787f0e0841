"""`commit: upsert` as the spec has it: how rows of one key are compared, and what the rows must have for it.

A record's place in Kafka tells which row is newer: offsets of one partition of one topic compare. Rows of one key must
therefore come from one, as they do where the key is the record's own or follows from it (H16). With `order_by` a column
of the rows tells it, whatever partitions have them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyarrow import types

from connectors.api.decoding import ROW
from connectors.log.merge import GONE, Merge
from connectors.log.newest import Order
from connectors.spark_types import spark_type
from eos.errors import TargetError

PLACE: Final = ("_offset", "_partition")
"""Metadata columns that the rows must have, whether the table has a place for them or not."""

TOPIC: Final = "_topic"
"""The same where they come from several topics, whose partitions have the same numbers."""

_OFFSET: Final = "__offset"
_ROW: Final = "__row"
_PARTITION: Final = "__partition"
_TOPIC: Final = "__topic"
ORDER: Final = "__order"
"""Names of PLACE, ROW, TOPIC and the column of `order_by` beside the columns of the table, which may keep them, too."""

_ORIGINS: Final = {_TOPIC: "topics", _PARTITION: "partitions"}

_BY_OFFSET: Final[Order] = ((_OFFSET, "ascending"), (GONE, "descending"))
"""A change of a key is two rows of one record: the deletion comes first."""

_BY_ROW: Final[Order] = ((_OFFSET, "ascending"), (_ROW, "ascending"))
"""The format numbers the rows of a record, so a later row takes precedence."""

_RESERVED: Final = (GONE, _OFFSET, _ROW, _PARTITION, _TOPIC, ORDER)


@dataclass(frozen=True, slots=True)
class Upsert:
    """What the spec says of it."""

    key: tuple[str, ...]  # columns of the rows
    deleted: str | None = None  # a boolean column of the rows, true where the key is to be deleted
    by_topic: bool | None = None  # rows come from several topics; None: not known, and compared where they have TOPIC
    deleted_at: str | None = None  # a column of the rows and the table: a deletion's time, which the stored row gets
    order_by: str | None = None  # a column of the rows and the table that tells which row of a key is newer
    text_order: bool = False  # which is text; known for given rows
    keep: bool = False  # the oldest row of a key stays
    by_row: bool | None = None  # records may have several rows; None: not known, and compared where they have ROW

    def of(self, schema: pa.Schema) -> Upsert:
        """The same with `by_topic`, `by_row` and `text_order` known, for these rows."""
        by_topic = TOPIC in schema.names if self.by_topic is None else self.by_topic
        has_numbers = ROW in schema.names and types.is_integer(schema.field(ROW).type)
        by_row = has_numbers if self.by_row is None else self.by_row
        is_text = self.order_by in schema.names and _is_text(schema.field(self.order_by).type)
        return replace(self, by_topic=by_topic, by_row=by_row, text_order=is_text)

    @property
    def deletes(self) -> bool:
        """Whether rows may delete their key."""
        return self.deleted is not None or self.deleted_at is not None

    @property
    def order(self) -> Order:
        """How rows of one key compare, by columns that `MergingRowWriter` adds; the last row is the newest."""
        if self.keep:
            return tuple((name, "descending") for name, _ in _BY_ROW) if self.by_row else ((_OFFSET, "descending"),)
        first: Order = () if self.order_by is None else ((ORDER, "ascending"),)
        return (*first, *(_BY_ROW if self.by_row else _BY_OFFSET))

    @property
    def origins(self) -> dict[str, str]:
        """Columns in each of which rows of one key must be equal: none where a column of the rows orders them."""
        beside = {f"_{name}" for name in self.place}
        return {} if self.order_by else {name: words for name, words in _ORIGINS.items() if name in beside}

    def merge(self, stored: Callable[[Sequence[str]], tuple[str, ...]]) -> Merge:
        """Return the same for the table. `stored`: names its columns."""

        def column(name: str | None) -> str | None:
            return None if name is None else stored([name])[0]

        order_by, deleted_at = column(self.order_by), column(self.deleted_at)
        return Merge(stored(self.key), order_by, self.text_order, deleted_at, self.keep)

    @property
    def place(self) -> tuple[str, ...]:
        """Columns of the rows by which they are compared."""
        return (*self._record, ROW) if self.by_row else self._record

    @property
    def _record(self) -> tuple[str, ...]:
        """Columns of the rows that identify their record."""
        return (*PLACE, TOPIC) if self.by_topic else PLACE

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the rows must have beside those of the table."""
        return (*self.place, *(each for each in (self.deleted, self.deleted_at, self.order_by) if each is not None))

    @property
    def marked(self) -> tuple[str, ...]:
        """Columns of the rows that a deletion writes, or finds its row by."""
        return (*self.key, *(each for each in (self.deleted_at, self.order_by) if each is not None))

    def after(self, names: Sequence[str]) -> tuple[str, ...]:
        """The columns that a writer is given: those of the table, and then what merging takes."""
        return (*names, *(each for each in self.columns if each not in names))

    def check(self, schema: pa.Schema) -> list[str]:
        """What is missing in the rows, or wrong."""
        why = {
            TOPIC: ", which tells apart what comes from several topics",
            ROW: ", which orders the rows of one record",
        }
        needed = (*self.key, *self.of(schema).columns)
        found = [f"the rows have no column {name}{why.get(name, '')}" for name in needed if name not in schema.names]
        if self.deleted in schema.names and (kind := schema.field(self.deleted).type) != pa.bool_():
            found.append(f"column {self.deleted} of the rows is {spark_type(kind)}, not a boolean")
        if self.by_row and {*self.key} <= {*PLACE, TOPIC}:
            found.append(f"the key {', '.join(self.key)} is the same for all rows of a record; add {ROW} to it")
        whole_numbers = (*PLACE, ROW) if self.by_row else PLACE
        kinds = {name: schema.field(name).type for name in whole_numbers if name in schema.names}
        found += [
            f"column {name} of the rows is {spark_type(kind)}, not a whole number"
            for name, kind in kinds.items()
            if not types.is_integer(kind)
        ]
        found += _wrong_types(schema, self.deleted_at, "a moment", types.is_timestamp)
        ordered = "a whole number, a decimal, a date, a moment or text"
        found += _wrong_types(schema, self.order_by, ordered, _is_ordered)
        if TOPIC in self.of(schema).place and TOPIC in schema.names and not _is_text(schema.field(TOPIC).type):
            found.append(f"column {TOPIC} of the rows is {spark_type(schema.field(TOPIC).type)}, not text")
        found += [f"the rows have a column {name}, which merging needs" for name in _RESERVED if name in schema.names]
        return found


def _is_text(kind: pa.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _is_ordered(kind: pa.DataType) -> bool:
    """Whether each database can compare such values as Arrow does: not values that may be NaN."""
    is_number = types.is_integer(kind) or types.is_decimal(kind)
    return bool(is_number or types.is_date(kind) or types.is_timestamp(kind) or _is_text(kind))


def _wrong_types(schema: pa.Schema, name: str | None, wanted: str, fits: Callable[[pa.DataType], bool]) -> list[str]:
    if name is None or name not in schema.names or fits(kind := schema.field(name).type):
        return []
    return [f"column {name} of the rows is {spark_type(kind)}, not {wanted}"]


def check_upsert(sink: str, upsert: Upsert, schema: pa.Schema) -> None:
    """Raise TargetError that lists everything that is wrong with the rows. Called on the driver, at a start."""
    if found := upsert.check(schema):
        message = f"sink {sink}: the rows cannot be merged: " + "; ".join(found)
        names = ", ".join((*upsert.key, *upsert.of(schema).columns))
        remedy = f"let the last step select {names}, the last ones as they are"
        raise TargetError(message, remedy=remedy)
