"""How long the tasks of a checkpoint may take. One that takes longer is aborted, and may be replanned, smaller.

The plan is Spark's `offsets/N`. Nothing is decided by it, and recovery rolls back what its tasks have prepared before
the plan is deleted (R3, `spark_jobs/query/spark_log_repair.py`). So it is as if a power cut had destroyed the file.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from eos.errors import ConnectorError
from spark_jobs.query.pacing.admission import Admission

_log = logging.getLogger("eos.runner")


@dataclass(slots=True)
class TimeLimit:
    """The limit of one run, kept from query to query. Used by the thread that runs checkpoints, and between queries.

    A pipeline with state does not use it: tasks of an aborted batch may still write state of the old plan. Nor does an
    at-least-once pipeline, whose tasks have committed their rows.
    """

    timeout_s: float  # `checkpoint.timeout`
    admission: Admission
    overran: int | None = field(default=None, init=False)  # the checkpoint that the next query replans
    _ended_by: ConnectorError | None = field(default=None, init=False)

    @property
    def seconds(self) -> float:
        """How long the tasks of the next attempt may take."""
        return min(self.timeout_s, self.admission.limit_s)

    def end_query(self, checkpoint_id: int, error: ConnectorError) -> None:
        """Have the checkpoint replanned with fewer records, where their number follows the durations.

        `error` ends the query. It is no failure for the restart strategy, unless `checkpoint.timeout` has passed.
        """
        is_failure = self.admission.limit_s >= self.timeout_s
        if self.admission.overrun():
            self.overran = checkpoint_id
            self._ended_by = None if is_failure else error

    def resumes(self, error: ConnectorError) -> bool:
        """Whether the query has ended by this error only for its checkpoint to be replanned by the next query."""
        if self._ended_by is not error:
            return False
        self._ended_by = None
        most = self.admission.max_records
        _log.warning("%s; it is replanned, with at most %s records", error.message, most)
        return True


@contextmanager
def ended_after(timeout_s: float, cancel: Callable[[], None], again_s: float = 1.0) -> Iterator[None]:
    """Cancel what runs in this block after that time, and repeat it until the block is left (R8).

    Between two stages of a job there may be nothing to cancel.
    """
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
