"""`commit: upsert` on the task's side: of each key the newest row goes to the log, or that the key goes.

A record's place in Kafka tells which row is newer: offsets of one partition of one topic compare. Rows of one key must
therefore come from one, as they do where the key is the record's own or follows from it (H16).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

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

GONE: Final = "__gone"
"""Column of a segment: the row's key is to be deleted, and its other columns say nothing."""

_OFFSET: Final = "__offset"
_PARTITION: Final = "__partition"
_TOPIC: Final = "__topic"
"""What PLACE and TOPIC are called beside the columns of the table, which may keep them, too."""

_ORIGINS: Final = {_TOPIC: "topics", _PARTITION: "partitions"}

_ORDER: Final[Order] = ((_OFFSET, "ascending"), (GONE, "descending"))
"""What one record says of a key: that it goes, and then that it comes again, as a change of a key does."""

_RESERVED: Final = (GONE, _OFFSET, _PARTITION, _TOPIC)
_KEY: Final = b"key"


@dataclass(frozen=True, slots=True)
class Upsert:
    """What the spec says of it."""

    key: tuple[str, ...]  # columns of the rows
    deleted: str | None = None  # a boolean column of the rows, true where the key is to be deleted
    by_topic: bool | None = None  # rows come from several topics; None: not known, and compared where they have TOPIC

    def of(self, schema: pa.Schema) -> Upsert:
        """The same with `by_topic` known, for these rows."""
        return self if self.by_topic is not None else replace(self, by_topic=TOPIC in schema.names)

    @property
    def place(self) -> tuple[str, ...]:
        """Columns of the rows by which they are compared."""
        return (*PLACE, TOPIC) if self.by_topic else PLACE

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the rows must have beside those of the table."""
        return (*self.place, *(() if self.deleted is None else (self.deleted,)))

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
        if TOPIC in self.of(schema).place and TOPIC in schema.names and not _is_text(schema.field(TOPIC).type):
            found.append(f"column {TOPIC} of the rows is {spark_type(schema.field(TOPIC).type)}, not text")
        found += [f"the rows have a column {name}, which merging needs" for name in _RESERVED if name in schema.names]
        return found


def _is_text(kind: pa.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind))


class KeyedForm(Form, Protocol):
    """A form that can also say no more than a key."""

    def only(self, names: Sequence[str]) -> KeyedForm:
        """The same for these columns of the rows."""

    def stored(self, names: Sequence[str]) -> tuple[str, ...]:
        """How these columns of the rows are called in the schema."""


def key_of(schema: pa.Schema) -> tuple[str, ...]:
    """The key columns of a segment; none where its rows are added as they are."""
    found = (schema.metadata or {}).get(_KEY)
    return tuple(json.loads(found)) if found else ()


@dataclass(frozen=True, slots=True)
class _Rows:
    """The form of a keyed segment: as the rows' own, with one more column."""

    form: KeyedForm
    upsert: Upsert

    @property
    def key(self) -> tuple[str, ...]:
        return self.form.stored(self.upsert.key)

    @property
    def schema(self) -> pa.Schema:
        fields = [field.with_nullable(True) for field in self.form.schema]
        return pa.schema([*fields, pa.field(GONE, pa.bool_())], metadata={_KEY: json.dumps(self.key).encode()})

    def convert(self, batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
        """With its place at its end, by which rows are compared, and which is not stored."""
        self._check_not_null(batch, first_row)
        gone = self._gone(batch)
        parts = [self._kept(batch.filter(pc.invert(gone)), first_row), self._deleted(batch.filter(gone), first_row)]
        return pa.Table.from_batches(parts).combine_chunks().to_batches()[0]

    def _gone(self, batch: pa.RecordBatch) -> pa.Array:
        if self.upsert.deleted is None:
            return pa.repeat(pa.scalar(False), batch.num_rows)
        return pc.fill_null(batch.column(self.upsert.deleted), False)

    def _kept(self, batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
        rows = self.form.convert(batch, first_row)
        return self._ordered(batch, list(rows.columns), gone=False)

    def _deleted(self, batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
        keys = self.form.only(self.upsert.key).convert(batch, first_row)
        columns = [
            keys.column(field.name) if field.name in keys.schema.names else pa.nulls(batch.num_rows, field.type)
            for field in self.form.schema
        ]
        return self._ordered(batch, columns, gone=True)

    def _ordered(self, batch: pa.RecordBatch, columns: list[pa.Array], *, gone: bool) -> pa.RecordBatch:
        place = [batch.column(name) for name in self.upsert.place]
        names = [*self.schema.names, *(f"_{name}" for name in self.upsert.place)]
        return pa.record_batch([*columns, pa.repeat(pa.scalar(gone), batch.num_rows), *place], names=names)

    def _check_not_null(self, batch: pa.RecordBatch, first_row: int) -> None:
        """A row without a key is none that could be merged, and one without a place is neither old nor new."""
        for name in (*self.upsert.key, *self.upsert.place):
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
        beside = {f"_{name}" for name in upsert.place}
        self._newest = Newest(rows.key, _ORDER, {name: words for name, words in _ORIGINS.items() if name in beside})
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
        self._rows += batch.num_rows
        if first:
            faults.point("writing", self._transaction.scope.checkpoint_id, self._transaction.sink)

    def prepare(self) -> Committable:
        """Write what is left, and seal it. Raises PrepareError."""
        with self._of_all_rows():
            newest = self._newest.rows()
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
