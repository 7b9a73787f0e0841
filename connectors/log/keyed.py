"""`commit: upsert` on the task's side: of each key the newest row goes to the log, or that the key goes.

A record's place in Kafka tells which row is newer: offsets of one partition of one topic compare. Rows of one key must
therefore come from one, as they do where the key is the record's own or follows from it (H16). With `order_by` a column
of the rows tells it, whatever partitions have them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from connectors.log.merge import GONE, Merge
from connectors.log.newest import Newest, Order
from connectors.log.place import LogPlace
from connectors.log.segments import while_preparing
from connectors.log.writer import Form, LogWriter
from connectors.spark_types import spark_type
from eos.errors import BadRowError, IncomparableRowsError, TargetError
from twophase import faults
from twophase.ids import TransactionId
from twophase.values import Committable
from wal.errors import WalError
from wal.storage import Storage

PLACE: Final = ("_offset", "_partition")
"""Metadata columns that the rows must have, whether the table has a place for them or not."""

TOPIC: Final = "_topic"
"""The same where they come from several topics, whose partitions have the same numbers."""

_OFFSET: Final = "__offset"
_PARTITION: Final = "__partition"
_TOPIC: Final = "__topic"
_ORDER: Final = "__order"
"""Names of PLACE, TOPIC and the column of `order_by` beside the columns of the table, which may keep them, too."""

_ORIGINS: Final = {_TOPIC: "topics", _PARTITION: "partitions"}

_BY_OFFSET: Final[Order] = ((_OFFSET, "ascending"), (GONE, "descending"))
"""A change of a key is two rows of one record: the deletion comes first."""

_RESERVED: Final = (GONE, _OFFSET, _PARTITION, _TOPIC, _ORDER)


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

    def of(self, schema: pa.Schema) -> Upsert:
        """The same with `by_topic` and `text_order` known, for these rows."""
        by_topic = TOPIC in schema.names if self.by_topic is None else self.by_topic
        is_text = self.order_by in schema.names and _is_text(schema.field(self.order_by).type)
        return replace(self, by_topic=by_topic, text_order=is_text)

    @property
    def deletes(self) -> bool:
        """Whether rows may delete their key."""
        return self.deleted is not None or self.deleted_at is not None

    @property
    def order(self) -> Order:
        """How rows of one key compare, by columns that `KeyedWriter` adds; the last row is the newest."""
        if self.keep:
            return ((_OFFSET, "descending"),)
        first: Order = () if self.order_by is None else ((_ORDER, "ascending"),)
        return (*first, *_BY_OFFSET)

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
        why = {TOPIC: ", which tells apart what comes from several topics"}
        needed = (*self.key, *self.of(schema).columns)
        found = [f"the rows have no column {name}{why.get(name, '')}" for name in needed if name not in schema.names]
        if self.deleted in schema.names and (kind := schema.field(self.deleted).type) != pa.bool_():
            found.append(f"column {self.deleted} of the rows is {spark_type(kind)}, not a boolean")
        kinds = {name: schema.field(name).type for name in PLACE if name in schema.names}
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


class KeyedForm(Form, Protocol):
    """A form that can also say no more than a key."""

    def only(self, names: Sequence[str]) -> KeyedForm:
        """The same for these columns of the rows."""

    def stored(self, names: Sequence[str]) -> tuple[str, ...]:
        """How these columns of the rows are called in the schema."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """The form of a keyed segment: as the rows' own, with one more column."""

    form: KeyedForm
    upsert: Upsert

    @property
    def merge(self) -> Merge:
        return self.upsert.merge(self.form.stored)

    @property
    def schema(self) -> pa.Schema:
        fields = [field.with_nullable(True) for field in self.form.schema]
        return pa.schema([*fields, pa.field(GONE, pa.bool_())], metadata=self.merge.metadata())

    def convert(self, batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
        """With its place at its end, by which rows are compared, and which is not stored."""
        self._check_not_null(batch, first_row)
        gone = self._gone(batch)
        parts = [self._kept(batch.filter(pc.invert(gone)), first_row), self._deleted(batch.filter(gone), first_row)]
        return pa.Table.from_batches(parts).combine_chunks().to_batches()[0]

    def _gone(self, batch: pa.RecordBatch) -> pa.Array:
        if self.upsert.deleted_at is not None:
            return batch.column(self.upsert.deleted_at).is_valid()
        if self.upsert.deleted is None:
            return pa.repeat(pa.scalar(False), batch.num_rows)
        return pc.fill_null(batch.column(self.upsert.deleted), False)

    def _kept(self, batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
        rows = self.form.convert(batch, first_row)
        return self._ordered(batch, list(rows.columns), gone=False)

    def _deleted(self, batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
        keys = self.form.only(self.upsert.marked).convert(batch, first_row)
        columns = [
            keys.column(field.name) if field.name in keys.schema.names else pa.nulls(batch.num_rows, field.type)
            for field in self.form.schema
        ]
        return self._ordered(batch, columns, gone=True)

    def _ordered(self, batch: pa.RecordBatch, columns: list[pa.Array], *, gone: bool) -> pa.RecordBatch:
        place = [batch.column(name) for name in self.upsert.place]
        names = [*self.schema.names, *(f"_{name}" for name in self.upsert.place)]
        if self.upsert.order_by is not None:
            place.append(batch.column(self.upsert.order_by))
            names.append(_ORDER)
        return pa.record_batch([*columns, pa.repeat(pa.scalar(gone), batch.num_rows), *place], names=names)

    def _check_not_null(self, batch: pa.RecordBatch, first_row: int) -> None:
        """A row without a key is none that could be merged, and one without a place is neither old nor new."""
        order = () if self.upsert.order_by is None else (self.upsert.order_by,)
        for name in (*self.upsert.key, *order, *self.upsert.place):
            column = batch.column(name)
            if column.null_count:
                row = first_row + pc.index(pc.is_null(column), True).as_py()
                what = "NULL in a key" if name in self.upsert.key else "NULL, so that nothing tells how new the row is"
                remedy = "filter such rows in a transform, or choose another key"
                raise BadRowError(f"row {row}, column {name!r}: {what}", remedy=remedy)


class KeyedWriter(LogWriter):
    """See Writer. Keeps a task's rows in memory, of each key about one, until it prepares."""

    def __init__(
        self, storage: Storage, form: KeyedForm, upsert: Upsert, slots: int, transaction: TransactionId
    ) -> None:
        rows = _Rows(form, upsert)
        super().__init__(storage, rows, slots, transaction)
        self._newest = Newest(rows.merge.key, upsert.order, upsert.origins)
        # A row that is kept when its key goes has the values of its newest row, which may be of the same checkpoint.
        self._before = Newest(rows.merge.key, upsert.order, {}) if upsert.deleted_at is not None else None
        self._schema = rows.schema

    def write(self, batch: pa.RecordBatch) -> None:
        """Convert and keep. Raises BadRowError for a value that the target cannot hold, or a key that is NULL."""
        if not batch.num_rows:
            return
        first = self._rows == 0
        if first:
            try:
                self._begin()
            except WalError as error:
                raise while_preparing(error) from error
        rows = self._form.convert(batch, self._rows + 1)
        with self._of_all_rows():
            self._newest.add(rows)
            if self._before is not None:
                self._before.add(rows.filter(pc.invert(rows.column(GONE))))
        self._rows += batch.num_rows
        if first:
            faults.point("writing", self._transaction.scope.checkpoint_id, self._transaction.sink)

    def prepare(self) -> Committable:
        """Write what is left, and seal it. Raises PrepareError."""
        with self._of_all_rows():
            newest = list(self._newest.rows())
            if self._before is not None:
                newest = [*self._before.rows(), *(batch.filter(batch.column(GONE)) for batch in newest)]
        for batch in newest:
            self._append(batch.select(self._schema.names).cast(self._schema))
        return super().prepare()

    @contextmanager
    def _of_all_rows(self) -> Iterator[None]:
        """That rows of one key do not compare is no fault of the one that came last: it cannot be put aside."""
        try:
            yield
        except BadRowError as error:
            raise IncomparableRowsError(error.message, remedy=error.remedy) from error


def segment_schema(form: KeyedForm, upsert: Upsert) -> pa.Schema:
    """Of what a task writes."""
    return _Rows(form, upsert).schema


def log_writer(
    log: LogPlace,
    form: KeyedForm,
    upsert: Upsert | None,
    transaction: TransactionId,
    replaces: Committable | None = None,
) -> LogWriter:
    """In a task: a writer into the log, of rows as they are or of each key the newest one. See Sink.writer."""
    storage, slots = log.open(), log.slots_for(replaces)
    if upsert is None:
        return LogWriter(storage, form, slots, transaction)
    return KeyedWriter(storage, form, upsert, slots, transaction)


def check_upsert(sink: str, upsert: Upsert, schema: pa.Schema) -> None:
    """Raise TargetError that lists everything that is wrong with the rows. Called on the driver, at a start."""
    if found := upsert.check(schema):
        message = f"sink {sink}: the rows cannot be merged: " + "; ".join(found)
        names = ", ".join((*upsert.key, *upsert.of(schema).columns))
        remedy = f"let the last step select {names}, the last ones as they are"
        raise TargetError(message, remedy=remedy)
