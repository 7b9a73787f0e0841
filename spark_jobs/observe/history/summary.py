"""Figures over many checkpoints. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from spark_jobs.observe.history.model import PHASES, Bucket, Checkpoint


@dataclass(frozen=True, slots=True)
class Distribution:
    """Of one figure. Percentiles are values that occurred (nearest rank)."""

    count: int
    mean: float
    p50: float
    p95: float
    p99: float
    max: float


@dataclass(frozen=True, slots=True)
class Summary:
    """Of the newest checkpoints. A figure that was measured of none of them is None."""

    checkpoints: int
    first_at: float | None  # decided
    last_at: float | None
    duration_s: Distribution | None
    records: Distribution | None
    rows: Distribution | None
    bytes: Distribution | None
    phases: Mapping[str, Distribution | None]  # by model.PHASES, seconds
    skipped: int = 0  # bad records that were left out of them
    skipped_share: float | None = None  # of the records that they cover; None: they cover none


def distribution(values: Iterable[float | None]) -> Distribution | None:
    """Of those that are there; None where none is."""
    found = sorted(each for each in values if each is not None)
    if not found:
        return None

    def rank(share: float) -> float:
        return found[math.ceil(share * len(found)) - 1]

    return Distribution(len(found), math.fsum(found) / len(found), rank(0.5), rank(0.95), rank(0.99), found[-1])


def summarize(checkpoints: Sequence[Checkpoint]) -> Summary:
    """In any order."""
    seconds = [dict(each.phases.items()) for each in checkpoints]
    decided = [each.decided_at for each in checkpoints]
    skipped, records = sum(each.skipped for each in checkpoints), sum(each.records or 0 for each in checkpoints)
    return Summary(
        checkpoints=len(checkpoints),
        first_at=min(decided, default=None),
        last_at=max(decided, default=None),
        duration_s=distribution(each.duration_s for each in checkpoints),
        records=distribution(each.records for each in checkpoints),
        rows=distribution(each.rows for each in checkpoints),
        bytes=distribution(each.bytes for each in checkpoints),
        phases={name: distribution(each[name] for each in seconds) for name in PHASES},
        skipped=skipped,
        skipped_share=skipped / records if records else None,
    )


def filled(buckets: Mapping[int, Bucket], since: float, until: float, width_s: float) -> tuple[Bucket, ...]:
    """A bucket for each stretch that touches [since, until), oldest first; `buckets`: by number, at // width_s."""
    numbers = range(math.floor(since / width_s), math.ceil(until / width_s))
    return tuple(buckets.get(number, Bucket(number * width_s, width_s)) for number in numbers)


def missing(checkpoints: Sequence[Checkpoint]) -> tuple[tuple[str, int, int], ...]:
    """Gaps: (incarnation, first, last) of checkpoints that were completed and are not among these, newest first.

    `checkpoints`: newest first, without a hole of the caller's making.
    """
    return tuple(
        (newer.incarnation, older.checkpoint_id + 1, newer.checkpoint_id - 1)
        for newer, older in pairwise(checkpoints)
        if newer.incarnation == older.incarnation and newer.checkpoint_id > older.checkpoint_id + 1
    )
