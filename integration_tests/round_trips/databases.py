"""One table in each database: rows go in by the product's sink, and values are read by SQL."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import sqlalchemy

from connectors.api.contracts import Sink
from connectors.log.place import LogPlace
from connectors.row_bisector import RowBisector, decode_dead_letters
from connectors.sql.mysql.sink import MySqlSink
from connectors.sql.postgres.sink import PostgresSink
from connectors.sql.sqlite.sink import SqliteSink
from connectors.testing.sink_driver import new_incarnation
from integration_tests.round_trips.columns import Column
from twophase.ids import Scope, TransactionId, sink_key
from twophase.values import CommitOutcome

_MOMENT: Final = {
    "mysql": "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {0})",
    "postgresql": "EXTRACT(EPOCH FROM {0}) * 1000000",
    "sqlite": "{0}",
}
_JSON: Final = {"mysql": "{0}", "postgresql": "{0}::text", "sqlite": "{0}"}
_READ: Final[Mapping[str, Mapping[str, str]]] = {
    "DATE": {"mysql": "DATEDIFF({0}, '1970-01-01')", "postgresql": "{0} - DATE '1970-01-01'", "sqlite": "{0}"},
    "TIMESTAMP": _MOMENT,
    "TIMESTAMP_NTZ": _MOMENT,
    "FLOAT": {"mysql": "{0} * 1e0", "postgresql": "{0}::float8", "sqlite": "{0}"},
    "DECIMAL": {"mysql": "CAST({0} AS CHAR)", "postgresql": "{0}::text", "sqlite": "{0}"},
    "ARRAY": _JSON,
    "MAP": _JSON,
    "STRUCT": _JSON,
}
"""The expression that shows the values of a type without its driver's conversions; by default the column."""
_UNIX: Final = dt.datetime(1970, 1, 1)


def _micros(found: Any) -> int:
    if not isinstance(found, str):
        return int(found)
    since = dt.datetime.fromisoformat(found).replace(tzinfo=None) - _UNIX
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _days(found: Any) -> int:
    return (dt.date.fromisoformat(found) - _UNIX.date()).days if isinstance(found, str) else int(found)


_SEEN: Final[Mapping[str, Callable[[Any], Any]]] = {
    "BOOLEAN": bool,
    "DATE": _days,
    "TIMESTAMP": _micros,
    "TIMESTAMP_NTZ": _micros,
    "DECIMAL": lambda found: Decimal(str(found)),
    **dict.fromkeys(("ARRAY", "MAP", "STRUCT"), lambda found: json.loads(found)),
}
"""The form in which values are compared, of a value that SQL shows; by default the value."""


@dataclass
class Table:
    """A table `t` of one pipeline, whose sink has created it. Each `write` is a checkpoint."""

    sink: Sink
    engine: sqlalchemy.Engine
    incarnation: str = field(default_factory=new_incarnation)
    checkpoints: count[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.committer = self.sink.committer("round trips")
        self.committer.inspect(self.incarnation, ())
        self.committer.claim(self.incarnation, 1)

    def write(self, batches: Iterator[pa.RecordBatch]) -> int:
        """Write, decide and commit the rows of a checkpoint. Return how many rows are bad."""
        scope = Scope(self.incarnation, 1, next(self.checkpoints))
        self.committer.permit(scope)
        writer = self.sink.writer(TransactionId(scope, sink_key("copy"), 0, 1))
        bisector = RowBisector(10_000)
        for each in batches:
            bisector.write(writer, "copy", each.select(list(self.sink.columns)))
        prepared = writer.prepare()
        while CommitOutcome.RETRY_LATER in self.committer.commit(scope.checkpoint_id, [prepared]):
            pass
        self.committer.revoke(scope)
        letters = bisector.encode()
        return 0 if letters is None else decode_dead_letters(letters).num_rows

    def rows(self, columns: Mapping[str, Column], first: int = 0) -> dict[int, dict[str, Any]]:
        """Return what the table has, by id from `first` on: the columns that are not NULL."""
        return rows_of(self.engine, columns, first)


def rows_of(engine: sqlalchemy.Engine, columns: Mapping[str, Column], first: int = 0) -> dict[int, dict[str, Any]]:
    """Return the rows of table t by their id: the columns that are not NULL, in the form in which they are compared."""
    database, quote = engine.dialect.name, engine.dialect.identifier_preparer.quote_identifier
    shown = [_READ.get(each.base, {}).get(database, "{0}").format(quote(name)) for name, each in columns.items()]
    with engine.connect() as connection:
        statement = f"SELECT id, {', '.join(shown)} FROM t WHERE id >= {first}"
        found = connection.exec_driver_sql(statement.replace("%", "%%")).all()
    rows: dict[int, dict[str, Any]] = {}
    for number, *values in found:
        assert number not in rows, "a row twice"
        rows[number] = {
            name: _SEEN.get(each.base, lambda value: value)(bytes(value) if isinstance(value, memoryview) else value)
            for (name, each), value in zip(columns.items(), values, strict=True)
            if value is not None
        }
    return rows


def open_sink(url: str, folder: Path, schema: pa.Schema) -> Sink:
    """Return the sink of the database of an URL, opened: it creates table t."""
    match sqlalchemy.make_url(url).get_backend_name():
        case "sqlite":
            file = Path(url.removeprefix("sqlite:///"))
            return SqliteSink("copy", file, "t", log=LogPlace(folder / "log"), create=True).open(schema)
        case "mysql":
            return MySqlSink("copy", url, "t", create=True).open(schema)
    return PostgresSink("copy", url, "t", create=True).open(schema)


@contextmanager
def table_in(url: str, folder: Path, schema: pa.Schema) -> Iterator[Table]:
    """Give a new table for rows of a schema."""
    if url.startswith("sqlite"):
        Path(url.removeprefix("sqlite:///")).touch()
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    table = Table(open_sink(url, folder, schema), engine)
    try:
        yield table
    finally:
        table.committer.close()
        engine.dispose()
