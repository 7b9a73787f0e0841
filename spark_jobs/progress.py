"""What Spark itself says of a query's newest batch, which it says only after the batch has ended."""

from __future__ import annotations

import json
from typing import Final

from pyspark.sql.streaming.listener import StreamingQueryProgress

from spark_jobs.history.model import SplitLag
from spark_jobs.source_offset import SourceOffset
from twophase.head_value import HeadValue

_PLAN: Final = ("latestOffset", "getBatch", "queryPlanning", "walCommit")


def plan_s(progress: StreamingQueryProgress) -> float | None:
    """What the plan of the batch took; None where it says of no batch, but that nothing came."""
    took_ms = progress.durationMs
    return sum(took_ms.get(name, 0) for name in _PLAN) / 1000 if "addBatch" in took_ms else None


def lag(progress: StreamingQueryProgress, head: HeadValue, at: float) -> tuple[SplitLag, ...] | None:
    """What was there when the batch was planned, against what is completed now; None where no source says it."""
    found = [each for source in progress.sources if (each := _offset(source.latestOffset)) is not None]
    if not found:
        return None
    return tuple(
        SplitLag(at, each.source, split, end, head.position(each.source, split) or 0)
        for each in found
        for split, end in each.ends.items()
    )


def _offset(text: str | None) -> SourceOffset | None:
    value = json.loads(text) if text else None
    return SourceOffset.from_json(value) if isinstance(value, dict) else None
