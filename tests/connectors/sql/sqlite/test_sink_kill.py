"""`kill -9` of a process that applies checkpoints, at any moment: the table holds what was decided, each row once.

The process under test is the driver's half alone; the decided checkpoints are handed to it as head would hand them. The
moments are random, so each kind of them is counted: a run in which nothing was interrupted cannot pass.
"""

from __future__ import annotations

import json
import random
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from connectors.dead_letters import SCHEMA as LETTERS
from connectors.log.committer import LogCommitter
from connectors.log.ledger import Share
from connectors.log.place import LogPlace
from connectors.sql import slots, tables
from connectors.sql.log import apply as apply_module
from connectors.sql.log import ledger as ledger_module
from connectors.sql.log.apply import Target
from connectors.sql.log.store import Store
from connectors.sql.sqlite.sink import SqliteSink
from connectors.sql.statements import in_transaction
from twophase.ids import Scope, TransactionId, sink_key
from twophase.values import CommitOutcome, Committable
from wal.storage import Storage
from wal.testing import files_in

INCARNATION = "k" * 20
SCHEMA = pa.schema([("checkpoint", pa.int64()), ("n", pa.int64()), ("text", pa.string())])
KILLS = 30
TASKS = 3
ROWS_PER_TASK = 2_000

Decided = dict[int, list[Committable]]

processes = get_context("forkserver")
# pandas because Arrow imports it on the way to NumPy: that would be most of the time in which a process is killed.
processes.set_forkserver_preload(["pytest", "pandas", "sqlalchemy.dialects.sqlite", "connectors.sql.sqlite.sink"])


def apply(sink: SqliteSink, decided: Decided, pipe: Pipe, broken: bool) -> None:
    """The process that is killed: recovery, as far as a sink sees it. Sends an outcome after each commit."""
    if broken:
        separate_rows_from_witness()
    committer = sink.committer("p")
    committer.inspect(INCARNATION, ())
    pipe.send("ready")
    for checkpoint_id, committables in decided.items():
        (outcome,) = set(committer.commit(checkpoint_id, committables))
        pipe.send(outcome)


def separate_rows_from_witness() -> None:
    """Make the variant that the test has to catch: rows in one transaction, the slot in the next."""
    move, whole = slots.move_slot, apply_module.apply_share

    def rows_alone(store: Store, storage: Storage, target: Target, share: Share, letters: Any) -> list[CommitOutcome]:
        outcomes = whole(store, storage, target, share, letters)
        time.sleep(0.2)  # a busy machine
        if CommitOutcome.COMMITTED in outcomes:
            with in_transaction(store):
                move(store, share.incarnation, sink_key(target.sink), share.slot, share.checkpoint_id)
        return outcomes

    variant = pytest.MonkeyPatch()  # never undone: this process ends
    variant.setattr(apply_module, "move_slot", lambda *_arguments: None)
    variant.setattr(tables, "insert_witness", lambda *_arguments: None)
    variant.setattr(ledger_module, "apply_share", rows_alone)


@dataclass
class Run:
    """A sink whose applier is killed again and again."""

    folder: Path
    broken: bool = False
    refuses: bool = False  # the table does not take three rows of each task, which are dead letters
    decided: Decided = field(default_factory=dict)
    moments: Counter[str] = field(default_factory=Counter)
    sink: SqliteSink = field(init=False)

    def __post_init__(self) -> None:
        check = ", CHECK (n % 700 <> 7)" if self.refuses else ""
        self.query(f"CREATE TABLE t (checkpoint INTEGER, n INTEGER, text TEXT{check})")
        place, database = LogPlace(self.folder / "log"), self.folder / "t.db"
        letters = SqliteSink("dead_letter", database, "letters", place, create=True)
        letters.open(LETTERS)
        self.sink = SqliteSink("s", database, "t", place, letters=letters, most_letters=100).open(SCHEMA)
        owner: LogCommitter = self.sink.committer("p")
        owner.inspect(INCARNATION, ())
        owner.claim(INCARNATION, 1)
        owner.permit(Scope(INCARNATION, 1, 0))

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(self.folder / "t.db")
        try:
            return connection.execute(statement).fetchall()
        finally:
            connection.close()

    def decide(self) -> None:
        """What the tasks of the next checkpoint leave."""
        checkpoint_id = len(self.decided)
        self.decided[checkpoint_id] = []
        for task in range(TASKS):
            transaction = TransactionId(Scope(INCARNATION, 1, checkpoint_id), sink_key("s"), task, checkpoint_id)
            writer = self.sink.writer(transaction)
            numbers = range(task * ROWS_PER_TASK, (task + 1) * ROWS_PER_TASK)
            columns = [[checkpoint_id] * ROWS_PER_TASK, list(numbers), [f"row {n}" for n in numbers]]
            writer.write(pa.record_batch([pa.array(each) for each in columns], schema=SCHEMA))
            self.decided[checkpoint_id].append(writer.prepare())

    def apply(self, kill_after_s: float | None) -> float:
        """One life of the applier: from the newest applied checkpoint on, until it is killed or done; in seconds."""
        ((applied,),) = self.query("SELECT checkpoint_id FROM eos_slot")
        assert isinstance(applied, int)
        due = {number: group for number, group in self.decided.items() if number >= applied}
        ours, theirs = processes.Pipe()
        process = processes.Process(target=apply, args=(self.sink, due, theirs, self.broken))
        process.start()
        theirs.close()
        assert ours.recv() == "ready"
        started = time.monotonic()
        if kill_after_s is not None:
            time.sleep(kill_after_s)  # the fault itself is random; nothing waits for the process here
            process.kill()
        process.join()
        assert process.exitcode == 0 or (kill_after_s is not None and process.exitcode == -9)
        lived_s = time.monotonic() - started
        self.note(ours)
        return lived_s

    def note(self, pipe: Pipe) -> None:
        """Count at what kind of moment the applier has ended."""
        outcomes: list[CommitOutcome] = []
        try:
            while True:
                outcomes.append(pipe.recv())
        except EOFError:
            pipe.close()
        self.moments["checkpoints applied"] += outcomes.count(CommitOutcome.COMMITTED)
        self.moments["in the middle of a transaction"] += (self.folder / "t.db-journal").exists()
        ((applied,),) = self.query("SELECT checkpoint_id FROM eos_slot")
        left = {path.name.split(".")[0] for path in files_in(self.folder / "log")}
        self.moments["applied, segments not deleted"] += str(Scope(INCARNATION, 1, int(str(applied)))) in left

    def verdict(self) -> tuple[int, int]:
        """Rows lost and rows doubled, against what was decided, as multisets."""
        rows = range(TASKS * ROWS_PER_TASK)
        expected: Counter[tuple[Any, ...]] = Counter((number, n, f"row {n}") for number in self.decided for n in rows)
        found = Counter(self.query("SELECT checkpoint, n, text FROM t"))
        if self.refuses:
            assert not any(n % 700 == 7 for _, n, _ in found)
            for checkpoint_id, row in self.query("SELECT checkpoint_id, value FROM letters"):
                letter = json.loads(str(row, "utf-8"))
                assert checkpoint_id == letter["checkpoint"]
                assert letter["n"] % 700 == 7
                found[tuple(letter.values())] += 1
        return (expected - found).total(), (found - expected).total()


def lives(run: Run) -> Iterator[None]:
    """Decide a checkpoint, start the applier, kill it at a random moment of about one and a half checkpoints; again."""
    chance = random.Random(7)
    run.decide()
    one_checkpoint_s = run.apply(kill_after_s=None)
    for _ in range(KILLS):
        run.decide()
        run.apply(kill_after_s=chance.uniform(0, 1.5 * one_checkpoint_s))
        yield
    run.apply(kill_after_s=None)


def test_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    run = Run(tmp_path)
    assert len(list(lives(run))) == KILLS
    assert run.verdict() == (0, 0), run.moments
    assert len(run.decided) == KILLS + 1
    assert run.moments["in the middle of a transaction"] > 0, run.moments
    assert run.moments["checkpoints applied"] > 0, run.moments
    assert files_in(tmp_path / "log") == []


def test_no_refused_row_is_lost_or_a_letter_twice(tmp_path: Path) -> None:
    """Each checkpoint is applied twice, the second time between savepoints."""
    run = Run(tmp_path, refuses=True)
    assert len(list(lives(run))) == KILLS
    assert run.verdict() == (0, 0), run.moments
    assert run.query("SELECT count(*) FROM letters") == [((KILLS + 1) * 9,)]
    assert run.moments["in the middle of a transaction"] > 0, run.moments
    assert run.moments["checkpoints applied"] > 0, run.moments
    assert files_in(tmp_path / "log") == []


def test_the_test_notices_a_witness_apart_from_its_rows(tmp_path: Path) -> None:
    run = Run(tmp_path, broken=True)
    assert any(run.verdict()[1] > 0 for _ in lives(run)), run.moments
