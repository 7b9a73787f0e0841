"""The contracts of connectors: `Source`; `Sink` with its `Writer`, `DirectWriter` and `Committer`.

Everything that is sent to a Spark task (`Source`, `Sink`, a split) is picklable and holds configuration only.
Connections are opened where they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Protocol, TypeGuard, runtime_checkable

import pyarrow as pa

from connectors.api.decoding import ROW
from twophase.ids import TransactionId
from twophase.participants import Committer
from twophase.positions import Position, Positions
from twophase.values import Committable, OffsetRange, StartingPoint

METADATA: Final = frozenset({"_key", "_topic", "_partition", "_offset", "_timestamp", "_headers"})
"""Columns that every row has; a table may leave them out."""
EVENT_METADATA: Final = frozenset({"_op", "_deleted", "_position", "_source_ts", ROW})
"""Further columns of a change event, or of a record with several rows; a table may leave them out, too."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of `eos doctor`: a check, its result, and the remedy if it failed.

    Created by: `check` of a source or a sink. Read by: `eos doctor`, which prints the findings in their order and exits
    with code 1 if one is not `ok` and `fatal`. `remedy` is one sentence, and empty where `ok`.
    """

    check: str
    ok: bool
    detail: str
    remedy: str = ""
    fatal: bool = True  # False: a warning; the run can go on


@dataclass(frozen=True, slots=True)
class Horizon:
    """The positions up to which a source may be read now.

    Created by: `Source.horizon`. Read by: Spark's planner process, which plans the next checkpoint up to `ends` at
    most, and stores the splits of `discovered` in that very plan (R6). `MeasuredSource.current_ends` creates one too,
    for the lag monitor, which plans nothing.
    """

    ends: Positions  # by split: the end of the records that can be read
    discovered: StartingPoint  # new splits and topics, with the first offset of each
    withheld: Positions = field(default_factory=dict)
    """By split, the end of the records that exist and cannot be read yet. Splits without such records are left out.

    Invariant: withheld[split] > ends[split].
    """


class Source(Protocol):
    """A replayable input: the same offsets always name the same records.

    Implemented by: a connector. Called by: the driver, Spark's planner process and tasks. A source is pickled into each
    of them, so it holds configuration only and opens connections inside its methods.

    Call order: `starting_point` at each start of a query; then for each checkpoint `horizon`, `witnesses` and `lost` in
    the planner, `read` in tasks, and `commit_back` on the driver once the checkpoint is committed. `check` is called by
    `eos doctor` only.

    Blocking: every method except `select` and the properties may block on the service.

    Raises: SourceError if the service does not answer; OffsetOutOfRangeError if planned records no longer exist.

    Rule: a checkpoint reads exactly the records in `[start, end)` of its ranges, also when it is replayed (R4, R6).
    """

    withheld_by: ClassVar[str]  # the reason for `Horizon.withheld`, as in "waiting for …"; empty: the source has none
    withheld_remedy: ClassVar[str]  # the action that ends the wait

    @property
    def name(self) -> str:
        """The name in the spec."""

    @property
    def split_above(self) -> int | None:
        """The number of offsets above which several tasks read one range, in no order. None: one task reads a range.

        Without effect if positions are not integers.
        """

    @property
    def join_below(self) -> int:
        """The number of offsets up to which small ranges share a task. Without effect if positions are not integers."""

    @property
    def schema(self) -> pa.Schema:
        """Decoded columns followed by the metadata columns, as `read` yields them."""

    def select(self, columns: Sequence[str]) -> Source:
        """Return this source reading only `columns` of `schema`, in the order of the schema."""

    def starting_point(self, known: StartingPoint) -> StartingPoint:
        """Resolve `starting_offsets`: return the first position of each split that `known` does not contain.

        Splits of a topic in `known` are left to `horizon`. The driver calls this at each start of a query and stores
        the result, so each split is resolved once per incarnation (R6).

        Raises SourceError if the service does not answer, OffsetOutOfRangeError as `horizon` does.
        """

    def horizon(self, known: StartingPoint) -> Horizon:
        """Return the positions up to which records can be read now. Called once per checkpoint, in the planner process.

        Raises SourceError if the service does not answer, OffsetOutOfRangeError if a topic was recreated since `known`
        was stored: its offsets would name other records.
        """

    def limit(self, offsets: OffsetRange, max_records: int) -> Position:
        """Return the position in `offsets` that is about `max_records` records after its start.

        The position is after the start and not after the end; it is the end if the source cannot tell. Called in the
        planner process, only if positions are not integers.
        """

    def witnesses(self, ranges: Sequence[OffsetRange]) -> Mapping[str, str]:
        """Return by split a witness of the last record of each range: text that identifies the record.

        A range that does not end in a record has no witness. Called once per checkpoint that has records, in the
        planner process. Raises SourceError if the service does not answer.
        """

    def check_witnesses(self, witnesses: Mapping[str, str]) -> None:
        """Compare the records with their witnesses. Skip a record that the service has deleted since.

        Raises OffsetOutOfRangeError if another record is in its place: the log was restored to an earlier state (H23).
        Raises SourceError if the service does not answer.
        """

    def lost_ranges(self, ranges: Sequence[OffsetRange]) -> Sequence[OffsetRange]:
        """Return the parts of `ranges` that the service has deleted and that `read` skips, as the spec allows.

        Called once per checkpoint, before it is read; the driver logs the result. Called again after a batch that
        Spark repeats for its state. Empty if the spec makes loss an error.
        """

    @property
    def rejects_bad_records(self) -> bool:
        """Whether bad records become dead letters: `read` skips them and reports their number.

        A record is bad if it does not decode, or if a column of `schema` cannot hold its metadata.
        """

    @property
    def skips_bad_records(self) -> bool:
        """Whether `read` skips bad records and counts them. They are written nowhere."""

    def read(
        self, ranges: Sequence[OffsetRange], on_bad_records: Callable[[int], None] = ...
    ) -> Iterator[pa.RecordBatch]:
        """Yield the records of `ranges`, each range of another split, in batches of one split and of bounded size.

        The records of a split are in offset order. Yields exactly the records that exist in `[start, end)`, and ends
        when all ranges are exhausted. Gaps and transaction markers are not errors. Called in a task, and once more if
        Spark retries the task.

        `on_bad_records`: called with the number of bad records of a batch, before the next batch.

        Raises OffsetOutOfRangeError if the service no longer has the start of a range.
        """

    def bad_records(self, offsets: OffsetRange) -> Iterator[pa.RecordBatch]:
        """Yield the bad records of a range as rows of `dead_letters.RECORD`.

        These are the records that `read` skips, called on the same source with the same columns. Called in a task of
        the same checkpoint, only if `read` reported bad records.
        """

    def records(self, split: str, offsets: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """Yield the records at `offsets`, bad or not, each once, as rows of `dead_letters.RECORD`.

        Records that the service has deleted are left out. `error` is empty, or names the part of a record that could
        not be read. `offsets` are sorted. Called in a task of the checkpoint that read the records.

        Raises SourceError if the service does not answer.
        """

    def commit_back(self, positions: Positions) -> None:
        """Publish the positions of the pipeline at the service, for lag tools only (R9).

        Raises SourceError if the service does not answer: the caller logs a warning, and the pipeline continues.
        """

    def check(self) -> Sequence[Finding]:
        """Return the findings for `eos doctor`. An error of the service is a finding, and is not raised."""


class SchemaSource(Source, Protocol):
    """An optional part of a source: its records name the schemas that they are decoded with.

    Implemented by: a connector, in its `Source`. Called by: tasks, in place of `Source.read`. The decision keeps the
    schemas: a checkpoint that is read once more must be decoded with the same ones (H35).
    """

    @property
    def names_schemas(self) -> bool:
        """Whether records name schemas."""

    def with_schemas(self, known: Mapping[str, str]) -> Source:
        """Return this source. Its tasks raise IdentityError where a known name has another schema (H35)."""

    def read_with_schemas(
        self,
        ranges: Sequence[OffsetRange],
        on_bad_records: Callable[[int], None],
        on_schemas: Callable[[Mapping[str, str]], None],
    ) -> Iterator[pa.RecordBatch]:
        """Read as `Source.read` does. `on_schemas`: called with `Decoded.schemas` of a batch before the batch."""


def names_schemas(source: Source) -> TypeGuard[SchemaSource]:
    """Whether the decision has to keep the schemas of this source."""
    return bool(getattr(source, "names_schemas", False))


class SelfDescribingSource(Source, Protocol):
    """An optional part of a source: each record brings the schema of its row.

    Implemented by: a connector, in its `Source`. Called by: the start of a pipeline. `schema` has only the columns that
    every row has. A batch of `read` has rows of one table, whose name and key `table_rows.table_of` returns. It has the
    columns of the table, then the columns of `schema`. `select` narrows only the metadata columns.
    """

    @property
    def describes_itself(self) -> bool:
        """Whether records bring their own schemas."""


def describes_itself(source: Source) -> TypeGuard[SelfDescribingSource]:
    """Whether the batches of this source have further columns than its schema."""
    return bool(getattr(source, "describes_itself", False))


@runtime_checkable
class MeasuredSource(Protocol):
    """An optional part of a source: it measures where its records end now. Without it, the lag is unknown.

    Implemented by: a connector, in its `Source`. Called by: the lag monitor, in a thread of the driver, and
    `eos status --measure-lag`.

    Call order: none. `current_ends` is called at intervals, also while the methods of `Source` run.

    Blocking: for some seconds at most.

    Raises: SourceError if the service does not answer; OffsetOutOfRangeError as `Source.horizon` does. After any error
    the lag is unknown, and the pipeline continues.

    Rule: it shares no connection with the methods of `Source`. It must neither delay them nor be delayed by them.
    """

    def current_ends(self, known: StartingPoint) -> Horizon | None:
        """Measure the ends of the records that exist now. None: the source does not know them.

        Unlike `Source.horizon`, the answer is never less than a reader could read: a source that limits its plans
        returns the true ends, or None. There is an end for each split that the source reads, at or after its position
        in `known`. `discovered` has the first position of a split that `known` lacks; without it the lag is unknown.
        """


class Writer(Protocol):
    """The task-side half of a sink: one attempt of one task.

    Implemented by: a connector. Called by: one task, in one thread.

    Call order: `write` or `write_atomic` any number of times, then `prepare` or, after an error, `abort`. Nothing
    follows `prepare` or `abort`.

    Blocking: every call may block on the service.

    Raises: BadRowError, PrepareError, PermitRevokedError, SinkUnavailableError.

    Rule: after `prepare` the rows are durable and invisible, under the transaction id of this attempt. A writer whose
    permit is gone prepares nothing (R5).
    """

    def write(self, batch: pa.RecordBatch) -> None:
        """Send rows.

        Raises BadRowError, PrepareError, PermitRevokedError, SinkUnavailableError; then only `abort` follows.
        """

    def write_atomic(self, batch: pa.RecordBatch) -> None:
        """Send rows as `write` does. A BadRowError leaves nothing of the batch, and the writer can go on.

        Slower than `write`. Called in the attempt after one that raised BadRowError, to find the refused rows.
        """

    def prepare(self) -> Committable:
        """Make all rows durable and keep them invisible, release the connection, and return the committable."""

    def abort(self) -> None:
        """Roll back all rows, if the service still answers. Called after an error, before `prepare`.

        Raises nothing: an exception would hide the error.
        """


class DirectWriter(Protocol):
    """The task-side half of a sink with `checkpoint.mode: at-least-once`.

    Implemented by: a connector. Called by: one task, in one thread.

    Call order: `write` or `write_atomic` any number of times, then `commit` or, after an error, `abort`. Nothing
    follows `commit` or `abort`.

    Blocking: every call may block on the service. `commit` blocks until the service has confirmed every row.

    Raises: BadRowError, PrepareError, SinkUnavailableError.

    Rule: after `commit` the rows are durable and visible. A checkpoint that fails afterwards writes them twice; no row
    is lost.
    """

    def write(self, batch: pa.RecordBatch) -> None:
        """Send rows.

        Raises BadRowError, PrepareError, SinkUnavailableError; then only `abort` follows.
        """

    def write_atomic(self, batch: pa.RecordBatch) -> None:
        """Send rows as `write` does. A BadRowError leaves nothing of the batch, and the writer can go on.

        Slower than `write`. Called if an earlier checkpoint or attempt has had a row that a sink refused.
        """

    def commit(self) -> Committable:
        """Make all rows durable and visible, release the connection, and return the number of rows and bytes.

        Blocks until the service has confirmed all rows: nothing checks them later. Raises as `write` does, also if
        the outcome is unknown: the rows are then rewritten.
        """

    def abort(self) -> None:
        """Roll back all rows, and release the connection."""


class Unopened(Protocol):
    """A sink before the schema of its rows is known."""

    @property
    def name(self) -> str:
        """The name in the spec."""

    def open(self, schema: pa.Schema) -> Sink:
        """Return the sink for rows with this schema."""


class Sink(Protocol):
    """A target, and how rows become visible in it.

    Implemented by: a connector. Called by: the driver and tasks. A sink is pickled into each task, so it holds
    configuration only and opens connections inside its methods.

    Call order: `committer` first, so that recovery runs; then `open` (or `open_cached`) on the driver, whose result is
    pickled to the tasks; there `writer` once per attempt. `check` is called by `eos doctor`, `dry_run` by `eos
    preview`.

    Blocking: `open`, `open_cached`, `dry_run` and `check` may block on the service. `writer`, `direct_writer`,
    `committer` and the properties do not.

    Raises: TargetError if the target does not fit the rows; SinkUnavailableError if the service does not answer.

    Rule: rows become visible only through the committer, after their checkpoint is decided (R7).
    """

    @property
    def name(self) -> str:
        """The name in the spec."""

    @property
    def cached_target(self) -> str | None:
        """The target as `open` found it at the server, as text for `open_cached` in another process.

        None: a start always queries the server. Contains no secret. Only an opened sink has it.
        """

    def open_cached(self, schema: pa.Schema, known: str) -> Sink:
        """Open the sink without a query to the server, which does not answer (H32).

        `known`: the `cached_target` of an earlier start. Raises SinkUnavailableError if it does not fit these rows or
        belongs to another target: the start has to wait for the server.
        """

    def open(self, schema: pa.Schema) -> Sink:
        """Compare the rows' schema with the target, and return the sink that is sent to the tasks.

        Creates or widens the target if the spec says so. Called on the driver before each start of the query, after
        recovery (R3): no transaction of this pipeline is prepared then, whose locks the DDL would wait for.

        Raises TargetError with every column that does not fit, SinkUnavailableError if the server does not answer.
        """

    def dry_run(self, schema: pa.Schema) -> Sequence[str]:
        """Return the `columns` that `open` would find, and raise its errors. Changes nothing. For `eos preview`."""

    @property
    def columns(self) -> Sequence[str]:
        """The columns of the batches that a writer receives, in this order. Only an opened sink has it."""

    @property
    def partition_by(self) -> Sequence[str] | None:
        """The columns by which rows are partitioned: rows that are equal in all of them need one writer (H15).

        Empty: one writer gets all rows. None: any writer can get any row. Only an opened sink has it.
        """

    @property
    def rejects_duplicates(self) -> bool:
        """Whether the target refuses rows that are equal in all columns of `partition_by`.

        If so, any writer can get any row, until a writer raises RowLockedError. Only an opened sink has it.
        """

    def writer(self, transaction: TransactionId, replaces: Committable | None = None) -> Writer:
        """Return the writer of one transaction. Called in a task. The writer connects at its first row.

        `replaces`: a lost committable of a decided checkpoint, whose rows are rewritten (`eos repair`, R7). The new
        committable is applied in its place, and never in addition to it.
        """

    def direct_writer(self, transaction: TransactionId) -> DirectWriter:
        """Return a writer that commits its own rows (at-least-once). Called in a task; connects at its first row."""

    def committer(self, pipeline: str) -> Committer:
        """Return the committer for a pipeline of this name. Called on the driver."""

    def check(self, schema: pa.Schema | None, writers: int | None = None) -> Sequence[Finding]:
        """Return the findings for `eos doctor`. An error of the service is a finding, and is not raised.

        `schema`: the schema of the rows; None if not known. `writers`: the number of tasks that may write at the same
        time; None if not known.
        """
