"""What Spark itself says of a query's newest batch, which it says only after the batch has ended."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql.streaming.query import StreamingQuery

from spark_jobs.history.model import SplitLag
from spark_jobs.source_offset import SourceOffset
from twophase.head_value import HeadValue
from twophase.positions import least

_PLAN: Final = ("latestOffset", "getBatch", "queryPlanning", "walCommit")
_TOOK: Final = re.compile(r"(\w+)=(\d+)")


@dataclass(frozen=True, slots=True)
class Progress:
    """Of one batch, or of a look that found none."""

    batch_id: int
    took_ms: Mapping[str, int]  # by Spark's names for its steps
    ends: tuple[SourceOffset, ...]  # where our sources ended when the batch was planned

    @property
    def plan_s(self) -> float | None:
        """What the plan of the batch took; None where it says of no batch, but that nothing came."""
        if "addBatch" not in self.took_ms:
            return None
        return sum(self.took_ms.get(name, 0) for name in _PLAN) / 1000

    def lag(self, head: HeadValue, at: float) -> tuple[SplitLag, ...] | None:
        """What was there when the batch was planned, against what is completed now; None where no source says it."""
        if not self.ends:
            return None
        return tuple(
            SplitLag(at, each.source, split, end, least(end) if position is None else position)
            for each in self.ends
            for split, end in each.ends.items()
            for position in (head.position(each.source, split),)
        )


def newest(query: StreamingQuery) -> Progress | None:
    """Asked once a batch; a few milliseconds.

    Piece by piece, and not by `lastProgress`, which comes as one text: of one that is larger than the JVM's buffer of
    16 kB (a hundred partitions) the rest waits 40 ms, since the system acknowledges the first part no earlier.
    """
    found: Any = query._jsq.lastProgress()
    if found is None:
        return None
    ends = [_offset(source.latestOffset()) for source in found.sources()]
    took_ms = {name: int(took) for name, took in _TOOK.findall(found.durationMs().toString())}
    return Progress(int(found.batchId()), took_ms, tuple(each for each in ends if each is not None))


def _offset(text: str | None) -> SourceOffset | None:
    value = json.loads(text) if text else None
    return SourceOffset.from_json(value) if isinstance(value, dict) else None
