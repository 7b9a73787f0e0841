"""Reads a history: from any thread or process, while the pipeline runs and when it does not. Changes nothing.

Each call sees one moment, blocks for milliseconds, and raises HistoryError where the file is damaged or somebody
else's. Where there is no history yet the answers are empty.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, get_args

from spark_jobs.observe.history import rows
from spark_jobs.observe.history.database import LIFE_BITS, NAME, PHASE_COLUMNS, SINCE_BEGUN, connected_to_read
from spark_jobs.observe.history.model import (
    AbortedAttempt,
    Bucket,
    Checkpoint,
    Detail,
    Ending,
    Event,
    EventKind,
    KilledRun,
    RuleCount,
    Run,
    StateOperator,
    StateSize,
    Totals,
)
from spark_jobs.observe.history.rows import Row
from spark_jobs.observe.history.summary import Summary, filled, summarize

NEWEST = 1000
"""How many checkpoints a summary is about, unless it is told."""

_ENDED: tuple[str, ...] = get_args(Ending)
_DURATION = "committed_at - started_at + COALESCE(plan_s, 0)"
_SUMS = "sink, COUNT(*), SUM(rows), SUM(bytes), MAX(committed_at)"


@dataclass(frozen=True, slots=True)
class History:
    """The history of one pipeline."""

    path: Path

    @classmethod
    def at(cls, location: Path) -> History:
        """Of the pipeline whose `checkpoint.location` this is."""
        return cls(location / NAME)

    def checkpoints(self, limit: int = 50, before: int | None = None) -> tuple[Checkpoint, ...]:
        """Newest first. `before`: the `seq` of the last one of the page before this one."""
        with self._asked() as ask:
            where, values = ("WHERE seq < ?", [before]) if before is not None else ("", [])
            found = ask(f"{rows.CHECKPOINT} {where} ORDER BY seq DESC LIMIT ?", *values, limit)
            return _with_sinks(ask, found)

    def checkpoint(self, checkpoint_id: int, incarnation: str | None = None) -> Detail | None:
        """One, whole; None if it is not there (any more). Without `incarnation`, of the newest life that has it."""
        with self._asked() as ask:
            life = ask("SELECT life FROM life WHERE ? IN (incarnation, '') ORDER BY life DESC", incarnation or "")
            numbers = [each["life"] << LIFE_BITS | checkpoint_id for each in life]
            found = next((row for seq in numbers if (row := ask(f"{rows.CHECKPOINT} WHERE seq = ?", seq))), [])
            if not found:
                return None
            checkpoint = _with_sinks(ask, found)[0]
            kept = ask("SELECT ranges, acknowledgements, lag FROM detail WHERE seq = ?", checkpoint.seq)
            aborted = ask(f"{rows.ABORTED} WHERE seq = ? ORDER BY epoch, attempt", checkpoint.seq)
            return rows.detail(
                checkpoint,
                kept[0] if kept else None,
                tuple(map(rows.aborted, aborted)),
                _rules(ask, checkpoint.seq),
                _state(ask, checkpoint.seq),
            )

    def rules(self) -> tuple[RuleCount, ...]:
        """Rows by rule of each step, over all checkpoints since the history began."""
        with self._asked() as ask:
            return _rules(ask, SINCE_BEGUN)

    def state(self) -> StateSize | None:
        """State after the newest checkpoint of this incarnation whose state is known, or None."""
        incarnation = f"(SELECT MAX(seq) >> {LIFE_BITS} FROM checkpoint)"
        newest = f"SELECT MAX(seq) AS seq FROM state WHERE seq >> {LIFE_BITS} = {incarnation}"
        with self._asked() as ask:
            seq = next((each["seq"] for each in ask(newest)), None)
            return StateSize(seq & (1 << LIFE_BITS) - 1, _state(ask, seq)) if seq is not None else None

    def summary(self, newest: int = NEWEST) -> Summary:
        """Figures over the newest so many checkpoints."""
        return summarize(self.checkpoints(newest))

    def series(self, since: float, until: float, width_s: float) -> tuple[Bucket, ...]:
        """For charts, oldest first: a bucket for each `width_s` that touches [since, until), also where nothing was."""
        means = ", ".join(f"AVG({column}) AS {column}" for column in PHASE_COLUMNS)
        with self._asked() as ask:
            found = ask(
                "SELECT CAST(decided_at / ? AS INTEGER) AS number, COUNT(*) AS checkpoints, "
                "COALESCE(SUM(records), 0) AS records, "
                "SUM(rows) AS rows, SUM(bytes) AS bytes, MAX(lag) AS lag, "
                f"AVG({_DURATION}) AS duration_s, MAX({_DURATION}) AS max_duration_s, {means} "
                "FROM checkpoint WHERE decided_at >= ? AND decided_at < ? GROUP BY number",
                width_s,
                since,
                until,
            )
            buckets = {each["number"]: rows.bucket(each, width_s) for each in found}
            measured = ask(
                "SELECT CAST(at / ? AS INTEGER) AS number, MAX(records) AS records "
                "FROM lag WHERE at >= ? AND at < ? GROUP BY number",
                width_s,
                since,
                until,
            )
            for each in measured:  # also where no checkpoint completed
                number, records = each["number"], each["records"]
                bucket = buckets.get(number, Bucket(number * width_s, width_s))
                buckets[number] = replace(bucket, lag=max(records, bucket.lag or 0))
            return filled(buckets, since, until, width_s)

    def events(self, limit: int = 50, before: int | None = None, kinds: Sequence[EventKind] = ()) -> tuple[Event, ...]:
        """Newest first; of these kinds, or of all. `before`: the `seq` of the last one of the page before this one."""
        wanted = f"kind IN ({', '.join('?' * len(kinds))})" if kinds else "1"
        with self._asked() as ask:
            found = ask(
                f"SELECT * FROM event WHERE {wanted} AND seq < ? ORDER BY seq DESC LIMIT ?",
                *kinds,
                before if before is not None else 2**62,
                limit,
            )
            return tuple(map(rows.event, found))

    def aborted(self, limit: int = 50) -> tuple[AbortedAttempt, ...]:
        """Tries of any checkpoint, also of one that is not decided yet; newest first."""
        with self._asked() as ask:
            return tuple(map(rows.aborted, ask(f"{rows.ABORTED} ORDER BY aborted_at DESC LIMIT ?", limit)))

    def runs(self, limit: int = 20) -> tuple[Run, ...]:
        """Newest first."""
        with self._asked() as ask:
            return tuple(map(rows.run, ask("SELECT * FROM run ORDER BY started_at DESC LIMIT ?", limit)))

    def killed(self, living: Collection[str], limit: int = 20) -> tuple[KilledRun, ...]:
        """Return the runs without an end, newest first, except the `living` ones (ids)."""
        with self._asked() as ask:
            found = ask(rows.KILLED, *_ENDED, limit + len(living))
            return tuple(rows.killed(row) for row in found if row["run_id"] not in living)[:limit]

    def totals(self) -> Totals:
        """Since the history began; what was left out of it since, for its age, counts."""
        with self._asked() as ask:
            skipped = f"(SELECT COALESCE(SUM(skipped.records), 0) FROM skipped WHERE seq = {SINCE_BEGUN}) AS skipped"
            found = ask(f"SELECT *, {skipped} FROM total")
            return Totals(**found[0]) if found else Totals()

    @contextmanager
    def _asked(self) -> Iterator[_Ask]:
        with connected_to_read(self.path) as connection:

            def ask(statement: str, /, *values: object) -> list[Row]:
                if connection is None:
                    return []
                cursor = connection.execute(statement, values)
                names = [each[0] for each in cursor.description]
                return [dict(zip(names, each, strict=True)) for each in cursor]

            yield ask


class _Ask(Protocol):
    """Sends one statement, and returns its rows."""

    def __call__(self, statement: str, /, *values: object) -> list[Row]:
        """`values`: of its question marks."""


def _rules(ask: _Ask, seq: int) -> tuple[RuleCount, ...]:
    found = ask("SELECT * FROM expectation WHERE seq = ? ORDER BY step, rule", seq)
    return tuple(map(rows.rule, found))


def _state(ask: _Ask, seq: int) -> tuple[StateOperator, ...]:
    return tuple(map(rows.state, ask("SELECT * FROM state WHERE seq = ? ORDER BY number", seq)))


def _with_sinks(ask: _Ask, found: Sequence[Row]) -> tuple[Checkpoint, ...]:
    if not found:
        return ()
    first, last = found[-1]["seq"], found[0]["seq"]
    shares: dict[int, list[Row]] = {}
    for each in ask("SELECT * FROM sink WHERE seq BETWEEN ? AND ?", first, last):
        shares.setdefault(each["seq"], []).append(each)
    return tuple(replace(rows.checkpoint(each), sinks=rows.sinks(shares.get(each["seq"], []))) for each in found)


@dataclass(frozen=True, slots=True)
class SinkStats:
    """Rows and durations of a sink in some checkpoints."""

    sink: str
    checkpoints: int
    rows: int
    bytes: int
    committed_at: float | None  # the newest that is known


def shares(location: Path) -> tuple[SinkStats, ...]:
    """What each sink had of all the checkpoints that the history keeps. Raises HistoryError."""
    return _sums(location, f"SELECT {_SUMS} FROM sink GROUP BY sink")


def waiting(location: Path, incarnation: str, committed: int) -> tuple[SinkStats, ...]:
    """What of it is not visible in the sink yet: of this life's checkpoints above `committed`. Raises HistoryError."""
    statement = (
        f"SELECT {_SUMS} FROM sink JOIN life ON life = seq >> {LIFE_BITS} "
        f"WHERE incarnation = ? AND (seq & {(1 << LIFE_BITS) - 1}) > ? AND committed_at IS NULL GROUP BY sink"
    )
    return _sums(location, statement, incarnation, committed)


def _sums(location: Path, statement: str, *values: object) -> tuple[SinkStats, ...]:
    with connected_to_read(location / NAME) as connection:
        return () if connection is None else tuple(SinkStats(*row) for row in connection.execute(statement, values))
