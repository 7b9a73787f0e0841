"""What the tests of the MySQL and MariaDB sink share: a table, a sink on it, and rows to write."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from connectors.api.contracts import Writer
from connectors.sql.mysql.engine import Session
from connectors.sql.mysql.sink import MySqlSink
from connectors.sql.two_phase.committer import TwoPhaseCommitter
from eos.errors import ConnectorError
from twophase.ids import INCARNATION_LENGTH, Scope, TransactionId, sink_key
from twophase.participants import Prepared
from twophase.values import CommitOutcome, Committable

PIPELINE = "orders"

EXACT = {"MySQL": "utf8mb4_0900_bin", "MariaDB": "utf8mb4_nopad_bin"}
"""Collations by code point and without padding, by the server's name."""


def incarnation() -> str:
    """A new one, as head is born with."""
    return secrets.token_hex(INCARNATION_LENGTH)[:INCARNATION_LENGTH]


@dataclass
class Bench:
    """A sink on a table of its own, claimed for epoch 1."""

    url: str
    sink: MySqlSink
    committer: TwoPhaseCommitter
    incarnation: str = field(default_factory=incarnation)
    epoch: int = 1
    attempts: int = 0
    writers: list[Writer] = field(default_factory=list)

    def scope(self, checkpoint_id: int = 0, attempt: int = 1, epoch: int | None = None) -> Scope:
        """Of this incarnation."""
        return Scope(self.incarnation, epoch or self.epoch, checkpoint_id, attempt)

    def permitted(self, checkpoint_id: int = 0, attempt: int = 1) -> Scope:
        """A scope that may be written for."""
        scope = self.scope(checkpoint_id, attempt)
        self.committer.permit(scope)
        return scope

    def writer(self, scope: Scope, task: int = 0) -> Writer:
        """Of a further attempt of this task."""
        self.attempts += 1
        self.writers.append(self.sink.writer(TransactionId(scope, sink_key(self.sink.name), task, self.attempts)))
        return self.writers[-1]

    def prepare(self, scope: Scope, task: int, *batches: pa.RecordBatch) -> Committable:
        """Write and prepare."""
        writer = self.writer(scope, task)
        for batch in batches:
            writer.write(batch)
        return writer.prepare()

    def commit(self, *committables: Committable) -> list[CommitOutcome]:
        """As the driver does: again while the answer is "retry later" (MariaDB, a connection still closing)."""
        outcomes: dict[TransactionId, CommitOutcome] = {}
        waiting = list(committables)
        deadline = time.monotonic() + 10
        while waiting and time.monotonic() < deadline:
            answers = self.committer.commit(waiting[0].transaction.scope.checkpoint_id, waiting)
            outcomes |= {c.transaction: a for c, a in zip(waiting, answers, strict=True)}
            waiting = [c for c in waiting if outcomes[c.transaction] is CommitOutcome.RETRY_LATER]
        return [outcomes[c.transaction] for c in committables]

    def query(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Ask the server, on a connection of its own."""
        with Session(self.url) as session:
            return session.execute(statement, *values)

    def count(self) -> int:
        """Rows that everybody sees."""
        return int(self.query(f"SELECT COUNT(*) FROM {self.sink.target}")[0][0])

    def witnesses(self) -> int:
        """Witnesses that everybody sees."""
        return int(self.query("SELECT COUNT(*) FROM eos_witness")[0][0])

    def prepared(self) -> Sequence[Prepared]:
        """Our own prepared branches."""
        return [each for each in self.committer.prepared(self.incarnation) if each.transaction is not None]


_MADE: list[Bench] = []


@pytest.fixture(autouse=True)
def clean_up(request: pytest.FixtureRequest) -> Iterator[None]:
    """End what a failed test left open or prepared, before its database is dropped. Import it where `bench` is used."""
    if "database" in request.fixturenames:
        request.getfixturevalue("database")  # so that it is dropped after this
    yield
    while _MADE:
        made = _MADE.pop()
        for writer in made.writers:
            writer.abort()
        with contextlib.suppress(ConnectorError):
            made.committer.abort(made.prepared())
        made.committer.close()


def bench(url: str, columns: str, schema: pa.Schema, *, name: str = "warehouse", table: str = "rows_in") -> Bench:
    """Create the table with these column definitions and open a sink on it. Names are quoted here."""
    with Session(url) as session:
        quoted = table.replace("`", "``").replace("%", "%%")
        session.execute(f"CREATE TABLE `{quoted}` ({columns}) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4")
    sink = MySqlSink(name, url, table).open(schema)
    committer = sink.committer(PIPELINE)
    assert isinstance(committer, TwoPhaseCommitter)
    made = Bench(url, sink, committer)
    _MADE.append(made)
    committer.inspect(made.incarnation, ())
    committer.claim(made.incarnation, made.epoch)
    return made


def batch(**columns: Sequence[object]) -> pa.RecordBatch:
    """A batch with types inferred."""
    return pa.record_batch({name: pa.array(list(values)) for name, values in columns.items()})


def numbers(start: int, stop: int) -> pa.RecordBatch:
    """Rows of the one column `id`."""
    return pa.record_batch({"id": pa.array(range(start, stop), pa.int64())})


IDS = pa.schema([("id", pa.int64())])
