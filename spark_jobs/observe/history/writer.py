"""Adds to a history. One thread, one process: two drivers that were started by mistake take turns."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Final, Protocol

from spark_jobs.observe.history import entries
from spark_jobs.observe.history.database import (
    LIFE_BITS,
    PHASE_COLUMNS,
    SINCE_BEGUN,
    connect_to_write,
    naming,
)
from spark_jobs.observe.history.entries import Entry
from spark_jobs.observe.history.model import AbortedAttempt, Event, RuleCount, Run
from spark_jobs.observe.history.rows import packed
from twophase.positions import total

_PRUNED_EVERY: Final = 100  # checkpoints
_DETAILS: Final = 1_000
_EVENTS: Final = 10_000
_NEWEST: Final = 100
"""Checkpoints that stay at any age: a start reports as many once more, and each must count once."""
_RUNS: Final = 1_000
_LAGS: Final = 100_000  # measurements: eleven days of one every ten seconds
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
    last = "SELECT at FROM lag ORDER BY at DESC LIMIT 1 OFFSET ?"
    run(f"DELETE FROM lag WHERE at < ? OR at <= ({last})", (oldest, _LAGS))
    (first,) = run("SELECT COALESCE(MIN(seq), 0) FROM checkpoint").fetchone()
    for table in ("sink", "detail", "aborted", "state"):
        run(f"DELETE FROM {table} WHERE seq < ?", (first,))
    for table in ("skipped", "expectation"):
        run(f"DELETE FROM {table} WHERE seq >= 0 AND seq < ?", (first,))
    size = "LENGTH(ranges) + LENGTH(acknowledgements) + COALESCE(LENGTH(lag), 0)"
    sizes = f"SELECT seq, SUM({size}) OVER (ORDER BY seq DESC) AS size FROM detail"
    run(f"DELETE FROM detail WHERE seq IN (SELECT seq FROM ({sizes}) WHERE size > ?)", (_DETAIL_BYTES,))
    last = "SELECT started_at FROM run ORDER BY started_at DESC LIMIT 1 OFFSET ?"
    run(f"DELETE FROM run WHERE started_at <= ({last})", (_RUNS,))


class _Numbered(Protocol):
    """About one checkpoint."""

    @property
    def incarnation(self) -> str: ...

    @property
    def checkpoint_id(self) -> int: ...


class HistoryWriter:
    """Open, and used by one thread. Every method may raise HistoryError: then nothing of that call was written."""

    def __init__(self, path: Path, retention: Retention, now: float) -> None:
        """Makes the file where there is none; `now`: seconds since 1970. Raises HistoryError."""
        self._path = path
        self._retention = retention
        self._connection = connect_to_write(path, now)
        self._inode = path.stat().st_ino
        self._since_pruned = _PRUNED_EVERY  # at the start as well: it may not live until the next time

    def is_in_place(self) -> bool:
        """Whether the file is still where it was: what is written to one that was taken away, nobody reads."""
        with suppress(OSError):
            return self._path.stat().st_ino == self._inode
        return False

    def write(self, added: Iterable[Entry], now: float) -> None:
        """All of it in one transaction, or nothing."""
        with naming(self._path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                for entry in added:
                    self._add(entry)
                if self._since_pruned >= _PRUNED_EVERY:
                    prune(self._connection, self._retention, now)
                    self._since_pruned = 0
                self._connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # a full disk has rolled it back already
                    self._connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Folds the log into the file, as the last one that has it open."""
        with naming(self._path):
            self._connection.close()

    def _add(self, entry: Entry) -> None:
        run, total = self._connection.execute, self._count
        match entry:
            case Run():
                run("INSERT OR REPLACE INTO run VALUES (?, ?, ?, ?, ?, ?, ?)", astuple(entry))
                total(runs=1)
            case entries.RunEnded():
                run("UPDATE run SET ended_at = ?, ended = ? WHERE run_id = ?", (entry.at, entry.ended, entry.run_id))
            case Event():
                *plain, facts, run_id, _ = (getattr(entry, name) for name in Event.__slots__)
                values = *plain, json.dumps(facts, default=str), run_id
                run("INSERT INTO event VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
                total(failures=int(entry.kind in {"failure", "fenced"}), restarts=int(entry.kind == "restart"))
            case entries.Completed():
                self._complete(entry)
            case entries.Measured():
                self._measure(entry)
            case entries.LagMeasured():
                run("INSERT OR REPLACE INTO lag VALUES (?, ?)", (entry.at, entry.records))
            case entries.Replayed():
                run("UPDATE checkpoint SET replayed = 1 WHERE seq = ?", (self._seq(entry),))
            case entries.Planned():
                run("UPDATE checkpoint SET plan_s = ? WHERE seq = ?", (entry.plan_s, self._seq(entry)))
            case entries.StateMeasured():
                found = [(self._seq(entry), *astuple(each)) for each in entry.by_operator]
                self._connection.executemany(
                    "INSERT OR REPLACE INTO state VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", found
                )
            case entries.SinkCommitted():
                values = entry.at, entry.commit_s, self._seq(entry), entry.sink
                run("UPDATE sink SET committed_at = ?, commit_s = ? WHERE seq = ? AND sink = ?", values)
            case entries.Committed():
                self._commit(entry)
            case AbortedAttempt():
                _, _, *rest = astuple(entry)
                run("INSERT OR IGNORE INTO aborted VALUES (?, ?, ?, ?, ?, ?)", (self._seq(entry), *rest))
                total(aborted=1)

    def _complete(self, entry: entries.Completed) -> None:
        found, seq = entry.checkpoint, self._seq(entry.checkpoint)
        run = self._connection.execute
        life = seq >> LIFE_BITS << LIFE_BITS, seq | (1 << LIFE_BITS) - 1  # a range of the key: nothing else is read
        (first,) = run("SELECT MIN(seq) FROM checkpoint WHERE seq BETWEEN ? AND ?", life).fetchone()
        if first is not None and seq < first:  # head still knows it, and here it was left out for its age
            return
        values = {
            "seq": seq,
            "checkpoint_id": found.checkpoint_id,
            "epoch": found.epoch,
            "attempt": found.attempt,
            "session": found.session,
            "started_at": found.started_at,
            "decided_at": found.decided_at,
            "records": found.records,
            "rows": found.rows,
            "bytes": found.bytes,
            "mode": found.mode,
            "replayed": 0,
        }
        columns, places = ", ".join(values), ", ".join("?" * len(values))
        statement = f"INSERT OR IGNORE INTO checkpoint ({columns}) VALUES ({places})"
        if not run(statement, tuple(values.values())).rowcount:
            return
        shares = [(seq, *astuple(each)) for each in found.sinks]
        self._connection.executemany("INSERT INTO sink VALUES (?, ?, ?, ?, ?, ?, ?, ?)", shares)
        run("INSERT INTO detail VALUES (?, ?, ?, NULL)", (seq, packed(entry.ranges), packed(entry.acknowledgements)))
        self._count(checkpoints=1, records=found.records or 0, rows=found.rows, bytes=found.bytes)
        self._since_pruned += 1

    def _measure(self, entry: entries.Measured) -> None:
        seq = self._seq(entry)
        lag = total(each.records for each in entry.lag) if entry.lag is not None else None
        values = {"committed_at": entry.committed_at, "lag": lag}
        values |= dict(zip(PHASE_COLUMNS, astuple(entry.phases), strict=True))
        known = {name: value for name, value in values.items() if value is not None}
        columns = ", ".join(f"{name} = ?" for name in known)
        if known:
            self._connection.execute(f"UPDATE checkpoint SET {columns} WHERE seq = ?", (*known.values(), seq))
        self._connection.execute(
            "UPDATE detail SET acknowledgements = ?, lag = ? WHERE seq = ?",
            (packed(entry.acknowledgements), packed(entry.lag), seq),
        )
        for source, records in entry.skipped.items():
            self._leave_out(seq, source, records)
        for rule in entry.rules:
            self._check(seq, rule)

    def _leave_out(self, seq: int, source: str, records: int) -> None:
        """Of a checkpoint once, and of all of them."""
        run = self._connection.execute
        if run("INSERT OR IGNORE INTO skipped VALUES (?, ?, ?)", (seq, source, records)).rowcount:
            more = "ON CONFLICT DO UPDATE SET records = records + excluded.records"
            run(f"INSERT INTO skipped VALUES (?, ?, ?) {more}", (SINCE_BEGUN, source, records))

    def _check(self, seq: int, rule: RuleCount) -> None:
        """Of a checkpoint once, and of all of them."""
        run, values = self._connection.execute, astuple(rule)
        if run("INSERT OR IGNORE INTO expectation VALUES (?, ?, ?, ?, ?, ?)", (seq, *values)).rowcount:
            more = "action = excluded.action, rows = rows + excluded.rows, failed = failed + excluded.failed"
            statement = f"INSERT INTO expectation VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET {more}"
            run(statement, (SINCE_BEGUN, *values))

    def _commit(self, entry: entries.Committed) -> None:
        """This one and those before it. While sinks commit behind it, a checkpoint waits for its turn there."""
        seq = self._seq(entry)
        run = self._connection.execute
        (before,) = run("SELECT committed FROM life WHERE life = ?", (seq >> LIFE_BITS,)).fetchone()
        if entry.at is not None:
            took = "(SELECT MAX(commit_s) FROM sink WHERE sink.seq = checkpoint.seq)"
            run(
                f"UPDATE checkpoint SET committed_at = ?, commit_s = {took}, "
                f"wait_s = MAX(? - decided_at - COALESCE(decide_s, 0) - {took}, 0) "
                "WHERE seq > ? AND seq <= ? AND committed_at IS NULL",
                (entry.at, entry.at, seq - entry.checkpoint_id + before, seq),
            )
        run("UPDATE life SET committed = MAX(committed, ?) WHERE life = ?", (entry.checkpoint_id, seq >> LIFE_BITS))

    def _seq(self, of: _Numbered) -> int:
        name = of.incarnation
        self._connection.execute("INSERT OR IGNORE INTO life (incarnation, committed) VALUES (?, -1)", (name,))
        (life,) = self._connection.execute("SELECT life FROM life WHERE incarnation = ?", (name,)).fetchone()
        return int(life) << LIFE_BITS | of.checkpoint_id

    def _count(self, **more: int) -> None:
        grown = {name: value for name, value in more.items() if value}
        if grown:
            sums = ", ".join(f"{name} = {name} + ?" for name in grown)
            self._connection.execute(f"UPDATE total SET {sums}", tuple(grown.values()))
