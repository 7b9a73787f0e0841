"""What the tests of sinks of several tables share: a database of any kind, a sink on it, and a driver's calls."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import sqlalchemy

from connectors.api.table_rows import TableChange, with_table
from connectors.log.keyed import Upsert
from connectors.log.place import LogPlace
from connectors.sql.multi_table import SqlTablesSink
from connectors.sql.mysql.sink import MySqlSink
from connectors.sql.postgres.sink import PostgresSink
from connectors.sql.sqlite.sink import SqliteSink
from connectors.sql.table_settings import Route, TableSettings
from connectors.testing.sink_driver import new_incarnation
from twophase.ids import Scope, TransactionId, sink_key
from twophase.participants import Committer
from twophase.values import CommitOutcome, Committable

PLACE = [("_topic", pa.string()), ("_partition", pa.int32()), ("_offset", pa.int64())]


def batch(topic: str, key: Sequence[str], rows: Sequence[Mapping[str, Any]], **columns: pa.DataType) -> pa.RecordBatch:
    """Rows of a topic as a source gives them: `columns`, then PLACE. `rows` have at least `_offset`."""
    schema = with_table(pa.schema([*columns.items(), *PLACE]), f"{topic}.Value", tuple(key))
    return pa.RecordBatch.from_pylist([{"_topic": topic, "_partition": 0, **row} for row in rows], schema=schema)


@dataclass
class Tables:
    """One life of a pipeline that writes into several tables."""

    url: str
    log: LogPlace
    upsert: Upsert | None = field(default_factory=lambda: Upsert((), "_deleted", by_topic=True))
    route: Route = field(default_factory=lambda: Route("${topic}"))
    settings: Mapping[str, TableSettings] = field(default_factory=dict)
    create: bool = True
    evolve: bool = True
    widen: bool = False  # of a server
    rejects: bool = False
    decided: dict[int, list[Committable]] = field(default_factory=dict)  # by checkpoint, as head would hold them
    incarnation: str = field(default_factory=new_incarnation)
    epoch: int = 1
    changes: list[TableChange] = field(default_factory=list)  # that the sink has reported
    attempts: count[int] = field(default_factory=lambda: count(1))
    committer: Committer = field(init=False)
    sink: SqlTablesSink = field(init=False)

    def __post_init__(self) -> None:
        self.engine = sqlalchemy.create_engine(self.url, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT")
        self.kind = self.engine.dialect.name

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement on a connection of the test's own."""
        with self.engine.connect() as connection:
            result = connection.exec_driver_sql(statement)
            return [tuple(row) for row in result] if result.returns_rows else []

    def rows(self, table: str, columns: str = "*") -> list[tuple[Any, ...]]:
        """What everybody sees in a table, sorted."""
        quoted = self.engine.dialect.identifier_preparer.quote_identifier(table)
        return sorted(self.execute(f"SELECT {columns} FROM {quoted}"), key=str)

    def tables(self) -> set[str]:
        """The names of the tables that are no protocol tables."""
        return {name for name in sqlalchemy.inspect(self.engine).get_table_names() if not name.startswith("eos_")}

    def start(self) -> Tables:
        """Open the sink and claim it."""
        settings: dict[str, Any] = {
            "log": self.log,
            "upsert": self.upsert,
            "create": self.create,
            "evolve": self.evolve,
        }
        if self.kind == "sqlite":
            one: Any = SqliteSink("copy", Path(self.url.removeprefix("sqlite:///")), "${topic}", **settings)
        else:
            kind = PostgresSink if self.kind == "postgresql" else MySqlSink
            one = kind("copy", self.url, "${topic}", widen=self.widen, **settings)
        self.sink = SqlTablesSink(one, self.route, self.settings, self.rejects).open(pa.schema(PLACE))
        self.committer = self.sink.committer("several tables")
        self.committer.inspect(self.incarnation, ())
        self.committer.claim(self.incarnation, self.epoch)
        return self

    def write(self, number: int, tasks: Sequence[Sequence[pa.RecordBatch]]) -> list[pa.Schema]:
        """Write a checkpoint by one attempt, a list of batches for each task. Returns the schemas that are wanted."""
        scope = Scope(self.incarnation, self.epoch, number, next(self.attempts))
        self.committer.permit(scope)
        sink = pickle.loads(pickle.dumps(self.sink))  # as it travels to the tasks
        prepared: list[Committable] = []
        wanted: list[pa.Schema] = []
        for task, batches in enumerate(tasks):
            writer = sink.writer(TransactionId(scope, sink_key("copy"), task, next(self.attempts)))
            for each in batches:
                for rows in sink.rows_by_table(each):
                    writer.write(rows)
            wanted += writer.wanted
            if writer.wanted:
                writer.abort()
            else:
                prepared.append(writer.prepare())
        self.decided[number] = prepared
        return wanted

    def checkpoint(self, number: int, *tasks: Sequence[pa.RecordBatch]) -> int:
        """Write a checkpoint, decide and commit it. Returns how many schemas the sink has learned for it."""
        wanted = self.write(number, tasks)
        if wanted:
            self.sink.learn(wanted, self.changes.append)
            assert not self.write(number, tasks)
        assert set(self.commit(number)) <= {CommitOutcome.COMMITTED}
        return len(wanted)

    def commit(self, number: int) -> Sequence[CommitOutcome]:
        """Commit a decided checkpoint."""
        return self.committer.commit(number, self.decided[number])
