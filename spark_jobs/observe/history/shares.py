"""What each sink had of all the checkpoints that a history keeps, and what of it is not visible there yet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from spark_jobs.observe.history.database import LIFE_BITS, NAME, connected_to_read

_SUMS = "sink, COUNT(*), SUM(rows), SUM(bytes), MAX(committed_at)"


@dataclass(frozen=True, slots=True)
class SinkShare:
    """Rows and durations of a sink in some checkpoints."""

    sink: str
    checkpoints: int
    rows: int
    bytes: int
    committed_at: float | None  # the newest that is known


def shares(location: Path) -> tuple[SinkShare, ...]:
    """By sink, of all of them. Raises HistoryError."""
    return _asked(location, f"SELECT {_SUMS} FROM sink GROUP BY sink")


def waiting(location: Path, incarnation: str, committed: int) -> tuple[SinkShare, ...]:
    """By sink, of those of this life that are above `committed` and not visible there. Raises HistoryError."""
    statement = (
        f"SELECT {_SUMS} FROM sink JOIN life ON life = seq >> {LIFE_BITS} "
        f"WHERE incarnation = ? AND (seq & {(1 << LIFE_BITS) - 1}) > ? AND committed_at IS NULL GROUP BY sink"
    )
    return _asked(location, statement, incarnation, committed)


def _asked(location: Path, statement: str, *values: object) -> tuple[SinkShare, ...]:
    with connected_to_read(location / NAME) as connection:
        return () if connection is None else tuple(SinkShare(*row) for row in connection.execute(statement, values))
