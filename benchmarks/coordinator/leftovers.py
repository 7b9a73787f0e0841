"""What a driver that was killed has left: of one checkpoint, prepared by so many tasks and not decided, or decided."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from connectors.log.place import LogPlace
from connectors.sql.mysql.errors import UNKNOWN_XID, ServerError
from connectors.sql.sqlite.sink import SqliteSink
from connectors.sql.two_phase.committer import TwoPhaseCommitter
from connectors.sql.two_phase.server import Listed
from twophase.ids import Scope, TransactionId, sink_key
from twophase.values import Committable

INCARNATION = "0123456789abcdefghij"
NAME, PIPELINE = "warehouse", "scale"
_SCHEMA = pa.schema([("n", pa.int64())])


def transactions(tasks: int, sink: str = NAME, checkpoint_id: int = 0) -> list[TransactionId]:
    scope = Scope(INCARNATION, 1, checkpoint_id)
    return [TransactionId(scope, sink_key(sink), task, task) for task in range(tasks)]


class CountedServer:
    """A connection to a database that lists what it has prepared, all of it each time, as databases do.

    Of the protocol's tables it has the witnesses alone.
    """

    begin = for_share = for_update = utc_now = ""

    def __init__(self, prepared: Sequence[TransactionId], committed: Sequence[TransactionId] = ()) -> None:
        self._prepared, self._committed = set(prepared), {each.task for each in committed}
        self.asked = 0  # statements, and each transaction that one of them lists

    def execute(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        self.asked += 1
        assert "FROM eos_witness" in statement
        if len(values) == 3:  # a checkpoint's
            return [(values[2], 1, 1, task, task) for task in self._committed]
        return [(1,)] if values[5] in self._committed else []

    def prepared(self) -> list[Listed]:
        self.asked += 1 + len(self._prepared)
        return [Listed(each, str(each)) for each in self._prepared]

    def commit_prepared(self, transactions: Sequence[TransactionId]) -> list[ServerError | None]:
        return [self._end(each) for each in transactions]

    def roll_back_prepared(self, transaction: TransactionId) -> None:
        if (error := self._end(transaction)) is not None:
            raise error

    def _end(self, transaction: TransactionId) -> ServerError | None:
        self.asked += 1
        if transaction not in self._prepared:
            return ServerError(UNKNOWN_XID, "unknown XID")
        self._prepared.remove(transaction)
        return None

    def missing_commits(self, committed: Collection[TransactionId]) -> Collection[TransactionId]:
        return ()

    def unlisted(self, *_: object) -> Collection[TransactionId]:
        return ()

    def relist(self, transaction: TransactionId) -> None: ...

    def answers(self) -> bool:
        return True

    def close(self) -> None: ...

    def committer(self) -> TwoPhaseCommitter:
        """The driver's half of a sink there."""
        return TwoPhaseCommitter(NAME, PIPELINE, "here", lambda: self)  # type: ignore[arg-type,return-value]


class LeftInLog:
    """Segments of an epoch that is over, in the log of a table in SQLite, half of them not finished."""

    def __init__(self, folder: Path, tasks: int) -> None:
        with sqlite3.connect(folder / "t.db") as database:
            database.execute("CREATE TABLE t (n INTEGER)")
        self._sink = SqliteSink(NAME, folder / "t.db", "t", LogPlace(folder / "log")).open(_SCHEMA)
        self._begun = []
        for each in transactions(tasks):
            writer = self._sink.writer(each)
            writer.write(pa.RecordBatch.from_pydict({"n": [each.task]}, _SCHEMA))
            if each.task % 2:
                writer.prepare()
            else:
                self._begun.append(writer)

    def committer(self) -> Any:
        """The next driver's, once it has claimed the sink."""
        return self._sink.committer(PIPELINE)

    def close(self) -> None:
        for each in self._begun:
            each.abort()


class SharedLog:
    """So many tables in SQLite with one log."""

    def __init__(self, folder: Path, sinks: int) -> None:
        self._sinks = {}
        for name in (f"sink{number}" for number in range(sinks)):
            with sqlite3.connect(folder / f"{name}.db") as database:
                database.execute("CREATE TABLE t (n INTEGER)")
            self._sinks[name] = SqliteSink(name, folder / f"{name}.db", "t", LogPlace(folder / "log")).open(_SCHEMA)

    def prepare(self, checkpoint_id: int, tasks: int) -> dict[str, list[Committable]]:
        """What so many tasks acknowledge for each sink."""
        return {
            name: [self._prepared(sink, each) for each in transactions(tasks, name, checkpoint_id)]
            for name, sink in self._sinks.items()
        }

    def committers(self) -> dict[str, Any]:
        """A driver's."""
        return {name: sink.committer(PIPELINE) for name, sink in self._sinks.items()}

    @staticmethod
    def _prepared(sink: SqliteSink, transaction: TransactionId) -> Committable:
        writer = sink.writer(transaction)
        writer.write(pa.RecordBatch.from_pydict({"n": [transaction.task]}, _SCHEMA))
        return writer.prepare()


def decided(tasks: int) -> list[Committable]:
    return [Committable(each, rows=1) for each in transactions(tasks)]
