"""An overview as plain data, for JSON: what `eos status --json` prints, and the API answers. Pure.

Times are seconds since 1970; names with `_s` are seconds, `bytes` are bytes. What is not known is null.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from spark_jobs.observe.history.model import Checkpoint, Detail, Event, SplitLag
from spark_jobs.observe.overview import Overview
from spark_jobs.observe.withheld import WithheldSplit
from twophase.positions import total
from twophase.values import CheckpointRecord


def facts(of: Overview) -> dict[str, Any]:
    """Return the overview of a pipeline as plain data."""
    head = of.head
    return {
        "has_run": head is not None,
        "running": asdict(of.presence) if of.presence is not None else None,
        "epoch": head.epoch if head else None,
        "incarnation": head.incarnation if head else None,
        "completed": head.completed if head else None,
        "committed": head.committed if head else None,
        "positions": {source: dict(splits) for source, splits in head.positions.items()} if head else {},
        "lag": lag_facts(of.lag),
        "withheld": withheld_facts(of.withheld),
        "totals": asdict(of.totals),
        "summary": asdict(of.summary),
        "checkpoints": [checkpoint_facts(each, of.record(each)) for each in of.checkpoints],
        "incidents": [event_facts(each) for each in of.incidents],
        "aborted": [asdict(each) for each in of.aborted],
        "runs": [asdict(each) for each in of.runs],
        "history_unread": of.unread or None,
    }


def checkpoint_facts(of: Checkpoint, record: CheckpointRecord | None = None) -> dict[str, Any]:
    """`record`: head's, while it is retained: only it has ranges, and knows of repairs."""
    return {
        "checkpoint_id": of.checkpoint_id,
        "incarnation": of.incarnation,
        "epoch": of.epoch,
        "try": of.attempt,
        "run": of.session or None,
        "started_at": of.started_at,
        "decided_at": of.decided_at,
        "committed_at": of.committed_at,
        "duration_s": of.duration_s,
        "phases_s": dict(of.phases.items()),
        "records": of.records,
        "rows": of.rows,
        "bytes": of.bytes,
        "writers": of.writers,
        "skipped": of.skipped,
        "lag": of.lag,
        "state": "committed" if of.is_committed else "completed",
        "replayed": of.replayed,
        "repaired": record.repaired if record is not None else None,
        "state_partitions": record.state_partitions if record is not None else None,
        "mode": of.mode,
        "sinks": [asdict(each) for each in of.sinks],
        "ranges": _ranges(record.ranges) if record is not None else None,
    }


def detail_facts(of: Detail) -> dict[str, Any]:
    """One checkpoint, with every writer."""
    return {
        **checkpoint_facts(of.checkpoint),
        "ranges": _ranges(of.ranges),
        "acknowledgements": [asdict(each) for each in of.acknowledgements],
        "aborted": [asdict(each) for each in of.aborted],
        "split_lag": lag_facts(of.lag),
    }


def event_facts(of: Event) -> dict[str, Any]:
    """Something that happened."""
    return asdict(of)


def lag_facts(of: Sequence[SplitLag]) -> dict[str, Any] | None:
    """Of one sample; None where there is none."""
    if not of:
        return None
    splits = [{**asdict(each), "records": each.records} for each in of]
    return {"at": of[0].at, "records": total(each.records for each in of), "splits": splits}


def withheld_facts(of: Sequence[WithheldSplit]) -> dict[str, Any] | None:
    """Records that cannot be read yet; None where there are none."""
    if not of:
        return None
    splits = [{**asdict(each), "records": each.records} for each in of]
    at, since = max(each.at for each in of), min(each.since for each in of)
    return {"at": at, "since": since, "records": total(each.records for each in of), "splits": splits}


def _ranges(of: Any) -> dict[str, list[dict[str, Any]]]:
    return {source: [asdict(each) for each in ranges] for source, ranges in of.items()}
