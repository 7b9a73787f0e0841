"""The sink format `eos` in Spark's three kinds of processes: planner, task, committer.

Spark asks for the writer twice a batch, in two processes that share the format's class and nothing else: one plans the
job and sends the writer to the tasks, the other commits. The planner takes the pipeline over, which is an epoch for
each batch, and permits the tasks to prepare; the name of the head that it holds travels with the writer to the tasks
and back with what they prepared. Whoever commits goes on only if head is still that one. An abort that no task tells a
head goes on only if the last change of head was made in its own session, which the class names.
"""

from __future__ import annotations

import pickle
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.sql.types import StructType

from connectors.api.contracts import Sink
from connectors.registry import build_sink
from connectors.spec import Spec
from eos.errors import ConnectorError, FencedError, PrepareError, SpecError
from spark_jobs.adapters.sink_spec import digest_of, masked
from spark_jobs.adapters.task_limit import limited
from spark_jobs.batch.acks import by_sink
from spark_jobs.batch.dead_letters import Ranges
from spark_jobs.batch.stopwatch import Stopwatch
from spark_jobs.batch.writing import Share, write_and_prepare
from spark_jobs.observe.head_reader import read_head, read_seen
from spark_jobs.observe.history.model import Acknowledgement, RuleCount, failure
from spark_jobs.observe.history.recorder import Recorder, recording
from spark_jobs.query.spark_log import JobSparkLog, ends_of
from spark_jobs.query.streaming_api import DataSourceStreamArrowWriter, WriterCommitMessage
from spark_jobs.run.checkpoints import Checkpoints
from spark_jobs.run.open_driver import open_driver
from spark_jobs.run.recovery import recover
from spark_jobs.savepoints.job import remember
from spark_jobs.session.arrow import to_arrow
from twophase.codec import decode_committable, encode_committable
from twophase.head_value import HeadValue
from twophase.ids import Scope
from twophase.messages import Acknowledged, Failed
from twophase.ownership import Held

if TYPE_CHECKING:
    import pyarrow as pa


_OTHER_WAY: Final = "foreachBatch(ExactlyOnce(spec))"
_BATCH: Final = "streaming.sql.batchId"
"""Spark's local property with the batch id, set for each task of a micro-batch."""


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """The message of a task to the committer: its committables, and the head and spec of its plan."""

    held: Held  # the head of the planner
    spec: str  # digest of the spec: each process of Spark reads the file, and it may change in between
    ends: tuple[int, ...]  # of Spark's plan, as the planner read it (H25), see spark_log.ends_of
    committables: tuple[bytes, ...] | None  # None: the checkpoint was decided before, and nothing was written


@dataclass(frozen=True, slots=True)
class _Plan:
    """The plan of a task. The planner creates it once for each batch."""

    held: Held
    spec: str
    checkpoint_id: int
    ends: tuple[int, ...]
    scope: Scope | None  # None: the checkpoint is already decided
    shares: tuple[Share, ...]
    timeout_s: float


class PlanningError(pickle.PickleError):
    """An error of this package while the writer is pickled. PySpark reports other classes as pickling errors."""


class StreamWriter(DataSourceStreamArrowWriter):
    """The writer of one query. In the planner and the committer it has options; in a task it has a plan."""

    def __init__(self, spec: Spec, folder: Path, partitioned_by: Set[str], schema: StructType, run: str) -> None:
        """Keep the options; connect to no service.

        `folder`: Spark's checkpoint. `partitioned_by`: the columns by which the user has partitioned the frame.
        `run`: see eos_sink.
        """
        self._spec = spec
        self._folder = folder
        self._partitioned_by = partitioned_by
        self._schema = schema
        self._run = run
        self._plan: _Plan | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Plan the batch and return the plan. The planner pickles the writer for its tasks: an epoch begins here."""
        if self._plan is None:
            try:
                self._plan = self._planned()
            except ConnectorError as error:
                raise PlanningError(f"{type(error).__name__}: {error}") from error
        return {"_plan": self._plan}

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write and prepare the rows of a task."""
        plan, context = self._plan, TaskContext.get()
        assert plan is not None
        assert context is not None
        if context.getLocalProperty(_BATCH) != str(plan.checkpoint_id):
            message = f"a task of batch {context.getLocalProperty(_BATCH)} was planned for {plan.checkpoint_id}"
            remedy = (
                "stop other drivers of this pipeline; use a micro-batch trigger, without asynchronous progress tracking"
            )
            raise SpecError(message, remedy=remedy)
        if plan.scope is None:
            for _ in iterator:
                pass
            return Written(plan.held, plan.spec, plan.ends, None)
        with limited(plan.timeout_s, iterator) as rows:
            written = write_and_prepare(plan.scope, plan.shares, rows, Stopwatch.of(len(plan.shares)))
        return Written(plan.held, plan.spec, plan.ends, tuple(map(encode_committable, written)))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 Spark's name
        """Commit the checkpoint in all sinks; blocks. After an error Spark re-runs the batch at its next start.

        Raises FencedError if anybody has taken the pipeline over since the batch was planned, PlanOverwrittenError if
        Spark's file no longer has the plan that the planner read.
        """
        written = [each for each in messages if isinstance(each, Written)]
        plans = {(each.held, each.spec, each.ends) for each in written}
        if len(written) != len(messages) or len(plans) != 1:
            message = f"batch {batchId}: {len(messages)} tasks, {len(written)} acknowledgements, of {len(plans)} plans"
            raise PrepareError(message, remedy="start the query again")
        ((held, spec, ends),) = plans
        if spec != digest_of(self._spec):
            message = f"the spec was changed while batch {batchId} was written: its rows are not where it now says"
            raise PrepareError(message, remedy="start the query again, which rolls them back")
        self._end(held, batchId, [one for each in written for one in each.committables or ()], ends)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 Spark's name
        """Roll back the prepared transactions of the tasks, and revoke their permits; not after a take-over (R1).

        Where this call is lost, as it may be, the next start does it (R3). So does a takeover, where no task was done
        that could say what to abort.
        """
        written = [each for each in messages if isinstance(each, Written)]
        if not written:
            self._take_over(batchId)
        elif written[0].committables is not None and written[0].spec == digest_of(self._spec):
            failure = PrepareError(f"batch {batchId} has failed")
            try:
                self._end(written[0].held, batchId, failure)
            except FencedError:  # whoever came after has rolled it back
                return
            except PrepareError as error:
                if error.message != failure.message:
                    raise

    def _planned(self) -> _Plan:
        spec = self._spec
        with masked(spec):
            schema = to_arrow(self._schema)
            sinks = _sinks(spec)
            log = JobSparkLog(self._folder)
            query_id = log.query_id("")
            if query_id is None:  # Spark writes it before the first batch
                message = f"Spark keeps this query's checkpoint elsewhere than in {self._folder}"
                raise SpecError(message, remedy="write checkpointLocation as file:///…, on a disk of the driver's")
            with (
                self._recorded() as recorder,
                recover(spec, sinks, log, self._told_at_start(recorder), session=self._session()) as recovered,
            ):
                driver = recovered.driver
                driver.set_query(query_id)
                remember(spec, driver.owned.incarnation, str(self._folder.absolute()))
                sinks = [sink.open(schema) for sink in recovered.sinks]
                self._check(sinks)
                number = log.state(driver.owned.incarnation).newest_planned
                scope = driver.permit(number)
                names = self._schema.names
                shares = tuple(Share(sink, tuple(map(names.index, sink.columns))) for sink in sinks)
                ends = tuple(ends_of(log.offsets_log(driver.owned.incarnation, number)))
                timeout_s = spec.checkpoint.timeout_s
                return _Plan(driver.held, digest_of(spec), number, ends, scope, shares, timeout_s)

    def _take_over(self, number: int) -> None:
        spec = self._spec
        log = JobSparkLog(self._folder)
        with masked(spec):
            seen = read_seen(spec)
            last = _run_of(seen.head if seen is not None else None)
            if not self._run or last != self._run or log.state("").newest_planned != number:
                return  # whoever came after has rolled it back
            session = f"{secrets.token_hex(8)}.0"  # of no run: a claim since then fences, of this session's, too
            with open_driver(spec, _sinks(spec), log, session=session, follows=seen) as driver, suppress(FencedError):
                driver.start()

    def _end(
        self, held: Held, number: int, outcome: Sequence[bytes] | PrepareError, ends: Sequence[int] | None = None
    ) -> None:
        spec = self._spec
        batch = DoneBatch(number, outcome, [entry.name for entry in spec.sinks], ends_held=ends)
        log = JobSparkLog(self._folder)
        with (
            masked(spec),
            self._recorded(number) as recorder,
            open_driver(spec, _sinks(spec), log, session=self._session(), watcher=recorder.on_driver_event) as driver,
        ):
            driver.take_up(held)
            Checkpoints(driver, log, recorder, permitted=True).complete(batch)

    @contextmanager
    def _recorded(self, number: int | None = None) -> Iterator[Recorder]:
        """The history of this process, with the error that ends the block."""
        with recording(self._spec, self._run) as recorder:
            try:
                yield recorder
            except ConnectorError as error:
                recorder.on_event(failure(error, time.time(), number))
                raise

    def _told_at_start(self, recorder: Recorder) -> Recorder | None:
        """Return the recorder for the first batch of a run only: it reads head's records, which takes a while."""
        return recorder if _run_of(read_head(self._spec)) != self._run else None

    def _session(self) -> str:
        return f"{self._run}.{secrets.token_hex(8)}"

    def _check(self, sinks: Sequence[Sink]) -> None:
        for by in (sink.partition_by for sink in sinks if sink.partition_by is not None):
            if not self._partitioned_by or not self._partitioned_by <= set(by):
                columns = f"that are equal in {', '.join(by)}" if by else "at all"
                message = f"the target's unique keys ask that rows {columns} come to one task"
                how = "repartition by these last, and name them in the option repartitioned_by; or " if by else ""
                raise SpecError(message, remedy=f"{how}use {_OTHER_WAY}")
        if (self._folder / "state").exists():
            message = "the query keeps state, and a batch that runs again could not be compared with what was decided"
            raise SpecError(message, remedy=f"use {_OTHER_WAY}")


def _sinks(spec: Spec) -> list[Sink]:
    return [build_sink(spec, entry) for entry in spec.sinks]


@dataclass(slots=True)
class DoneBatch:
    """A batch whose job Spark has already run, with the acknowledgements of its tasks or its error.

    Implements twophase.effects.Batch, without state.
    """

    checkpoint_id: int
    outcome: Sequence[bytes] | PrepareError  # encoded committables
    sinks: Sequence[str]  # their names
    skipped: Mapping[str, int] = field(default_factory=dict)  # nothing is known of the sources
    rules: tuple[RuleCount, ...] = ()  # the job has no steps of a spec
    acknowledgements: tuple[Acknowledgement, ...] = ()  # its tasks bring nothing but what they have prepared
    ranges: Ranges = field(default_factory=dict)  # the sources are Spark's own
    ends_held: Sequence[int] | None = None  # as the planner read them; None: the batch has failed
    stateful: bool = False

    def run_writers(self, scope: Scope, *, direct: bool) -> Acknowledged | Failed:
        """Return the outcome. The tasks have already prepared."""
        assert not direct
        if isinstance(self.outcome, PrepareError):
            return Failed(self.outcome)
        return Acknowledged(by_sink(self.sinks, map(decode_committable, self.outcome)), time.time())

    def discard(self, digest_methods: Sequence[int]) -> None:
        """Return None: the format has no state."""


def _run_of(head: HeadValue | None) -> str:
    """Return the run that changed head last, as the first part of its sessions; empty if no run has."""
    return head.nonces[-1].partition(".")[0] if head is not None and head.nonces else ""
