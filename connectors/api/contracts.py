"""What a connector is. A new sink is one file: a `Sink`, its `Writer`, its `Committer`; and a line in `registry`. A
`DirectWriter` beside them writes at-least-once.

Everything that crosses to a Spark task (`Source`, `Sink`, a split) is picklable and holds configuration only;
connections are opened where they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Protocol

import pyarrow as pa

from twophase.ids import TransactionId
from twophase.participants import Committer
from twophase.positions import Position, Positions
from twophase.values import Committable, OffsetRange, StartingPoint

METADATA: Final = frozenset({"_key", "_topic", "_partition", "_offset", "_timestamp", "_headers"})
"""Columns that every row has; a table may leave them out."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of `eos doctor`: the check, its result, and what to do if it failed.

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
    most, and stores the splits of `discovered` in that very plan (R6).
    """

    ends: Positions  # of each split: the end of the records that can be read
    discovered: StartingPoint  # splits and topics that were not known, with the first offset that they have
    withheld: Positions = field(default_factory=dict)
    """Ends of the records of splits that have records past `ends`. Those records exist and cannot be read yet.

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
        """A range of more offsets than this is read by several tasks, in no order. None: never.

        It has no effect where positions are not integers.
        """

    @property
    def join_below(self) -> int:
        """A task reads ranges until it has this many offsets, where positions are integers."""

    @property
    def schema(self) -> pa.Schema:
        """Decoded columns followed by the metadata columns, as `read` yields them."""

    def select(self, columns: Sequence[str]) -> Source:
        """The same source, reading only these columns of `schema` (in schema order)."""

    def starting_point(self, known: StartingPoint) -> StartingPoint:
        """Where each split starts by `starting_offsets`, but for those that `known` says, or leaves to `horizon`.

        Called at each start of a query; the answer is stored, so that each split is resolved once in a pipeline's
        life (R6). Raises SourceError if the service does not answer, OffsetOutOfRangeError like `horizon`.
        """

    def horizon(self, known: StartingPoint) -> Horizon:
        """What may be planned now. Called once per checkpoint, in Spark's planner process.

        Raises SourceError if the service does not answer, OffsetOutOfRangeError if a topic is no longer the one of
        `known`: its offsets would name other records.
        """

    def limit(self, offsets: OffsetRange, max_records: int) -> Position:
        """Return where a checkpoint ends that takes about so many records of the range: after its start, within it.

        Called in Spark's planner process, for ranges whose positions are not integers: those are cut by their
        distance. The answer is the range's end if the source cannot tell.
        """

    def witnesses(self, ranges: Sequence[OffsetRange]) -> Mapping[str, str]:
        """Return by split a witness of the last record of each range: text by which `check_witnesses` knows the record.

        Called once per checkpoint that has records, in Spark's planner process. A range that ends in no record has
        none. Raises SourceError if the service does not answer.
        """

    def check_witnesses(self, witnesses: Mapping[str, str]) -> None:
        """Compare the records with their witnesses. A record that the service has deleted since is not judged.

        Raises OffsetOutOfRangeError if there is another record: the log went back in time (H23). SourceError if the
        service does not answer.
        """

    def lost_ranges(self, ranges: Sequence[OffsetRange]) -> Sequence[OffsetRange]:
        """What of these ranges the service no longer has, and `read` leaves out because the spec says so.

        Called once per checkpoint, before it is read, for the user to be told. Empty where loss is an error.
        """

    @property
    def rejects_bad_records(self) -> bool:
        """Whether bad records are to become dead letters: `read` leaves them out and counts them.

        Bad is what does not decode, or has metadata that a column of `schema` cannot hold.
        """

    @property
    def skips_bad_records(self) -> bool:
        """Whether `read` leaves out bad records, which are then nowhere, and counts them."""

    def read(
        self, ranges: Sequence[OffsetRange], on_bad_records: Callable[[int], None] = ...
    ) -> Iterator[pa.RecordBatch]:
        """The records of ranges of different splits, of each in offset order, in batches of bounded size and one split.
        Called in a task, again on a retry.

        `on_bad_records`: is told how many records of a batch are bad, before the batch after it.

        Yields exactly the records that exist in `[start, end)`: gaps and transaction markers are not errors, a range
        whose start the service no longer has is (OffsetOutOfRangeError). Ends only when all ranges are exhausted.
        """

    def bad_records(self, offsets: OffsetRange) -> Iterator[pa.RecordBatch]:
        """The bad records of the range, as rows of `dead_letters.RECORD`: the ones that `read` of the same source,
        with the same columns, leaves out. Called in a task of the checkpoint that `read` them, where there are any.
        """

    def records(self, split: str, offsets: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """Those of these records that the service still has, as rows of `dead_letters.RECORD`, each once, whether they
        are bad or not; their `error` is empty, or says what of one could not be read. `offsets` are in order.

        Called in a task of the checkpoint that `read` them. Raises SourceError if the service does not answer.
        """

    def commit_back(self, positions: Positions) -> None:
        """Tell the service how far the pipeline is, for lag tools only (R9). Never raises for an unreachable service
        in a way that would stop a pipeline: raises SourceError, and the caller warns."""

    def check(self) -> Sequence[Finding]:
        """What `eos doctor` wants to know. Raises nothing that the service answers or fails to answer."""


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
        """As `write`, but a BadRowError leaves nothing of the batch, and the writer goes on.

        Slower: called in a try after one that has met a bad row, so that those can be told from their neighbours.
        """

    def prepare(self) -> Committable:
        """Make everything written durable and uncommitted, let go of the connection, and say how to commit it."""

    def abort(self) -> None:
        """Undo what was written, if the service still answers. Called after an error, before `prepare`; never raises
        what would hide that error."""


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

        Slower than `write`. Called where an earlier checkpoint, or an earlier try, has met a row that a sink refused.
        """

    def commit(self) -> Committable:
        """Make everything written durable and visible, let go of the connection, and say how much it was.

        Blocks until the service has confirmed all of it: nobody looks it up later. Raises like `write`, also where it
        may have landed: the rows are written again.
        """

    def abort(self) -> None:
        """Roll back everything written, and release the connection."""


class Unopened(Protocol):
    """What becomes a sink once the schema of its rows is known."""

    @property
    def name(self) -> str:
        """In the spec."""

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
        """In the spec."""

    @property
    def cached_target(self) -> str | None:
        """Of an opened sink: what `open` has learned from the server, as text, for `open_cached` in another process.

        None: a start always asks the server. No secret is in it.
        """

    def open_cached(self, schema: pa.Schema, known: str) -> Sink:
        """As `open`, and asks no server: it is away, and this is what an earlier start has learned (H32).

        Raises SinkUnavailableError where that does not do for these rows, or is of another target: the start has to
        wait for the server.
        """

    def open(self, schema: pa.Schema) -> Sink:
        """Compare the rows' schema with the target, on the driver, before each start of the query.

        Makes or widens the target where the spec says so. Called after recovery (R3): nothing of ours is prepared then
        whose locks that would wait for. Returns the sink to ship to the tasks: with the columns to write, in order, and
        the target's types known. Raises TargetError that lists every column that does not fit, SinkUnavailableError.
        """

    def dry_run(self, schema: pa.Schema) -> Sequence[str]:
        """The `columns` that `open` would find, and its errors, for `eos preview`: makes nothing."""

    @property
    def columns(self) -> Sequence[str]:
        """Of an opened sink: the columns that a writer is given, in this order."""

    @property
    def partition_by(self) -> Sequence[str] | None:
        """Of an opened sink: rows that are equal in all of these columns must come to one writer (unique keys, H15).

        Empty: in no column are rows told apart, so that all of them come to one writer. None: any row to any writer.
        """

    @property
    def rejects_duplicates(self) -> bool:
        """Of an opened sink: whether rows that are equal in all columns of `partition_by` are refused, wherever they
        come to. Then any row may go to any writer, until one of them meets a RowLockedError."""

    def writer(self, transaction: TransactionId, replaces: Committable | None = None) -> Writer:
        """In a task: a writer for this transaction. It connects at its first row: a task without costs nothing.

        `replaces`: what was decided and is lost, whose rows are written again (`eos repair`, R7). What is prepared is
        to be applied as that one would have been, and never beside it.
        """

    def direct_writer(self, transaction: TransactionId) -> DirectWriter:
        """In a task, at-least-once: a writer that commits for itself; it connects at its first row."""

    def committer(self, pipeline: str) -> Committer:
        """On the driver: the other half."""

    def check(self, schema: pa.Schema | None, writers: int | None = None) -> Sequence[Finding]:
        """What `eos doctor` wants to know. Raises nothing that the service answers or fails to answer.

        `schema`: of the rows; None: not known. `writers`: how many tasks may write at once; None: not known.
        """
