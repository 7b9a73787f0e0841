"""What a task of a checkpoint does: write its rows, prepare, and acknowledge through Spark's own results (R5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from connectors.api.contracts import DirectWriter, Sink, Writer
from connectors.api.table_rows import MultiTableSink, MultiTableWriter
from connectors.members import require_members
from connectors.row_bisector import RowBisector
from eos.errors import TargetError
from spark_jobs.batch.acks import acknowledgement, of_unknown_tables
from spark_jobs.batch.stopwatch import Stopwatch
from spark_jobs.session.failures import carried
from spark_jobs.session.worker import settle
from twophase.ids import Scope, TransactionId, fresh_attempt, sink_key
from twophase.values import Committable

HASH_COLUMN = "_eos_hash"
"""Beginning of the last columns' names in a stateful pipeline: hashes of the rows, made by Spark, summed here and not
written (R4)."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one sink gets of a task's rows."""

    sink: Sink  # opened
    places: tuple[int, ...]  # of its columns among the rows'
    digest: int = 0  # which of the hashes is of its columns

    def by_table(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """Return a task's rows in a batch for each table: a writer takes or refuses a batch as a whole."""
        return self.sink.rows_by_table(batch) if isinstance(self.sink, MultiTableSink) else (batch,)

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Its columns, under the names that it knows: Spark may have others (columns.numbered)."""
        if isinstance(self.sink, MultiTableSink):  # its rows come from a source, with the columns of their table
            return batch
        return batch.select(self.places).rename_columns(list(self.sink.columns))


_CORRECT = (
    "correct the connector: `prepare` and `commit` return the writer's transaction, and the number of rows that it took"
)

WriterOf = Callable[[Sink, TransactionId], Writer]
"""What takes a sink's share of a task's rows. Picklable."""


def direct_writer(sink: Sink, transaction: TransactionId) -> DirectWriter:
    """At-least-once: what commits in the task."""
    return require_members(sink.direct_writer(transaction), DirectWriter, f"sink {sink.name}: `direct_writer`")


def open_writer(sink: Sink, transaction: TransactionId, *replaces: Committable) -> Writer:
    """Open the sink's writer. `replaces`: the transaction that a repair writes again; none in a run."""
    return require_members(sink.writer(transaction, *replaces), Writer, f"sink {sink.name}: `writer`")


@dataclass(frozen=True, slots=True)
class WriteTask:
    """The function that Spark runs on each partition. Picklable: an opened sink is configuration only."""

    scope: Scope
    shares: Sequence[Share]
    hashes: int  # how many there are behind the rows' columns
    token: str  # see failures.carried
    direct: bool  # at-least-once
    bisector: int | None = None  # how many rows may be put aside; None: a row that a sink refuses is an error
    places: tuple[int | str, ...] = ()  # of dead_letters.PLACE among the rows' columns, for those; empty: not known
    first: int = 0  # number of its first task: those of a checkpoint's other jobs come before it
    writer_of: WriterOf = open_writer  # of a repair: another (see `RewriteTask`)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One attempt of one task. An error undoes what was written, as far as the service still answers."""
        settle()
        digest = Digest([0] * self.hashes)
        with carried(self.token):
            shares, given, watch = self.shares, map(digest.take, batches), Stopwatch.of(len(self.shares))
            bisector = RowBisector(self.bisector, self.places) if self.bisector is not None else None
            write = write_and_commit if self.direct else partial(write_and_prepare, writer_of=self.writer_of)
            try:
                written: Sequence[Committable] = write(self.scope, shares, given, watch, self.first, bisector)
            except _UnknownTablesError as found:
                yield of_unknown_tables(found.wanted)
                return
        if bisector is not None:
            written = [
                bisector.count_refused(share.sink.name, each) for share, each in zip(shares, written, strict=True)
            ]
        yield acknowledgement(
            digest.on(self.shares, written), watch, bisector.encode() if bisector is not None else None
        )


def write_and_prepare(
    scope: Scope,
    shares: Sequence[Share],
    batches: Iterable[pa.RecordBatch],
    watch: Stopwatch,
    first: int = 0,
    bisector: RowBisector | None = None,
    writer_of: WriterOf = open_writer,
) -> list[Committable]:
    """In a task: one attempt's rows, written to each sink and then prepared there; a committable for each share.

    `watch`: of as many sinks. `writer_of`: what takes a sink's share.
    """
    writers: list[Writer] = []
    transactions = [_transaction(scope, share, first) for share in shares]
    for place, (share, transaction) in enumerate(zip(shares, transactions, strict=True)):
        with watch.writing(place):
            writers.append(writer_of(share.sink, transaction))

    with _written(shares, writers, batches, watch, bisector) as given:
        _check_tables(shares, writers)
        found = [watch.preparing(place, writer.prepare) for place, writer in enumerate(writers)]
        return _checked(shares, transactions, found, given, bisector)


def write_and_commit(
    scope: Scope,
    shares: Sequence[Share],
    batches: Iterable[pa.RecordBatch],
    watch: Stopwatch,
    first: int = 0,
    bisector: RowBisector | None = None,
) -> list[Committable]:
    """At-least-once: the same, and committed there, one sink after another."""
    writers: list[DirectWriter] = []
    transactions = [_transaction(scope, share, first) for share in shares]
    for place, (share, transaction) in enumerate(zip(shares, transactions, strict=True)):
        with watch.writing(place):
            writers.append(direct_writer(share.sink, transaction))
    with _written(shares, writers, batches, watch, bisector) as given:
        found = [watch.preparing(place, writer.commit) for place, writer in enumerate(writers)]
        return _checked(shares, transactions, found, given, bisector)


def _checked(
    shares: Sequence[Share],
    transactions: Sequence[TransactionId],
    found: Sequence[Committable],
    rows: int,
    bisector: RowBisector | None,
) -> list[Committable]:
    """Compare the acknowledgements with the rows that the writers were given, before the driver decides by them (R5).

    Raises TargetError for another transaction, or another number of rows. The checkpoint is then aborted.
    """
    for share, transaction, each in zip(shares, transactions, found, strict=True):
        where = f"sink {share.sink.name}, task {transaction.task}: the writer"
        if not isinstance(each, Committable):
            raise TargetError(f"{where} acknowledged a {type(each).__name__}, not a Committable", remedy=_CORRECT)
        if each.transaction != transaction:
            message = f"{where} acknowledged {each.transaction}, and was given {transaction}"
            raise TargetError(message, remedy=_CORRECT)
        taken = rows - (bisector.refused[share.sink.name] if bisector is not None else 0)
        if type(each.rows) is not int or each.rows != taken:
            raise TargetError(f"{where} acknowledged {each.rows!r} rows, and took {taken}", remedy=_CORRECT)
    return list(found)


class _UnknownTablesError(Exception):
    """Rows of tables that their sink does not know yet."""

    def __init__(self, wanted: Sequence[tuple[str, pa.Schema]]) -> None:
        super().__init__()
        self.wanted = wanted  # sink and schema


def _check_tables(shares: Sequence[Share], writers: Sequence[Writer]) -> None:
    wanted = [
        (share.sink.name, schema)
        for share, writer in zip(shares, writers, strict=True)
        if isinstance(writer, MultiTableWriter)
        for schema in writer.wanted
    ]
    if wanted:
        raise _UnknownTablesError(wanted)


def _transaction(scope: Scope, share: Share, first: int) -> TransactionId:
    """Of this attempt of this task."""
    context = TaskContext.get()
    assert context is not None
    task = first + context.partitionId()
    return TransactionId(scope, sink_key(share.sink.name), task, fresh_attempt(context.taskAttemptId()))


_W = TypeVar("_W", Writer, DirectWriter)


def _write(share: Share, writer: Writer | DirectWriter, batch: pa.RecordBatch, bisector: RowBisector | None) -> None:
    for rows in share.by_table(batch):
        if bisector is None:
            writer.write(share.of(rows))
        else:
            bisector.write(writer, share.sink.name, share.of(rows), bisector.place(rows))


@contextmanager
def _written(
    shares: Sequence[Share],
    writers: Sequence[_W],
    batches: Iterable[pa.RecordBatch],
    watch: Stopwatch,
    bisector: RowBisector | None,
) -> Iterator[int]:
    """The block ends the writers, which have been given all rows. An error, there too, undoes what can be undone.

    Yields the number of rows that each writer was given.
    """
    given = 0
    try:
        for batch in watch.reading(batches):
            given += batch.num_rows
            for place, (share, writer) in enumerate(zip(shares, writers, strict=True)):
                with watch.writing(place):
                    _write(share, writer, batch, bisector)
        yield given
    except BaseException:
        for writer in writers:
            with suppress(Exception, SystemExit):  # the first error tells more; the other writers still have to abort
                writer.abort()
        raise


@dataclass(slots=True)
class Digest:
    """Order-free sums of row hashes, modulo 2**64."""

    values: list[int]
    rows: int = 0

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Add the hashes of the last columns; returns the batch without them."""
        first = batch.num_columns - len(self.values)
        for number, value in enumerate(self.values):
            hashes = batch.column(first + number).to_numpy(zero_copy_only=False).view(np.uint64)
            self.values[number] = (value + int(hashes.sum(dtype=np.uint64))) % 2**64
        self.rows += batch.num_rows
        return batch.select(range(first))

    def on(self, shares: Sequence[Share], written: Sequence[Committable]) -> Sequence[Committable]:
        """With each share's sum; as they are where there are no hashes."""
        if not self.values:
            return written
        return [replace(each, digest=self.values[share.digest]) for share, each in zip(shares, written, strict=True)]


COUNTED = "hash int, rows long, digest string"
"""Schema of what a CountTask returns."""


@dataclass(frozen=True, slots=True)
class CountTask:
    """The task of a replayed batch: state is brought along, rows are counted and hashed, nothing is written (R4)."""

    hashes: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A row for each hash."""
        digest = Digest([0] * self.hashes)
        for batch in batches:
            digest.take(batch)
        columns = {
            "hash": pa.array(range(self.hashes), pa.int32()),
            "rows": [digest.rows] * self.hashes,
            "digest": [str(value) for value in digest.values],
        }
        yield pa.RecordBatch.from_pydict(columns)
