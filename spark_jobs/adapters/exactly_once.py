"""Exactly once from any streaming query of Spark's: `df.writeStream.foreachBatch(ExactlyOnce("sinks.yaml"))`."""

from __future__ import annotations

import atexit
import secrets
import time
from contextlib import ExitStack
from pathlib import Path

from pyspark.sql import DataFrame

from connectors.registry import build_sink
from connectors.spec import Spec
from eos.errors import ConnectorError, SpecError
from spark_jobs.adapters.sink_spec import load_sink_spec, masked
from spark_jobs.batch.batch import SparkBatch
from spark_jobs.batch.branches import Flow, branches_of
from spark_jobs.batch.columns import check_hashable
from spark_jobs.observe.history.model import Ending, failure
from spark_jobs.observe.history.recorder import recorded
from spark_jobs.observe.notifications.notifier import notified
from spark_jobs.observe.report import Listeners, LogListener
from spark_jobs.query.running_query import EndsHeld, Query, asked_to_stop, query_of, run_of
from spark_jobs.query.spark_log import JobSparkLog
from spark_jobs.run.checkpoints import Checkpoints
from spark_jobs.run.open_driver import limits_of
from spark_jobs.run.recovery import recover
from spark_jobs.run.shared_state import check_state_is_shared
from spark_jobs.savepoints.job import remember
from spark_jobs.session.connect import refuse_connect
from spark_jobs.session.protection import require, session_gaps
from spark_jobs.session.shipping import ship
from spark_jobs.session.versions import FOREACH_BATCH, require_spark


class ExactlyOnce:
    """A function for `foreachBatch` that writes each row of a streaming query into every sink of a spec exactly once.

        from eos import ExactlyOnce

        rows.writeStream.foreachBatch(ExactlyOnce("sink.yaml")).option("checkpointLocation", "./spark").start()

    The spec names `pipeline`, `checkpoint.location` (where decisions are stored) and `sinks`, without `from`. Sources
    and steps are the job's own. Use any source of Spark's that returns the same records for the same offsets. The
    `checkpointLocation` may be in any file system that the session reads.

    Called by: Spark, once for every batch, also for an empty one. A job that calls it from a `foreachBatch` function of
    its own does so exactly once for each batch. One object serves one query after another, never two at a time.

    Call order: build it on the driver, pass it to `foreachBatch`, start the query. `close` is called at the end of the
    process, or earlier by the job.

    Blocking: a call blocks until the checkpoint is committed, or decided if a sink may be behind (`max_backlog`).

    Raises: SparkUnavailableError at once on Spark Connect, and on a version of PySpark that is not supported
    (docs/reference/compatibility.md); SpecError at once for a wrong spec. In a batch, errors leave `foreachBatch`, so
    the query ends, and Spark runs the same batch at the next start: SpecError if Spark's traffic is not protected and
    the spec does not accept that (docs/how-to/security.md); IdentityError if head, Spark's checkpoint and the sinks
    contradict each other; other EosErrors of the sinks.

    Rule: each run of a query is one epoch. Its first batch claims head and the sinks, which fences an earlier run that
    is still alive (R1). With `checkpoint.mode: at-least-once` a batch takes less time, and rows of a failed batch may
    be written twice.
    """

    def __init__(self, spec: str | Path) -> None:
        """Reads the spec, and touches no service. Raises SpecError with all mistakes."""
        require_spark(FOREACH_BATCH)
        refuse_connect()
        self._spec: Spec = load_sink_spec(spec)
        self._run: _Run | None = None
        atexit.register(self.close)

    def __call__(self, frame: DataFrame, checkpoint_id: int) -> None:
        """One batch. Called by Spark; blocks until the checkpoint is committed."""
        with masked(self._spec):
            if self._run is None or self._run.query.run_id != run_of(frame):
                if self._run is not None:
                    self._run.close()  # what it has decided, the new one's start commits
                self._run = _Run(self._spec, frame)
            self._run.complete(frame, checkpoint_id)

    def close(self) -> None:
        """Wait for sinks that are behind, and let go of connections; the next batch opens what it needs.

        After a `stop` of the query that met a batch waiting for a sink, for ten seconds only: the next start does it.
        Called at the end of the process as well. Raises what a sink raises that cannot commit: the next start does.
        """
        if self._run is not None:
            run, self._run = self._run, None
            try:
                run.drain()
            finally:
                run.close()


class _Run:
    """One run of a query: one epoch."""

    def __init__(self, spec: Spec, frame: DataFrame) -> None:
        require(session_gaps(frame.sparkSession), spec.spark)
        ship(frame.sparkSession, spec)
        self.query: Query = query_of(frame)
        self._spec = spec
        self._newest = -1  # that this run has completed; Spark replays a batch only as the first of a run
        self._asked_to_stop = asked_to_stop(frame)
        self._ends = EndsHeld()
        self._in_batch = False
        self._stopped = False
        self._failed = False
        sinks = [build_sink(spec, entry) for entry in spec.sinks]
        with ExitStack() as stack:
            log = self.query.log
            run_id = secrets.token_hex(8)
            session = f"{run_id}.0"
            self._recorder = stack.enter_context(recorded(spec, run_id, self._ending))
            self._told = Listeners([self._recorder, *stack.enter_context(notified(spec))])
            listener = Listeners([LogListener(spec.pipeline), self._told])
            recovered = stack.enter_context(
                recover(
                    spec,
                    sinks,
                    log,
                    listener,
                    session=session,
                    limits=limits_of(spec),
                    is_stopping=self._is_stopping,
                )
            )
            self._driver = recovered.driver
            remember(spec, recovered.driver.owned.incarnation, self.query.location)
            self._flow = Flow(spec, tuple(branches_of("", frame, recovered.sinks)))
            if self.query.stateful:
                if isinstance(log, JobSparkLog):  # every worker reaches a store
                    check_state_is_shared(frame.sparkSession, log.location)
                for branch in self._flow.branches:
                    check_hashable(branch.of(frame))
            self._checkpoints = Checkpoints(recovered.driver, log, listener)
            self._close = stack.pop_all()

    def complete(self, frame: DataFrame, checkpoint_id: int) -> None:
        if checkpoint_id <= self._newest:
            message = f"batch {checkpoint_id} was written already in this run: its second frame would be left out"
            raise SpecError(message, remedy="call ExactlyOnce once for every batch; join two frames by unionByName")
        timeout_s = self._spec.checkpoint.timeout_s
        batch = SparkBatch(frame, checkpoint_id, self._flow, self.query.stateful, timeout_s, ends=self._ends)
        self._in_batch = True
        try:
            self._checkpoints.complete(batch)
        except ConnectorError as error:
            self._failed = True
            self._told.on_event(failure(error, time.time(), checkpoint_id))
            raise
        finally:
            self._in_batch = False
        self._newest = checkpoint_id

    def _is_stopping(self) -> bool:
        """Between batches nobody is held up: that a query has ended by itself is no reason to leave anything behind."""
        self._stopped = self._stopped or (self._in_batch and self._asked_to_stop())
        return self._stopped

    def _ending(self) -> Ending:
        return "failed" if self._failed else "stopped"

    def drain(self) -> None:
        self._driver.drain()

    def close(self) -> None:
        self._close.close()
