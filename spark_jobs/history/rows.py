"""From rows of the history's tables to the nouns of `model`, and what a checkpoint has beyond columns, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any, Final

from spark_jobs.history.database import LIFE_BITS, PHASE_COLUMNS
from spark_jobs.history.entries import Completed
from spark_jobs.history.model import (
    AbortedTry,
    Acknowledgement,
    Bucket,
    Checkpoint,
    Detail,
    Event,
    Phases,
    Run,
    SinkCommit,
    SplitLag,
)
from twophase.values import OffsetRange

Row = dict[str, Any]

CHECKPOINT: Final = f"SELECT checkpoint.*, incarnation FROM checkpoint JOIN life ON life = seq >> {LIFE_BITS}"


def checkpoint(row: Row) -> Checkpoint:
    """Without its sinks."""
    return Checkpoint(
        incarnation=row["incarnation"],
        checkpoint_id=row["checkpoint_id"],
        epoch=row["epoch"],
        attempt=row["attempt"],
        session=row["session"],
        started_at=row["started_at"],
        decided_at=row["decided_at"],
        committed_at=row["committed_at"],
        records=row["records"],
        mode=row["mode"],
        lag=row["lag"],
        replayed=bool(row["replayed"]),
        sinks=(),
        phases=phases(row),
        seq=row["seq"],
    )


def phases(row: Row) -> Phases:
    """Of a checkpoint, or of a bucket."""
    return Phases(**{column: row[column] for column in PHASE_COLUMNS})


def sinks(found: Sequence[Row]) -> tuple[SinkCommit, ...]:
    """By name."""
    return tuple(SinkCommit(**{key: value for key, value in row.items() if key != "seq"}) for row in found)


def bucket(row: Row, width_s: float) -> Bucket:
    """An aggregate over checkpoints."""
    own = {key: value for key, value in row.items() if key != "number" and key not in PHASE_COLUMNS}
    return Bucket(at=row["number"] * width_s, width_s=width_s, phases=phases(row), **own)


def event(row: Row) -> Event:
    """Its facts are JSON."""
    return Event(**{**row, "facts": json.loads(row["facts"])})


def run(row: Row) -> Run:
    """As it stands."""
    return Run(**row)


def split_lag(row: Row) -> SplitLag:
    """As it stands."""
    return SplitLag(row["at"], row["source"], row["split"], row["end"], row["position"])


def aborted(row: Row, incarnation: str) -> AbortedTry:
    """As it stands."""
    number = row["seq"] & (1 << LIFE_BITS) - 1
    return AbortedTry(incarnation, number, **{key: value for key, value in row.items() if key != "seq"})


def body_of(entry: Completed) -> bytes:
    """What only the newest checkpoints keep."""
    body = {
        "ranges": {source: [astuple(each) for each in ranges] for source, ranges in entry.ranges.items()},
        "acknowledgements": [astuple(each) for each in entry.acknowledgements],
        "lag": [astuple(each) for each in entry.lag],
    }
    return json.dumps(body, separators=(",", ":")).encode()


def detail(found: Checkpoint, body: Mapping[str, Any] | None, tries: tuple[AbortedTry, ...]) -> Detail:
    """`body`: as `body_of` wrote it; None: it is not kept any more."""
    kept = body if body is not None else {"ranges": {}, "acknowledgements": [], "lag": []}
    return Detail(
        checkpoint=found,
        ranges={source: tuple(OffsetRange(*each) for each in ranges) for source, ranges in kept["ranges"].items()},
        acknowledgements=tuple(Acknowledgement(*each) for each in kept["acknowledgements"]),
        aborted=tries,
        lag=tuple(SplitLag(*each) for each in kept["lag"]),
    )
