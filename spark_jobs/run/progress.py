"""What Spark itself says of a query's newest batch, which it says only after the batch has ended."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from pyspark.sql.streaming.query import StreamingQuery

from spark_jobs.observe.history.model import StateOperator, StateSize
from spark_jobs.observe.report import Listener

_PLAN: Final = ("latestOffset", "getBatch", "queryPlanning", "walCommit")
_IDLE_S: Final = 1.0
_TOOK: Final = re.compile(r"(\w+)=(\d+)")


@dataclass(frozen=True, slots=True)
class Progress:
    """Of one batch, or of a look that found none."""

    batch_id: int
    took_ms: Mapping[str, int]  # by Spark's names for its steps
    raw: Any = None  # Spark's own object

    @property
    def plan_s(self) -> float | None:
        """What the plan of the batch took; None where it says of no batch, but that nothing came."""
        if "addBatch" not in self.took_ms:
            return None
        return sum(self.took_ms.get(name, 0) for name in _PLAN) / 1000


def state_size(found: Progress, at: float, steps: Sequence[str]) -> StateSize:
    """Convert the part of Spark's progress that is about state and watermark. Two calls into the JVM per operator.

    `steps`: of the operators, as Spark numbers them. An operator is named by its place, unless Spark has other ones.
    Each operator is one text of about 2 kB: see `newest` for larger ones.
    """
    operators = [json.loads(each.json()) for each in found.raw.stateOperators()]
    watermark = found.raw.eventTime().get("watermark")
    named = steps if len(steps) == len(operators) else [""] * len(operators)
    return StateSize(
        found.batch_id,
        tuple(_operator(number, step, each) for number, (step, each) in enumerate(zip(named, operators, strict=True))),
        at,
        datetime.fromisoformat(str(watermark).replace("Z", "+00:00")).timestamp() if watermark else None,
    )


def _operator(number: int, step: str, found: Mapping[str, Any]) -> StateOperator:
    return StateOperator(
        number=number,
        step=step,
        operator=str(found["operatorName"]),
        rows=int(found["numRowsTotal"]),
        updated=int(found["numRowsUpdated"]),
        removed=int(found["numRowsRemoved"]),
        dropped=int(found["numRowsDroppedByWatermark"]),
        memory_bytes=int(found["memoryUsedBytes"]),
        commit_ms=int(found["commitTimeMs"]),
    )


def newest(query: StreamingQuery) -> Progress | None:
    """Asked once a batch; a few milliseconds.

    Piece by piece, and not by `lastProgress`, which comes as one text: of one that is larger than the JVM's buffer of
    16 kB (a hundred partitions) the rest waits 40 ms, since the system acknowledges the first part no earlier.
    """
    found: Any = query._jsq.lastProgress()
    if found is None:
        return None
    took_ms = {name: int(took) for name, took in _TOOK.findall(found.durationMs().toString())}
    return Progress(int(found.batchId()), took_ms, found)


@dataclass(slots=True)
class QueryProgress:
    """Spark's progress of one query. Reports how long the plan of a batch took, which Spark says after the batch.

    Used by Spark's thread in a batch, and by the thread that waits for the query between batches.
    """

    listener: Listener
    query: StreamingQuery | None = None  # None until Spark has started it
    has_state: bool = False  # or a watermark; set before the start
    steps: Sequence[str] = ()  # of the operators with state, as Spark numbers them
    _unplanned: int | None = field(default=None, init=False)  # the newest checkpoint, until its plan is reported
    _decided_at_s: float = field(default=0.0, init=False)

    def decided(self, checkpoint_id: int) -> None:
        """Note that a checkpoint is decided, whose plan Spark will describe."""
        self._unplanned, self._decided_at_s = checkpoint_id, time.monotonic()

    def report_idle(self) -> None:
        """Report the newest plan where no further batch asks for it within a second."""
        if self._unplanned is not None and time.monotonic() - self._decided_at_s > _IDLE_S:
            self.report_plan()

    def report_plan(self) -> None:
        """Read Spark's progress, and report the plan of the newest checkpoint if it is there. Called once per batch."""
        found = newest(self.query) if self.query is not None else None
        if found is not None and found.batch_id == self._unplanned and found.plan_s is not None:
            self._unplanned = None
            self.listener.on_planned(found.batch_id, found.plan_s)
            if self.has_state:
                self.listener.on_state_size(state_size(found, time.time(), self.steps))
