"""One of Spark's batches, as the protocol sees it: a job that writes and prepares, or one that only keeps state up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, functions

from connectors.contracts import Sink
from spark_jobs.columns import numbered, quoted
from spark_jobs.failures import TOKEN, translate
from spark_jobs.query import job_group
from spark_jobs.writing import ACKNOWLEDGEMENT, HASH_COLUMN, WriteTask, count_rows
from twophase.codec import decode_committable
from twophase.errors import ConnectorError, PrepareError
from twophase.ids import Scope
from twophase.messages import Acknowledged, Failed

_JOB_ERRORS = (PySparkException, Py4JError, OSError, EOFError)
"""How a job, or the connection over which its rows come, can fail. Rows come as Arrow, whose stream tells its end: what
`collect` reads is cut short in silence where the JVM dies."""


@dataclass(slots=True)
class SparkBatch:
    """Implements twophase.effects.Batch for one call of `foreachBatch`."""

    frame: DataFrame  # what Spark hands over
    checkpoint_id: int
    sink: Sink  # opened
    stateful: bool
    timeout_s: float
    _job_group: str = field(init=False)
    _cancelled: str = field(default="", init=False)

    def __post_init__(self) -> None:
        """In Spark's thread of the query, whose jobs are one group."""
        self._job_group = job_group(self.frame)

    def run_writers(self, scope: Scope) -> Acknowledged | Failed:
        """One Spark job. Blocks until it has ended; a job past the timeout is cancelled (R8)."""
        sink = self.sink
        task = WriteTask(scope, sink, self.stateful, TOKEN)
        try:
            frame = self._hashed() if self.stateful else self.frame
            frame = _partitioned(frame, sink.partition_by)
            with self._deadline():
                rows = numbered(frame).mapInArrow(task, ACKNOWLEDGEMENT).toArrow()
        except _JOB_ERRORS as error:
            return Failed(self._reason(error))
        committables = tuple(map(decode_committable, rows.column("committable").to_pylist()))
        return Acknowledged({sink.name: committables}, time.time())

    def discard(self) -> Mapping[str, tuple[int, int]] | None:
        """Run a decided batch for its state; nothing at all to do where there is none."""
        if not self.stateful:
            return None
        try:
            with self._deadline():
                counts = numbered(self._hashed()).mapInArrow(count_rows, "rows long, digest string").toArrow()
        except _JOB_ERRORS as error:
            raise self._reason(error) from error
        rows = counts.to_pylist()
        counted = sum(row["rows"] for row in rows), sum(int(row["digest"]) for row in rows) % 2**64
        return {self.sink.name: counted}

    def cancel(self, reason: str) -> None:
        """End the running job; the checkpoint is then aborted. May be called from any thread."""
        self._cancelled = self._cancelled or reason
        self.frame.sparkSession.sparkContext.cancelJobGroup(self._job_group)

    def _hashed(self) -> DataFrame:
        return self.frame.withColumn(HASH_COLUMN, functions.xxhash64(*map(_column, self.frame.columns)))

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


def _partitioned(frame: DataFrame, by: Sequence[str] | None) -> DataFrame:
    """Rows that are equal in these columns come to one task: all rows if there is no column (see Sink)."""
    if by is None:
        return frame
    return frame.repartition(*map(_column, by)) if by else frame.repartition(1)


def _column(name: str) -> Column:
    return functions.col(quoted(name))
