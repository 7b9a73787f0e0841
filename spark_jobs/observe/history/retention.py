"""What a history lets go of, so that it does not grow without end."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Final

_DETAILS: Final = 1_000
_EVENTS: Final = 10_000
_NEWEST: Final = 100
"""Checkpoints that stay at any age: a start reports as many once more, and each must count once."""
_RUNS: Final = 1_000
_DETAIL_BYTES: Final = 32 * 1024 * 1024  # ranges and acknowledgements, of pipelines with very many of them


@dataclass(frozen=True, slots=True)
class Retention:
    """Of checkpoints the newest so many stay, and but for the very newest none that is older; of the rest what goes
    with them."""

    checkpoints: int = 20_000
    age_s: float = 30 * 86_400.0


def prune(connection: sqlite3.Connection, retention: Retention, now: float) -> None:
    """Within the caller's transaction. `now`: seconds since 1970."""
    run, oldest = connection.execute, now - retention.age_s
    newest = "SELECT seq FROM checkpoint ORDER BY seq DESC LIMIT ?"
    run(f"DELETE FROM checkpoint WHERE decided_at < ? AND seq NOT IN ({newest})", (oldest, _NEWEST))
    for table, most in {"checkpoint": retention.checkpoints, "detail": _DETAILS}.items():
        last = f"SELECT seq FROM {table} ORDER BY seq DESC LIMIT 1 OFFSET ?"
        run(f"DELETE FROM {table} WHERE seq <= ({last})", (most,))
    last = "SELECT seq FROM event ORDER BY seq DESC LIMIT 1 OFFSET ?"
    state = "SELECT seq FROM event WHERE kind = 'state' ORDER BY seq DESC LIMIT 1"  # it holds until the next one
    run(f"DELETE FROM event WHERE (at < ? OR seq <= ({last})) AND seq NOT IN ({state})", (oldest, _EVENTS))
    (first,) = run("SELECT COALESCE(MIN(seq), 0) FROM checkpoint").fetchone()
    for table in ("sink", "detail", "aborted"):
        run(f"DELETE FROM {table} WHERE seq < ?", (first,))
    run("DELETE FROM skipped WHERE seq >= 0 AND seq < ?", (first,))
    size = "LENGTH(ranges) + LENGTH(acknowledgements) + COALESCE(LENGTH(lag), 0)"
    sizes = f"SELECT seq, SUM({size}) OVER (ORDER BY seq DESC) AS size FROM detail"
    run(f"DELETE FROM detail WHERE seq IN (SELECT seq FROM ({sizes}) WHERE size > ?)", (_DETAIL_BYTES,))
    last = "SELECT started_at FROM run ORDER BY started_at DESC LIMIT 1 OFFSET ?"
    run(f"DELETE FROM run WHERE started_at <= ({last})", (_RUNS,))
