"""From rows of the history's tables to the nouns of `model`, and what a checkpoint has beyond columns, as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from spark_jobs.observe.history.database import LIFE_BITS, PHASE_COLUMNS
from spark_jobs.observe.history.model import (
    AbortedAttempt,
    Acknowledgement,
    Bucket,
    Checkpoint,
    Detail,
    Event,
    KilledRun,
    Phases,
    RuleCount,
    Run,
    SinkCommit,
    SplitLag,
    StateOperator,
)
from twophase.values import OffsetRange

Row = dict[str, Any]

KILLED: Final = (
    "WITH traced AS (SELECT run_id, MAX(at) AS at FROM event GROUP BY run_id), "
    "reported AS (SELECT run_id, MAX(seq), message FROM event WHERE kind = 'state' GROUP BY run_id) "
    "SELECT run.*, MAX(run.started_at, COALESCE(traced.at, 0), COALESCE((SELECT MAX(decided_at) FROM checkpoint "
    "WHERE decided_at >= run.started_at AND decided_at < COALESCE("
    "(SELECT MIN(started_at) FROM run AS later WHERE later.started_at > run.started_at), 1e18)), 0)) AS last_at "
    "FROM run LEFT JOIN traced USING (run_id) LEFT JOIN reported USING (run_id) "
    "WHERE run.ended_at IS NULL AND COALESCE(reported.message, '') NOT IN (?, ?, ?) "
    "ORDER BY run.started_at DESC LIMIT ?"
)
"""Runs that have no end and have not reported one of three endings as their state, with the time of the last trace."""

CHECKPOINT: Final = (
    "SELECT checkpoint.*, incarnation, checkpoint_id <= committed AS is_committed, "
    "(SELECT COALESCE(SUM(skipped.records), 0) FROM skipped WHERE skipped.seq = checkpoint.seq) AS skipped "
    f"FROM checkpoint JOIN life ON life = seq >> {LIFE_BITS}"
)

ABORTED: Final = f"SELECT aborted.*, incarnation FROM aborted JOIN life ON life = seq >> {LIFE_BITS}"


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
        is_committed=bool(row["is_committed"]),
        committed_at=row["committed_at"],
        records=row["records"],
        mode=row["mode"],
        lag=row["lag"],
        replayed=bool(row["replayed"]),
        sinks=(),
        skipped=row["skipped"],
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


def killed(row: Row) -> KilledRun:
    """Convert a row of `KILLED`."""
    return KilledRun(run({key: value for key, value in row.items() if key != "last_at"}), row["last_at"])


def aborted(row: Row) -> AbortedAttempt:
    """As it stands."""
    number = row["seq"] & (1 << LIFE_BITS) - 1
    return AbortedAttempt(checkpoint_id=number, **{key: value for key, value in row.items() if key != "seq"})


def packed(values: object) -> bytes:
    """What only the newest checkpoints keep: ranges by source, or a list of dataclasses."""
    return json.dumps(values, separators=(",", ":"), default=_fields).encode()


def _fields(value: Any) -> tuple[Any, ...]:
    """Of a flat dataclass. `astuple` would copy each field deeply: ten times the work, for each writer."""
    return tuple(getattr(value, name) for name in value.__slots__)


def rule(row: Row) -> RuleCount:
    """Of one checkpoint, or of all of them."""
    return RuleCount(**{key: value for key, value in row.items() if key != "seq"})


def state(row: Row) -> StateOperator:
    """Convert a row of `state`."""
    return StateOperator(**{key: value for key, value in row.items() if key != "seq"})


def detail(
    found: Checkpoint,
    kept: Row | None,
    tries: tuple[AbortedAttempt, ...],
    rules: tuple[RuleCount, ...],
    state: tuple[StateOperator, ...],
) -> Detail:
    """`kept`: as `packed` wrote it; None: it is not kept any more."""
    ranges, acknowledgements, lag = (json.loads(each or "null") for each in kept.values()) if kept else (None,) * 3
    return Detail(
        checkpoint=found,
        ranges={name: tuple(OffsetRange(*each) for each in group) for name, group in (ranges or {}).items()},
        acknowledgements=tuple(Acknowledgement(*each) for each in acknowledgements or ()),
        aborted=tries,
        lag=tuple(SplitLag(*each) for each in lag or ()),
        rules=rules,
        state=state,
    )
