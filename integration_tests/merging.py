"""What the tests of `commit: upsert` share: a table of any database, a sink on it, and a driver's calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa
import pytest
import sqlalchemy

from connectors.api.contracts import Sink, Writer
from connectors.log.keyed import Upsert
from connectors.log.place import LogPlace
from connectors.sql.mysql.sink import MySqlSink
from connectors.sql.postgres.sink import PostgresSink
from connectors.sql.sqlite.sink import SqliteSink
from connectors.testing.sink_driver import new_incarnation
from twophase.ids import Scope, TransactionId, sink_key
from twophase.participants import Committer
from twophase.values import CommitOutcome, Committable

LONG: Final = pa.int64()
EVERY: Final = pytest.mark.parametrize("kind", ["mysql", "postgresql", "sqlite"])
"""MariaDB counts as the first."""


@dataclass
class Merging:
    """A table `merged` and one life of a pipeline that merges into it."""

    url: str
    log: LogPlace
    definitions: str
    upsert: Upsert
    schema: pa.Schema
    decided: dict[int, list[Committable]] = field(default_factory=dict)  # by checkpoint, as head would hold them
    incarnation: str = field(default_factory=new_incarnation)
    table: str = "merged"
    name: str = "warehouse"
    attempts: count[int] = field(default_factory=lambda: count(1))
    committer: Committer = field(init=False)
    sink: Sink = field(init=False)

    def __post_init__(self) -> None:
        self.engine = sqlalchemy.create_engine(self.url, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT")
        self.kind = self.engine.dialect.name
        self.quoted = self.quote(self.table)
        if self.definitions:
            self.execute(f"CREATE TABLE {self.quoted} ({self.definitions})")

    def quote(self, name: str) -> str:
        """An identifier, for `execute`."""
        return self.engine.dialect.identifier_preparer.quote_identifier(name)

    @staticmethod
    def literal(value: object) -> str:
        """A value, for `execute`."""
        return f"X'{value.hex()}'" if isinstance(value, bytes) else repr(value)

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """On one connection of the test's own; values in the statements."""
        with self.engine.connect() as connection:
            results = [connection.exec_driver_sql(each) for each in statements]
            return [tuple(row) for row in results[-1]] if results[-1].returns_rows else []

    def rows(self, columns: str = "*") -> list[tuple[Any, ...]]:
        """What everybody sees there, sorted."""
        return sorted(self.execute(f"SELECT {columns} FROM {self.quoted}"), key=str)

    def make(self, url: str | None = None) -> Sink:
        """A sink on the table, not yet opened."""
        address = url or self.url
        if self.kind == "sqlite":
            return SqliteSink(self.name, Path(address.removeprefix("sqlite:///")), self.table, self.log, self.upsert)
        kind = MySqlSink if self.kind == "mysql" else PostgresSink
        return kind(self.name, address, self.table, self.log, self.upsert)

    def start(self) -> Merging:
        """Open the sink and claim it."""
        self.sink = self.make().open(self.schema)
        self.committer = self.sink.committer(f"into {self.table}")
        self.committer.inspect(self.incarnation, ())
        self.committer.claim(self.incarnation, 1)
        return self

    def writer(self, checkpoint_id: int = 0, task: int = 0) -> Writer:
        """Of a further attempt of this task."""
        scope = Scope(self.incarnation, 1, checkpoint_id, 1)
        return self.sink.writer(TransactionId(scope, sink_key(self.name), task, next(self.attempts)))

    def decide(self, checkpoint_id: int, *tasks: Sequence[Sequence[object]]) -> None:
        """Have each task write its rows, and nothing of it applied."""
        self.committer.permit(Scope(self.incarnation, 1, checkpoint_id, 1))
        self.decided[checkpoint_id] = []
        for task, rows in enumerate(tasks):
            writer = self.writer(checkpoint_id, task)
            if rows:
                writer.write(self.batch(*rows).select(list(self.sink.columns)))
            self.decided[checkpoint_id].append(writer.prepare())

    def commit(self, checkpoint_id: int) -> None:
        """Apply what is decided; all of it."""
        outcomes = self.committer.commit(checkpoint_id, self.decided[checkpoint_id])
        assert set(outcomes) <= {CommitOutcome.COMMITTED, CommitOutcome.ALREADY_COMMITTED}

    def checkpoint(self, checkpoint_id: int, *tasks: Sequence[Sequence[object]]) -> None:
        """A whole one."""
        self.decide(checkpoint_id, *tasks)
        self.commit(checkpoint_id)

    def batch(self, *rows: Sequence[object]) -> pa.RecordBatch:
        """Rows of the schema."""
        columns = list(zip(*rows, strict=True))
        arrays = [pa.array(list(c), f.type) for c, f in zip(columns, self.schema, strict=True)]
        return pa.record_batch(arrays, schema=self.schema)


class Make(Protocol):
    """Makes a table and a pipeline that merges into it."""

    def __call__(
        self, definitions: str, fields: Sequence[tuple[str, pa.DataType]], *key: str, table: str = "merged"
    ) -> Merging:
        """`fields`: of the rows, which have their place and `gone` as well. No `definitions`: no table is made."""


@pytest.fixture
def kind() -> str:
    """Of database; each test says of which."""
    raise NotImplementedError


@pytest.fixture
def make(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> Make:
    """On the database of the test's kind. Import it where it is used."""
    fixture = {"mysql": "database", "postgresql": "postgres_database"}.get(kind)
    url = request.getfixturevalue(fixture) if fixture else f"sqlite:///{tmp_path / 't.db'}"

    def made(definitions: str, fields: Sequence[tuple[str, pa.DataType]], *key: str, table: str = "merged") -> Merging:
        place = [("_partition", pa.int32()), ("_offset", LONG)]
        known = {name for name, _ in fields}
        schema = pa.schema([*fields, *(each for each in place if each[0] not in known), ("gone", pa.bool_())])
        return Merging(
            url, LogPlace(tmp_path / "log", 2 if fixture else 1), definitions, Upsert(key, "gone"), schema, table=table
        )

    return made
