"""One of Spark's batches, as the protocol sees it: a job that writes and prepares, or one that only keeps state up."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import reduce

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, functions

from spark_jobs.acknowledging import ACKNOWLEDGEMENT, NOTHING, by_sink, committables, measured, refused
from spark_jobs.branches import Branch, Flow
from spark_jobs.chaining import ArrowTask, Chain
from spark_jobs.columns import numbered, quoted
from spark_jobs.dead_letters import DeadLetters, Ranges
from spark_jobs.failures import TOKEN, translate
from spark_jobs.history.model import Acknowledgement
from spark_jobs.master import is_local
from spark_jobs.query import job_group
from spark_jobs.tolerance import Tolerance
from spark_jobs.writing import COUNTED, HASH_COLUMN, CountTask, WriteTask
from twophase import faults
from twophase.errors import BadRowError, ConnectorError, PrepareError, RowLockedError
from twophase.ids import Scope
from twophase.messages import Acknowledged, Failed

_log = logging.getLogger("eos.runner")

_JOB_ERRORS = (PySparkException, Py4JError, OSError, EOFError)
"""How a job, or the connection over which its rows come, can fail. Rows come as Arrow, whose stream tells its end: what
`collect` reads is cut short in silence where the JVM dies."""


@dataclass(slots=True)
class SparkBatch:
    """Implements twophase.effects.Batch for one call of `foreachBatch`."""

    frame: DataFrame  # what Spark hands over: the rows of the trunk
    checkpoint_id: int
    flow: Flow
    stateful: bool
    timeout_s: float
    letters: DeadLetters | None = None
    ranges: Callable[[], Ranges] = dict  # what the batch reads, for `letters` and `chain`
    tolerance: Tolerance = field(default_factory=Tolerance)
    chain: Chain | None = None  # then the writers read for themselves, and not `frame`
    acknowledgements: tuple[Acknowledgement, ...] = field(default=(), init=False)  # where the tasks' time went
    _job_group: str = field(init=False)
    _failed: ConnectorError | None = field(default=None, init=False)  # why this is a further try, after a pause
    _cancelled: str = field(default="", init=False)
    _sieve: int | None = field(default=None, init=False)  # see WriteTask
    _locked: RowLockedError | None = field(default=None, init=False)  # why equal rows are looked for, once
    _is_looking: bool = field(default=False, init=False)  # this try is to find them

    def __post_init__(self) -> None:
        """In Spark's thread of the query, whose jobs are one group."""
        self._job_group = job_group(self.frame)

    def run_writers(self, scope: Scope, *, direct: bool) -> Acknowledged | Failed:
        """One Spark job for all sinks, and one for dead letters where there are any.

        Blocks until they have ended; what runs past the timeout is cancelled (R8). A try that looks for equal rows is
        never decided, so that every checkpoint has its rows in the same tasks, whenever they are made again.
        """

        def task(branch: Branch) -> WriteTask:
            hashes = len(branch.hashes) if self.stateful else 0
            return WriteTask(scope, branch.shares, hashes, TOKEN, direct, self._sieve, places=branch.places)

        if self._failed is not None and not self.tolerance.pause():
            return Failed(self._failed)
        try:
            with self._deadline():
                if self._is_looking:
                    self._run(_acknowledging(task, together=True))
                    assert self._locked is not None
                    self._is_looking = False
                    return Failed(self._locked, again=True)  # there are none, and whoever held the lock is gone
                if self.chain is not None:
                    acknowledged = self._run_chained(self.chain, task)
                else:
                    acknowledged = self._run(_acknowledging(task), placed=self._sieve is not None)
                prepared = committables(acknowledged)
                tasks = max((each.transaction.task for each in prepared), default=-1) + 1
                put_aside = self._put_aside(scope, tasks, refused(acknowledged))
        except _JOB_ERRORS as error:
            reason = self._reason(error)
            self._is_looking = False
            again = self._can_sift(reason) or (not direct and self._can_meet(reason))
            return Failed(reason, again=again or (not direct and self._is_tolerated(reason)))
        if isinstance(put_aside, ConnectorError):
            return Failed(put_aside)
        letters = committables(put_aside)
        names = [*self.flow.sinks, *([self.letters.sink.name] if self.letters is not None else [])]
        self.acknowledgements = (
            *measured(names, acknowledged, prepared),
            *measured(names, put_aside, letters),
        )
        return Acknowledged(by_sink(names, [*prepared, *letters]), time.time())

    def acknowledged(self, task: Callable[[Branch], ArrowTask]) -> Acknowledged | Failed:
        """One job of tasks of another kind, which find the same rows as those of `run_writers`. Blocks as that does."""
        try:
            with self._deadline():
                found = self._run(_acknowledging(task))
        except _JOB_ERRORS as error:
            return Failed(self._reason(error))
        return Acknowledged(by_sink(self.flow.sinks, committables(found)), time.time())

    def _can_sift(self, reason: ConnectorError) -> bool:
        """Whether the next try puts aside the rows that sinks refuse. With state, a batch runs once."""
        if not isinstance(reason, BadRowError) or self.letters is None or self.stateful or self._sieve is not None:
            return False
        self._sieve = self.letters.most
        _log.warning(
            "checkpoint %d is written again, without the rows that are refused: %s", self.checkpoint_id, reason.message
        )
        return True

    def _can_meet(self, reason: ConnectorError) -> bool:
        """Whether the next try brings together rows that may be equal, to say which are: one task waits for the lock of
        another (H15), where nobody else holds one. It is asked once in a batch."""
        meet = any(branch.meeting is not None for branch in self.flow.branches)
        if not isinstance(reason, RowLockedError) or self._locked is not None or not meet:
            return False
        self._locked, self._is_looking = reason, True
        _log.warning(
            "checkpoint %d is written again, in other tasks, to find rows with one key: %s",
            self.checkpoint_id,
            reason.message,
        )
        return True

    def _is_tolerated(self, reason: ConnectorError) -> bool:
        """Whether another try follows. With state, a batch runs once in a query; at-least-once nothing is aborted."""
        if self.stateful or not self.tolerance.failed(reason):
            return False
        self._failed, self._cancelled = reason, ""
        return True

    def _put_aside(self, scope: Scope, first: int, letters: pa.Table) -> pa.Table | ConnectorError:
        """What the dead letters' tasks acknowledge, from number `first` on; or why they cannot be written."""
        found = self.letters.found(self.frame, self.ranges(), letters) if self.letters is not None else None
        if found is None:
            return NOTHING
        faults.point("dead-letters", self.checkpoint_id)
        rows = found.rows(self.frame.sparkSession, self.checkpoint_id)
        task = WriteTask(scope, (found.share,), 0, TOKEN, direct=False, first=first)
        acknowledged = _written(rows, found.share.sink.partition_by, task).toArrow()
        rows_written = sum(each.rows for each in committables(acknowledged))
        return found.mistake(self.checkpoint_id, rows_written) or acknowledged

    def discard(self) -> Mapping[str, tuple[int, int]] | None:
        """Run a decided batch for its state; nothing at all to do where there is none."""
        if not self.stateful:
            return None

        def counted(branch: Branch, rows: DataFrame) -> DataFrame:
            counts = numbered(rows).mapInArrow(CountTask(len(branch.hashes)), COUNTED)
            return counts.withColumn("branch", functions.lit(self.flow.branches.index(branch)))

        try:
            with self._deadline():
                counts = self._run(counted).to_pylist()
        except _JOB_ERRORS as error:
            raise self._reason(error) from error
        found: dict[str, tuple[int, int]] = {}
        for number, branch in enumerate(self.flow.branches):
            for share in branch.shares:
                own = [row for row in counts if (row["branch"], row["hash"]) == (number, share.digest)]
                total = sum(row["rows"] for row in own), sum(int(row["digest"]) for row in own) % 2**64
                found[share.sink.name] = total
        return found

    def _run_chained(self, chain: Chain, task: Callable[[Branch], ArrowTask]) -> pa.Table:
        """The same as `_run`, but for the way that rows take."""
        (branch,) = self.flow.branches
        return chain.job(self.frame.sparkSession, self.ranges()[chain.source.name], task(branch)).toArrow()

    def _run(self, branch_job: Callable[[Branch, DataFrame], DataFrame], *, placed: bool = False) -> pa.Table:
        """All branches in one job, over rows that are read and computed once. `placed`: see Branch.placed.

        What several need is kept until all have had it. With state, and where there are several machines, it is made in
        a job before: two tasks that need the same rows at once would both make them, and bring the state along twice.
        """
        with ExitStack() as kept:
            frames = self.flow.frames(self.frame)
            for name in self.flow.shared:
                kept.enter_context(_kept(frames[name], now=self.stateful or not self._is_local()))
            select = Branch.placed if placed else Branch.of
            rows = [(branch, select(branch, frames[branch.rows])) for branch in self.flow.branches]
            jobs = [branch_job(branch, _hashed(branch, each) if self.stateful else each) for branch, each in rows]
            return reduce(DataFrame.union, jobs).toArrow()

    def _is_local(self) -> bool:
        return is_local(str(self.frame.sparkSession.sparkContext.master))

    def cancel(self, reason: str) -> None:
        """End the running job; the checkpoint is then aborted. May be called from any thread."""
        self._cancelled = self._cancelled or reason
        self.frame.sparkSession.sparkContext.cancelJobGroup(self._job_group)

    def _reason(self, error: BaseException) -> ConnectorError:
        if self._cancelled:
            return PrepareError(f"checkpoint {self.checkpoint_id} was cancelled: {self._cancelled}")
        return translate(error, f"checkpoint {self.checkpoint_id}")

    def _deadline(self) -> AbstractContextManager[None]:
        reason = f"it ran longer than checkpoint.timeout ({self.timeout_s:g} s)"
        return ended_after(self.timeout_s, lambda: self.cancel(reason))


@contextmanager
def ended_after(timeout_s: float, cancel: Callable[[], None], again_s: float = 1.0) -> Iterator[None]:
    """Cancel what runs in this block after that time, and again until the block is left: between two stages of a job
    there may be nothing to cancel."""
    left = threading.Event()

    def watch() -> None:
        wait_s = timeout_s
        while not left.wait(wait_s):
            cancel()
            wait_s = again_s

    threading.Thread(target=watch, name="eos-timeout", daemon=True).start()
    try:
        yield
    finally:
        left.set()


@contextmanager
def _kept(frame: DataFrame, *, now: bool) -> Iterator[None]:
    """Its rows are held in memory and on disk for this block, from the first use on, or made at once."""
    level = frame.storageLevel
    by_the_job = level.useMemory or level.useDisk  # which ends it when it likes
    if not by_the_job:
        frame.persist()
    try:
        if now:
            frame.write.format("noop").mode("append").save()
        yield
    finally:
        if not by_the_job:
            frame.unpersist()


def _acknowledging(
    task: Callable[[Branch], ArrowTask], *, together: bool = False
) -> Callable[[Branch, DataFrame], DataFrame]:
    """The job of a branch whose tasks acknowledge. `together`: see Branch.meeting."""

    def written(branch: Branch, rows: DataFrame) -> DataFrame:
        by = branch.meeting if together and branch.meeting is not None else branch.partition_by
        return _written(rows, by, task(branch))

    return written


def _written(rows: DataFrame, by: Sequence[str] | None, task: ArrowTask) -> DataFrame:
    """What the tasks acknowledge that get these rows. `by`: see _partitioned."""
    return numbered(_partitioned(rows, by)).mapInArrow(task, ACKNOWLEDGEMENT)


def _hashed(branch: Branch, rows: DataFrame) -> DataFrame:
    hashes = {f"{HASH_COLUMN}{n}": functions.xxhash64(*map(_column, names)) for n, names in enumerate(branch.hashes)}
    return rows.withColumns(hashes)


def _partitioned(frame: DataFrame, by: Sequence[str] | None) -> DataFrame:
    """Rows that are equal in these columns come to one task: all rows if there is no column (see Sink)."""
    if by is None:
        return frame
    return frame.repartition(*map(_column, by)) if by else frame.repartition(1)


def _column(name: str) -> Column:
    return functions.col(quoted(name))
