"""`commit: upsert` on the task's side: the rows of a keyed segment, of each key the newest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import types

from connectors.grouping import by_group, taken
from connectors.log.keyed import ORDER, Upsert
from connectors.log.merge import GONE, Merge
from connectors.log.newest import Newest, Order
from connectors.log.place import LogPlace
from connectors.log.writer import AppendingRowWriter, Form, LogWriter, Output, RowWriter, Segment
from eos.errors import BadRowError, IncomparableRowsError
from twophase.ids import TransactionId
from twophase.values import Committable


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
            names.append(ORDER)
        return pa.record_batch([*columns, pa.repeat(pa.scalar(gone), batch.num_rows), *place], names=names)

    def _check_not_null(self, batch: pa.RecordBatch, first_row: int) -> None:
        """A row without a key cannot be merged, and a row without a place is neither old nor new."""
        order = () if self.upsert.order_by is None else (self.upsert.order_by,)
        for name in (*self.upsert.key, *order, *self.upsert.place):
            column = batch.column(name)
            if column.null_count:
                row = first_row + pc.index(pc.is_null(column), True).as_py()
                what = "NULL in a key" if name in self.upsert.key else "NULL, so that nothing tells how new the row is"
                remedy = "filter such rows in a transform, or choose another key"
                raise BadRowError(f"row {row}, column {name!r}: {what}", remedy=remedy)


class MergingRowWriter:
    """Implements RowWriter. Keeps a task's rows in memory, of each key about one, until it is flushed."""

    def __init__(self, form: KeyedForm, upsert: Upsert, output: Output, *, shares_table: bool = False) -> None:
        """`shares_table`: the table also has columns for rows of other schemas, so a deletion before a row counts."""
        self.upsert = upsert
        self._form = _Rows(form, upsert)
        self._output = output
        self._rows = 0
        self.key = self._form.merge.key  # columns of the segment
        self._newest = Newest(self.key, upsert.order, upsert.origins)
        # A row that is kept when its key goes has the values of its newest row, which may be of the same checkpoint.
        deleted_at = upsert.deleted_at
        self._before = Newest(self.key, upsert.order, {}) if deleted_at is not None else None
        # A row sets its own columns only. Without the deletion before it, the others would keep the deleted values.
        keeps_deletions = shares_table and upsert.deleted is not None
        self._deletions = Newest(self.key, upsert.order, {}) if keeps_deletions else None
        self._schema = self._form.schema
        self.key_types: tuple[pa.DataType, ...] = ()  # of the rows; known from the first row on

    def write(self, batch: pa.RecordBatch) -> None:
        """Convert and keep. Raises BadRowError for a value that the target cannot hold, or a key that is NULL."""
        rows = self._form.convert(batch, self._rows + 1)
        self._output.begin(self._schema)
        self.key_types = tuple(batch.schema.field(name).type for name in self.upsert.key)
        with self._of_all_rows():
            self._newest.add(rows)
            if self._before is not None:
                self._before.add(rows.filter(pc.invert(rows.column(GONE))))
            if self._deletions is not None:
                self._deletions.add(rows.filter(rows.column(GONE)))
        self._rows += batch.num_rows

    def flush(self) -> None:
        """Write of each key its newest row. Raises PrepareError, IncomparableRowsError."""
        self.write_rows(self.newest_rows())

    def newest_rows(self) -> list[pa.RecordBatch]:
        """Return of each key its newest row, with the columns by which rows are compared behind those of the segment.

        With `shares_table`, also the newest deletion of a key, in front of its row.

        Nothing follows but `write_rows`. Raises IncomparableRowsError.
        """
        with self._of_all_rows():
            newest = list(self._newest.rows())
            if self._before is not None:
                newest = [*self._before.rows(), *(batch.filter(batch.column(GONE)) for batch in newest)]
            if self._deletions is not None:
                kept = (batch.filter(pc.invert(batch.column(GONE))) for batch in newest)
                newest = [*self._deletions.rows(), *kept]
        return newest

    def write_rows(self, rows: Iterable[pa.RecordBatch]) -> None:
        """Write rows of `newest_rows`. Raises PrepareError."""
        for batch in rows:
            self._output.write(batch.select(self._schema.names).cast(self._schema))

    @contextmanager
    def _of_all_rows(self) -> Iterator[None]:
        """If rows of one key do not compare, the last of them is not at fault, and cannot be put aside."""
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
    segment = Segment(log.open(), transaction)
    rows = row_writer(form, upsert, segment, shares_table=False)
    return LogWriter(rows, segment, log.slots_for(replaces), transaction)


def row_writer(form: KeyedForm, upsert: Upsert | None, output: Output, *, shares_table: bool = True) -> RowWriter:
    """Return a writer of rows to an output: as they are, or of each key the newest one.

    `shares_table`: see MergingRowWriter.
    """
    if upsert is None:
        return AppendingRowWriter(form, output)
    return MergingRowWriter(form, upsert, output, shares_table=shares_table)


def flush_in_order(writers: Sequence[RowWriter]) -> None:
    """Flush the writers of one table, whose rows have several schemas.

    The rows of one key are written in their order, so the result is the same as if each had been applied alone: a row
    sets the columns that its own schema has. Raises PrepareError, IncomparableRowsError.
    """
    merging = [each for each in writers if isinstance(each, MergingRowWriter)]
    if len(merging) < max(2, len(writers)):
        for writer in writers:
            writer.flush()
        return
    found = [each.newest_rows() for each in merging]
    ranks = _ranks(merging, found)
    # Only the ranks that a writer has: most of very many writers have one row of a key.
    parts = [
        (rank, at, batch, places)
        for at, (batches, of_writer) in enumerate(zip(found, ranks, strict=True))
        for batch, of_batch in zip(batches, _split(of_writer, batches), strict=True)
        for (rank,), places in by_group(of_batch)
    ]
    sign = -1 if merging[0].upsert.keep else 1
    for _, at, batch, places in sorted(parts, key=lambda part: (sign * part[0], part[1])):
        merging[at].write_rows([taken(batch, places)])


def _split(values: NDArray[np.int64], batches: Sequence[pa.RecordBatch]) -> list[NDArray[np.int64]]:
    """Return the values of the rows of each batch."""
    return np.split(values, np.cumsum([batch.num_rows for batch in batches])[:-1]) if batches else []


def _ranks(writers: Sequence[MergingRowWriter], found: Sequence[Sequence[pa.RecordBatch]]) -> list[NDArray[np.int64]]:
    """Return for each row its place among the rows of its key, by writer; the oldest is 0.

    Raises IncomparableRowsError for a key of two origins.
    """
    upsert, key = writers[0].upsert, list(writers[0].key)
    names = [*dict.fromkeys([*key, *(name for name, _ in upsert.order), *upsert.origins])]
    tables = [pa.Table.from_batches(batches).select(names) for batches in found if batches]
    if not tables:
        return [np.zeros(0, np.int64) for _ in found]
    if len({each.key_types for each in writers if each.key_types}) > 1:
        tables = [_with_comparable_keys(table, key) for table in tables]
    whole = pa.concat_tables(tables, promote_options="permissive").combine_chunks()
    same_origin = Newest(key, upsert.order, upsert.origins)
    try:
        for batch in whole.to_batches():
            same_origin.add(batch)
        same_origin.rows()
    except BadRowError as error:
        raise IncomparableRowsError(error.message, remedy=error.remedy) from error
    by_key: Order = [*((name, "ascending") for name in key), *upsert.order]
    order = pc.sort_indices(whole, sort_keys=by_key).to_numpy().astype(np.int64)
    keys = whole.select(key).take(order)
    begins = np.arange(len(order)) == 0
    for column in keys.columns:
        begins[1:] |= pc.not_equal(column.slice(1), column.slice(0, len(column) - 1)).to_numpy()
    numbers = np.arange(len(order))
    ranks = np.empty(len(order), np.int64)
    ranks[order] = numbers - np.maximum.accumulate(np.where(begins, numbers, 0))
    ends = np.cumsum([sum(batch.num_rows for batch in batches) for batches in found])
    return np.split(ranks, ends[:-1])


_ZEROS_BEHIND_POINT: Final = r"(\.[0-9]*?)0+$"
_END_OF_WHOLE: Final = r"\.$|( 00:00:00)\.?$"


def _with_comparable_keys(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the rows with texts for their keys, which are equal where the database takes the values for equal.

    The type of a key may change: DECIMAL(9, 0) writes 1, and DECIMAL(9, 2) writes 1.00. Texts of different keys may
    become equal, too. That changes only the order in which their rows are written.
    """
    for name in key:
        column = rows.column(name)
        if not (types.is_binary(column.type) or types.is_large_binary(column.type)):
            texts = pc.replace_substring_regex(column.cast(pa.large_string()), _ZEROS_BEHIND_POINT, r"\1")
            texts = pc.replace_substring_regex(texts, _END_OF_WHOLE, "")
            rows = rows.set_column(rows.schema.get_field_index(name), name, texts)
    return rows
