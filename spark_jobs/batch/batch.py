"""One of Spark's batches, as the protocol sees it: a job that writes and prepares, or one that only keeps state up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Final

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from connectors.api.contracts import Source
from connectors.api.table_rows import MultiTableSink, TableChange
from connectors.dead_letters import PLACE
from eos.errors import ConnectorError, PrepareError, TargetError
from spark_jobs.batch import branch_jobs
from spark_jobs.batch.acks import (
    by_sink,
    committables,
    measured,
    nothing,
    refused,
    schemas,
    skipped,
    unknown_tables,
)
from spark_jobs.batch.attempts import BatchAttempts, RejectionPeriod
from spark_jobs.batch.branch_jobs import SchemaNotes
from spark_jobs.batch.branches import Branch, Flow
from spark_jobs.batch.chaining import ArrowTask, Chain, chained_job
from spark_jobs.batch.dead_letters import NONE_REJECTED, DeadLetters, Ranges, Rejected, other_rows
from spark_jobs.batch.rewriting import Lost, RewriteTask, kept
from spark_jobs.batch.rule_checks import RuleChecks, letters_of, unlike
from spark_jobs.batch.skipping import Skipped, Skipping
from spark_jobs.batch.time_limit import TimeLimit, ended_after
from spark_jobs.batch.writing import WriterOf, WriteTask, open_writer
from spark_jobs.observe.activity import TaskCounts
from spark_jobs.observe.history.model import Acknowledgement, RuleCount
from spark_jobs.query.running_query import EndsHeld, job_group
from spark_jobs.query.task_counts import task_counts
from spark_jobs.session.arrow import collected
from spark_jobs.session.failures import TOKEN, translate
from twophase import faults
from twophase.ids import Scope
from twophase.messages import Acknowledged, Failed
from twophase.values import DIGEST_METHODS, CheckpointRecord, Committable

_JOB_ERRORS = (PySparkException, Py4JError, OSError, EOFError)
"""How a job, or the connection over which its rows come, can fail. Rows come as Arrow, whose stream tells its end: what
`collect` reads is cut short in silence where the JVM dies."""


_OVERRAN: Final = "it ran longer than"


@dataclass(slots=True)
class SparkBatch:
    """Implements twophase.effects.Batch for one call of `foreachBatch`."""

    frame: DataFrame  # what Spark hands over: the rows of the roots
    checkpoint_id: int
    flow: Flow
    stateful: bool
    timeout_s: float
    letters: DeadLetters | None = None
    ranges: Ranges = field(default_factory=dict)  # what the batch reads, for `letters` and `chains`
    chains: Sequence[Chain] = ()  # of each branch, if any: the writers read for themselves, and not `frame`
    ends: EndsHeld = field(default_factory=EndsHeld)  # of the query's run
    period: RejectionPeriod = field(default_factory=RejectionPeriod)
    limit: TimeLimit | None = None  # where the batch may be replanned, with fewer records
    skipping: Skipping | None = None  # where a source leaves bad records out
    naming: Sequence[Source] = ()  # sources whose records name schemas
    report: Callable[[str, TableChange], None] = lambda _sink, _change: None  # a table that a sink has changed
    skipped: Skipped = field(default_factory=dict, init=False)
    rules: tuple[RuleCount, ...] = field(default=(), init=False)  # of the steps, once the tasks have run
    acknowledgements: tuple[Acknowledgement, ...] = field(default=(), init=False)  # where the tasks' time went
    _job_group: str = field(init=False)
    _cancelled: str = field(default="", init=False)  # why
    _tries: BatchAttempts = field(init=False)

    def __post_init__(self) -> None:
        """In Spark's thread of the query, whose jobs are one group."""
        self._job_group = job_group(self.frame)
        most = self.letters.most if self.letters is not None else None
        may_meet = any(branch.meeting is not None for branch in self.flow.branches)
        self._tries = BatchAttempts(self.checkpoint_id, self.stateful, most, may_meet, self.period)

    @property
    def task_counts(self) -> TaskCounts | None:
        """The tasks of the running job; None if no job runs. May be read from any thread."""
        return task_counts(self.frame.sparkSession, self._job_group)

    @property
    def ends_held(self) -> Sequence[int]:
        return self.ends(self.frame)

    def run_writers(self, scope: Scope, *, direct: bool) -> Acknowledged | Failed:
        """One Spark job for all sinks, and one for dead letters where there are any.

        Blocks until they have ended; what runs past the timeout is cancelled (R8).
        """
        tries, checks, notes = self._tries, RuleChecks(self.flow.expecting), SchemaNotes(self.naming)

        def task(branch: Branch) -> WriteTask:
            hashes = len(branch.hashes) if self.stateful else 0
            return WriteTask(scope, branch.shares, hashes, TOKEN, direct, tries.bisector, places=self._places(branch))

        try:
            with self._deadline():
                if tries.locked is not None:
                    self._run(branch_jobs.writing(task, together=True))
                    return tries.looked(tries.locked)
                if self.chains:
                    acknowledged = self._run_chained(task)
                else:
                    job = branch_jobs.writing(task)
                    acknowledged = self._run(job, placed=tries.bisector is not None, checks=checks, notes=notes)
                if wanted := unknown_tables(acknowledged):  # these tasks have written nothing
                    return self._learn(wanted) if self.chains else Failed(_of_no_source(wanted))
                surplus = self._left_out(acknowledged) or checks.surplus(self.checkpoint_id)
                if surplus is not None:
                    return Failed(surplus)
                self.rules = checks.counts()
                prepared, rejected = committables(acknowledged), self._rejected(checks)
                counted = self._counted_by_chain(acknowledged)
                put_aside = self._put_aside(
                    scope, _tasks(prepared), refused(acknowledged), rejected, direct=direct, counted=counted
                )
        except _JOB_ERRORS as error:
            failed = tries.failed(self._reason(error), direct=direct)
            if failed.again:
                self._cancelled = ""
            return failed
        if isinstance(put_aside, ConnectorError):
            return Failed(put_aside)
        if any(each.refused for each in prepared):
            tries.refused()
        letters = committables(put_aside)
        names = [*self.flow.sinks, *([self.letters.sink.name] if self.letters is not None else [])]
        self.acknowledgements = (
            *measured(names, acknowledged, prepared),
            *measured(names, put_aside, letters),
        )
        met = {name: schemas(acknowledged, name) for name in self._chained} if self.chains else notes.met
        return Acknowledged(by_sink(names, [*prepared, *letters]), time.time(), schemas=met)

    def rewrite_missing(self, scope: Scope, record: CheckpointRecord, lost: Lost) -> Acknowledged | Failed:
        """Run the jobs of `run_writers` in the same tasks: what is lost is written and prepared, the rest is counted.

        Dead letters are written where any of them are lost, and counted otherwise. Rows that sinks have refused of
        tasks that have lost nothing there are known only where that is all that the tasks gave them.
        Blocks as `run_writers` does.
        """
        letters, names, digest_method = self.letters, self.flow.sinks, record.digest_methods[-1]
        kept_refused = [(sink, each) for sink, each in kept(record, lost) if each.refused]
        all_refused = frozenset((sink, each.transaction.task) for sink, each in kept_refused if not each.rows)
        letters_lost = letters is not None and letters.sink.name in lost
        writer_of = RewriteTask(lost, all_refused if letters_lost else frozenset())
        # As the try that was decided: with more columns, rows of another size could be shared out to other tasks.
        sifted = any(each.refused for group in record.committables.values() for each in group)
        bisector = letters.most if letters is not None and sifted else None

        def task(branch: Branch) -> WriteTask:
            hashes = len(branch.hashes) if self.stateful else 0
            places = self._places(branch)
            return WriteTask(scope, branch.shares, hashes, TOKEN, False, bisector, places=places, writer_of=writer_of)

        counted: dict[str, int] = {}
        try:
            with self._deadline():
                checks, notes = RuleChecks(self.flow.expecting), SchemaNotes(self.naming)
                if self._has_tables:
                    found = self._run_with_tables(task)
                    notes.met = {name: schemas(found, name) for name in self._chained}
                else:
                    job = branch_jobs.writing(task)
                    found = self._run(job, (digest_method,), placed=bisector is not None, checks=checks, notes=notes)
                written, rejected = committables(found), self._rejected(checks)
                by_chain = self._counted_by_chain(found) if self._has_tables else None
                if letters is not None and letters_lost:
                    names = [*names, letters.sink.name]
                    put_aside = self._put_aside(
                        scope, _tasks(written), refused(found), rejected, writer_of=writer_of, counted=by_chain
                    )
                    if isinstance(put_aside, ConnectorError):
                        return Failed(put_aside)
                    written += committables(put_aside)
                elif letters is not None:
                    now = letters.count(self.frame, self.ranges, refused(found), self.checkpoint_id, rejected, by_chain)
                    counted[letters.sink.name] = now + sum(each.refused for _, each in kept_refused)
        except _JOB_ERRORS as error:
            return Failed(self._reason(error))
        return Acknowledged(by_sink(names, written), time.time(), digest_method, counted, notes.met)

    def discard(self, digest_methods: Sequence[int]) -> Sequence[Mapping[str, tuple[int, int]]] | None:
        """Run a decided batch for its state; nothing at all to do where there is none."""
        if not self.stateful:
            return None
        try:
            with self._deadline():
                counts = self._run(branch_jobs.counting(self.flow, digest_methods), digest_methods).to_pylist()
        except _JOB_ERRORS as error:
            raise self._reason(error) from error
        found: list[dict[str, tuple[int, int]]] = [{} for _ in digest_methods]
        for branch_number, branch in enumerate(self.flow.branches):
            for (place, by_sink_name), share in product(enumerate(found), branch.shares):
                hash_number = place * len(branch.hashes) + share.digest
                own = [row for row in counts if (row["branch"], row["hash"]) == (branch_number, hash_number)]
                total = sum(row["rows"] for row in own), sum(int(row["digest"]) for row in own) % 2**64
                by_sink_name[share.sink.name] = total
        return found

    def cancel(self, reason: str) -> None:
        """End the running job; the checkpoint is then aborted. May be called from any thread."""
        self._cancelled = self._cancelled or reason
        self.frame.sparkSession.sparkContext.cancelJobGroup(self._job_group)

    def _run(
        self,
        job: branch_jobs.BranchJob,
        digest_methods: Sequence[int] = DIGEST_METHODS[-1:],
        *,
        placed: bool = False,
        checks: RuleChecks | None = None,
        notes: SchemaNotes | None = None,
    ) -> pa.Table:
        methods = digest_methods if self.stateful else ()
        return branch_jobs.run(
            self.flow, self.frame, job, digest_methods=methods, placed=placed, checks=checks, notes=notes
        )

    def _run_chained(self, task: Callable[[Branch], ArrowTask]) -> pa.Table:
        """The same as `_run`, but for the way that rows take."""
        writes = map(task, self.flow.branches)
        return collected(chained_job(self.frame.sparkSession, zip(self.chains, writes, strict=True), self.ranges))

    @property
    def _chained(self) -> list[str]:
        """The sources that the writers read."""
        return [chain.source.name for chain in self.chains]

    def _run_with_tables(self, task: Callable[[Branch], ArrowTask]) -> pa.Table:
        """Run the tasks, once more if they need tables that the sinks do not know. For a repair."""
        acknowledged = self._run_chained(task)
        if wanted := unknown_tables(acknowledged):
            self._learn(wanted)
            acknowledged = self._run_chained(task)
        return acknowledged

    def _learn(self, wanted: Mapping[str, Sequence[pa.Schema]]) -> Failed:
        """Let the sinks find, create or change the tables of rows that they do not know. Blocks on their services.

        Returns the end of this attempt, in which the tasks that met such rows have written nothing. Raises TargetError,
        SinkUnavailableError.
        """
        for branch in self.flow.branches:
            for sink in branch.sinks:
                if isinstance(sink, MultiTableSink) and sink.name in wanted:
                    sink.learn(wanted[sink.name], partial(self.report, sink.name))
        self._cancelled = ""  # the timeout may have passed meanwhile, and the next attempt has its own
        count = sum(map(len, wanted.values()))
        message = f"checkpoint {self.checkpoint_id} has rows of {count} tables or schemas that the sinks did not know"
        return Failed(PrepareError(message), again=True)

    def _places(self, branch: Branch) -> tuple[int | str, ...]:
        """Where a row has the place of its record. See WriteTask."""
        return PLACE if self._has_tables and branch.has_place else branch.places

    @property
    def _has_tables(self) -> bool:
        """Whether the rows have the columns of their tables, so that only the writers have them."""
        return any(chain.several_tables for chain in self.chains)

    def _counted_by_chain(self, acknowledged: pa.Table) -> Mapping[str, int] | None:
        """Return the number of bad records by source, if tasks read the source themselves."""
        return {name: skipped(acknowledged, name) for name in self._chained} if self.chains else None

    def _left_out(self, acknowledged: pa.Table) -> ConnectorError | None:
        """Count what sources have left out; why that is too much, else None."""
        if self.skipping is None:
            return None
        ranges = self.ranges
        if self.chains:
            counts = {name: skipped(acknowledged, name) for name in self._chained}
            self.skipped = {name: count for name, count in counts.items() if count}
        else:
            self.skipped = self.skipping.counted(self.frame, ranges)
        return self.skipping.surplus(self.checkpoint_id, self.skipped, ranges)

    def _rejected(self, checks: RuleChecks) -> Rejected:
        """The rows that rules reject. A second job computes them, only if there are any."""
        if not (counted := checks.rejected()):
            return NONE_REJECTED
        return Rejected(counted, letters_of(self.flow.expecting, self.flow.rejected(self.frame)))

    def _put_aside(
        self,
        scope: Scope,
        first: int,
        letters: pa.Table,
        rejected: Rejected,
        *,
        direct: bool = False,
        writer_of: WriterOf = open_writer,
        counted: Mapping[str, int] | None = None,
    ) -> pa.Table | ConnectorError:
        """What the dead letters' tasks acknowledge, from number `first` on; or why they cannot be written."""
        if self.letters is None:
            return nothing()
        found = self.letters.found(self.frame, self.ranges, letters, rejected, counted)
        if found is None:
            return nothing()
        faults.point("dead-letters", self.checkpoint_id)
        rows = found.rows(self.frame.sparkSession, self.checkpoint_id)
        if (direct or rejected.rows) and (surplus := found.surplus(self.checkpoint_id)) is not None:
            # After the job it would be too late: at-least-once its tasks commit. And one task gets all rejected rows.
            return surplus
        task = WriteTask(scope, (found.share,), 0, TOKEN, direct, first=first, writer_of=writer_of)
        job = branch_jobs.written(rows, found.share.sink.partition_by, task)
        acknowledged = collected(job)
        if rejected.letters is not None and (step := unlike(self.flow.expecting, rejected.counted, job)):
            return other_rows(self.checkpoint_id, step)
        rows_written = sum(each.rows for each in committables(acknowledged))
        return found.mistake(self.checkpoint_id, rows_written) or acknowledged

    def _reason(self, error: BaseException) -> ConnectorError:
        if not self._cancelled:
            return translate(error, f"checkpoint {self.checkpoint_id}")
        cancelled = PrepareError(f"checkpoint {self.checkpoint_id} was cancelled: {self._cancelled}")
        if self._cancelled.startswith(_OVERRAN) and self.limit is not None:
            self.limit.end_query(self.checkpoint_id, cancelled)
        return cancelled

    def _deadline(self) -> AbstractContextManager[None]:
        limit_s, limit = self.timeout_s, "checkpoint.timeout"
        if self.limit is not None and self.limit.seconds < limit_s:
            limit_s, limit = self.limit.seconds, "such a checkpoint should"
        return ended_after(limit_s, lambda: self.cancel(f"{_OVERRAN} {limit} ({limit_s:.3g} s)"))


def _of_no_source(sinks: Iterable[str]) -> TargetError:
    message = f"sink {', '.join(sinks)} has several tables, and its rows are not from a source of the spec"
    return TargetError(message, remedy="name one table; or read a source of the spec by `eos run`, without a step")


def _tasks(written: Sequence[Committable]) -> int:
    """How many tasks have written them."""
    return max((each.transaction.task for each in written), default=-1) + 1
