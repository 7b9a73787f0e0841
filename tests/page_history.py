"""A pipeline with a past, for tests of the page: a spec, a head and a history as a driver would have left them."""

from __future__ import annotations

import math
import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from connectors.dead_letter_names import COLUMNS
from connectors.dead_letters import DeadLetter, encode_headers
from connectors.kafka.splits import as_offset
from connectors.spec import Spec, load_spec
from connectors.sql.sqlite.entry import SqliteEntry
from spark_jobs.observe.history import entries
from spark_jobs.observe.history.database import NAME
from spark_jobs.observe.history.model import (
    AbortedAttempt,
    Acknowledgement,
    Checkpoint,
    Event,
    Phases,
    Run,
    SinkCommit,
    SplitLag,
)
from spark_jobs.observe.history.writer import HistoryWriter, Retention
from spark_jobs.observe.lag import Lag, SourceLag, write_lag
from twophase.codec import encode_head
from twophase.head_value import HeadValue
from twophase.in_doubt import InDoubtTransaction
from twophase.local_head import LocalHead
from twophase.values import OffsetRange

INCARNATION = "k3v9x0q2m8t4w7z1b5na"
RUN = "5f0c9e2ab1d47836"
SECRET = "geheim-7f3a"

_SPEC = """\
pipeline: {pipeline}
checkpoint: {{location: ./state, interval: 2s}}
sources:
  - name: orders
    connector: kafka
    bootstrap_servers: kafka:9092
    topics: [orders]
    format: {{type: json, schema: "id BIGINT, user STRING, amount DOUBLE"}}
    properties: {{sasl.password: "${{env:SECRET}}"}}
transforms:
  - {{name: big, sql: "SELECT id, user, amount FROM orders WHERE amount > 10"}}
sinks:
  - {{name: {sink}, from: big, connector: postgresql, url: "postgresql+psycopg://eos:${{env:SECRET}}@db/shop",
     table: {table}, commit: two-phase}}
  - {{name: archive, from: big, connector: kafka, bootstrap_servers: kafka:9092, topic: archive,
     format: json, commit: write-ahead-log}}
dead_letter: {{connector: sqlite, path: ./dead.db, table: dead, commit: write-ahead-log}}
"""


@dataclass(frozen=True, slots=True)
class Names:
    """What somebody else may have chosen."""

    pipeline: str = "orders"
    sink: str = "warehouse"
    table: str = "orders"


def spec_of(folder: Path, names: Names = Names()) -> Spec:
    """Written to the folder, and loaded."""
    path = folder / "pipeline.yaml"
    quoted = {key: _quoted(getattr(names, key)) for key in Names.__slots__}
    path.write_text(_SPEC.format(**quoted))
    return load_spec(path, {"SECRET": SECRET})


def no_sinks(_spec: Spec) -> list[InDoubtTransaction]:
    """Return the transactions of sinks that are not asked."""
    return []


def put_letters(spec: Spec, letters: Sequence[DeadLetter]) -> None:
    """Write dead letters into the table of the spec's `dead_letter`, which is created."""
    entry = spec.dead_letter
    assert isinstance(entry, SqliteEntry)
    with closing(sqlite3.connect(entry.path)) as connection, connection:
        columns = ", ".join(f'"{name}"' for name in COLUMNS)
        connection.execute(f"CREATE TABLE {entry.table} ({columns})")
        for each in letters:
            row = [encode_headers(each.headers) if name == "headers" else getattr(each, name) for name in COLUMNS]
            connection.execute(f"INSERT INTO {entry.table} VALUES ({', '.join('?' * len(row))})", row)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def live_through(spec: Spec, now: float, checkpoints: int = 420, *, seed: int = 7) -> int:
    """Write what a driver of an hour would have: a failure and a restart, two aborted tries, a slow sink at the end.

    Returns the id of the newest checkpoint. Everything was decided before `now`.
    """
    chance = random.Random(seed)
    location = spec.checkpoint.folder
    location.mkdir(parents=True, exist_ok=True)
    sinks = [entry.name for entry in spec.outputs]
    every_s = 2.15
    began = now - checkpoints * every_s
    written: list[entries.Entry] = [
        Run("0d3c5a7e91b2f486", "worker-1", 4411, "0.1.0", began - 90_000, began - 50, "stopped"),
        Run(RUN, "worker-1", 20817, "0.1.0", began - 9),
        Event(began - 9, "state", "starting", run_id=RUN),
        Event(began - 1, "state", "running", run_id=RUN),
    ]
    position = [50_000.0, 48_000.0, 52_500.0]
    for number in range(checkpoints):
        written += _checkpoint(
            spec, sinks, number, began + number * every_s, position, chance, is_last=number > checkpoints - 3
        )
        if number == checkpoints // 2:
            written += _failure(began + number * every_s + 0.5, number)
    writer = HistoryWriter(location / NAME, Retention(), began)
    writer.write(written, now)
    writer.close()
    last = checkpoints - 1
    head = HeadValue(spec.pipeline, INCARNATION, 4, ("n",), completed=last, committed=last - 2, sinks=tuple(sinks))
    assert LocalHead(location).swap(None, encode_head(head))
    write_lag(location, _lag(spec, position, now - 2))
    return last


def _lag(spec: Spec, position: list[float], at: float) -> Lag:
    """Of a driver that measures so seldom that the number stays known during a test."""
    behind = (2_200, 1_200, 600)
    splits = tuple(
        SplitLag(at, "orders", f"orders/{split}", int(end) + behind[split], int(end))
        for split, end in enumerate(position)
    )
    return Lag(
        tuple(SourceLag(entry.name, at, splits, every_s=3_600.0, incarnation=INCARNATION) for entry in spec.sources)
    )


def _checkpoint(
    spec: Spec,
    sinks: list[str],
    number: int,
    at: float,
    position: list[float],
    chance: random.Random,
    *,
    is_last: bool,
) -> list[entries.Entry]:
    wave = 1 + 0.35 * math.sin(number / 23) + chance.uniform(-0.12, 0.12)
    slow = 2.6 if 150 < number < 163 else 1.0
    seconds = [0.055, 0.06, 0.42 * wave, 0.31 * wave * slow, 0.09, 0.018, 0.02 * slow, 0.11 * slow]
    plan, start, read, write, prepare, decide, wait, commit = (each * chance.uniform(0.85, 1.2) for each in seconds)
    phases = Phases(plan, start, read, write, prepare, decide, wait, commit)
    started = at + plan
    decided = started + start + read + write + prepare
    committed = decided + decide + wait + commit
    records = int(26_000 * wave)
    lag = int(4_000 * wave * slow * (1 + 4 * (slow > 1)))
    ranges = []
    for split in range(3):
        first = int(position[split])
        position[split] += records / 3
        ranges.append(OffsetRange(f"orders/{split}", first, int(position[split])))
    dead = 3 if number % 97 == 41 else 0
    rows = {sinks[0]: records * 4 // 5, sinks[1]: records * 4 // 5, sinks[2]: dead}
    commits = tuple(
        SinkCommit(
            name,
            rows[name],
            rows[name] * (64 if name == sinks[0] else 48),
            0 if not rows[name] else 4 if name != sinks[2] else 1,
            "two-phase" if name == sinks[0] else "write-ahead-log",
            None if is_last and name == sinks[1] else decided + decide + wait + commit * (0.4 + 0.3 * n),
            None if is_last and name == sinks[1] else commit * (0.4 + 0.3 * n),
        )
        for n, name in enumerate(sinks)
    )
    acknowledgements = tuple(
        Acknowledgement(
            name, task, 4 * number + task, rows[name] // 4, rows[name] * 16, decided - 0.02 * task, read, write, prepare
        )
        for name in sinks[:2]
        for task in range(4)
    )
    shares = (0.55, 0.3, 0.15)
    splits = tuple(
        SplitLag(at, "orders", each.split, as_offset(each.end) + int(lag * share), each.end)
        for each, share in zip(ranges, shares, strict=True)
    )
    found: list[entries.Entry] = []
    if number in {77, 301}:
        reason = "the server is away: Connection refused"
        found.append(AbortedAttempt(INCARNATION, number, 3, 1, at - 0.2, "SinkUnavailableError", reason))
    checkpoint = Checkpoint(
        INCARNATION, number, 4, 2 if found else 1, started, decided, records, "exactly-once", commits, f"{RUN}.0"
    )
    found.append(entries.Completed(checkpoint, {"orders": tuple(ranges)}, acknowledgements))
    whole = None if is_last else committed
    known = replace(phases, wait_s=None, commit_s=None) if is_last else phases
    skipped = {"orders": 5} if number == 77 else {}
    found.append(entries.Measured(INCARNATION, number, known, whole, acknowledgements, splits, skipped))
    if not is_last:
        found.append(entries.Committed(INCARNATION, number, committed))
    return found


def _failure(at: float, number: int) -> list[entries.Entry]:
    message = "the sink warehouse does not answer: connection to server at db failed: Connection refused"
    return [
        Event(at, "failure", message, "SinkUnavailableError", "see that the server runs", number, run_id=RUN),
        Event(at, "restart", "restarting in 1.0 s", checkpoint_id=number, delay_s=1.0, run_id=RUN),
        Event(at, "state", "restarting in 1.0 s", run_id=RUN),
        Event(at + 1, "state", "starting", run_id=RUN),
        Event(at + 3, "state", "running", run_id=RUN),
    ]
