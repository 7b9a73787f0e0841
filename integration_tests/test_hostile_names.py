"""Names that break naive quoting, through whole lives of every kind of table: as table, columns, sink and pipeline."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlalchemy

from connectors.api.contracts import Sink
from connectors.kafka.sink.layout import Layout
from connectors.kafka.sink.sink import KafkaSink
from connectors.log.keyed import Upsert
from connectors.log.place import LogPlace
from connectors.sql.mysql.sink import MySqlSink
from connectors.sql.postgres.sink import PostgresSink
from connectors.sql.sqlite.sink import SqliteSink
from connectors.testing.rows import SCHEMA, Row, rows
from connectors.testing.sink_driver import SinkDriver
from connectors.testing.target import Target
from eos.errors import ConnectorError, TargetError
from integration_tests.conftest import TopicFactory
from integration_tests.harness.drain import drain
from integration_tests.services import Services

_NAMES = {
    "quotes": "qu\"o'te`",
    "percent": "per%cent %s %(x)s %%",
    "colon": ":a ::text $1 ? {0}",
    "backslash": "back\\slash\\",
    "statement": '"; DROP TABLE t; --',
    "newline": "new\nli\tne",
    "unicode": "übergröße 中",
    "right to left": "\u202eabc\u202c",
}
_REFUSED = {"NUL": "a\0b", "too long": "x" * 200, "only spaces at the end": "x "}
"""Not by every server; where they are taken they have to work."""
_EMOJI = "smile \U0001f600"  # not in MySQL's names


@dataclass
class Named:
    """See Target: a table that is made by its sink, and called so in everything."""

    hostile: str
    make: Callable[..., Sink]
    query: Callable[[str], list[tuple[int, str]]]  # with {0} and {1} for the columns, {2} for the table
    log: LogPlace | None
    keyed: bool

    def sink(self, name: str) -> Sink:
        """See Target."""
        columns = {f"{self.hostile[:50]} n": "n", self.hostile: "text"}
        upsert = Upsert(("n",), "gone") if self.keyed else None
        return self.make(name, table=self.hostile, log=self.log, upsert=upsert, renamed=columns, create=True)

    def rows(self) -> Counter[Row]:
        """See Target."""
        return Counter(self.query("SELECT {0}, {1} FROM {2}"))

    def leave_foreign(self) -> None:
        """See Target."""


def _quoted(name: str, quote: str) -> str:
    return f"{quote}{name.replace(quote, quote * 2)}{quote}"


def _named(kind: str, commit: str, hostile: str, request: pytest.FixtureRequest, folder: Path) -> Named:
    log = None if commit == "two-phase" else LogPlace(folder / "log", slots=2)
    keyed = commit == "upsert"
    quote = "`" if kind == "mysql" else '"'
    names = [_quoted(each, quote) for each in (f"{hostile[:50]} n", hostile, hostile)]
    if kind == "sqlite":
        file = folder / "t.db"

        def of_file(query: str) -> list[tuple[int, str]]:
            with closing(sqlite3.connect(file)) as connection:
                return connection.execute(query.format(*names)).fetchall()

        of_file("SELECT 1")
        return Named(hostile, lambda name, **more: SqliteSink(name, file, **more), of_file, log, keyed)
    url = request.getfixturevalue("database" if kind == "mysql" else "postgres_database")
    sink = MySqlSink if kind == "mysql" else PostgresSink
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)

    def of_server(query: str) -> list[tuple[int, str]]:
        with engine.connect() as connection:  # the drivers take a statement with no values as it is
            cursor = connection.connection.cursor()
            cursor.execute(query.format(*names))
            return [(int(n), text) for n, text in cursor.fetchall()]

    return Named(hostile, lambda name, **more: sink(name, url, **more), of_server, log, keyed)


_VARIANTS = [
    *(("mysql", commit) for commit in ("two-phase", "upsert")),
    *(("postgresql", commit) for commit in ("two-phase", "upsert")),
    *(("sqlite", commit) for commit in ("write-ahead-log", "upsert")),
]
_KINDS = [
    pytest.param(*variant, marks=[] if variant[0] == "mysql" else [pytest.mark.any_server], id=" ".join(variant))
    for variant in _VARIANTS
]


def _live(target: Target, name: str) -> None:
    driver = SinkDriver(target, pipeline=name, name=name)
    driver.start()
    try:
        driver.checkpoint(0, rows(0, 3), rows(3, 5))
        driver.prepare(driver.permit(1), *rows(5, 9))
        driver.start()
        driver.checkpoint(1, rows(5, 7))
    finally:
        driver.close()
    assert target.rows() == Counter(rows(0, 7))


@pytest.mark.parametrize("name", [*_NAMES.values(), _EMOJI], ids=[*_NAMES, "emoji"])
@pytest.mark.parametrize(("kind", "commit"), _KINDS)
def test_any_name_through_a_whole_life(
    kind: str, commit: str, name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    named = _named(kind, commit, name, request, tmp_path)
    if kind == "mysql" and name == _EMOJI:
        with pytest.raises(ConnectorError):
            _live(named, name)
    else:
        _live(named, name)


_ONE_OF_EACH = [each for each in _KINDS if each.id in ("mysql two-phase", "postgresql upsert", "sqlite upsert")]


@pytest.mark.parametrize("name", _REFUSED.values(), ids=_REFUSED)
@pytest.mark.parametrize(("kind", "commit"), _ONE_OF_EACH)
def test_a_name_that_a_server_does_not_take_is_refused_whole(
    kind: str, commit: str, name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Never cut off, which would be another table, or another column."""
    errors: list[ConnectorError] = []
    try:
        _live(_named(kind, commit, name, request, tmp_path), name)
    except ConnectorError as error:
        errors.append(error)
    assert not any(error.retriable for error in errors), errors


@pytest.mark.any_server
@pytest.mark.parametrize("name", [*_NAMES.values(), _EMOJI, "a.b_c", "a_b.c"], ids=[*_NAMES, "emoji", "dots", "dashes"])
def test_any_name_of_a_pipeline_a_sink_and_a_header(
    name: str, services: Services, topic: TopicFactory, tmp_path: Path
) -> None:
    """In Kafka they stand in transactional ids, in the keys of markers, and in messages."""
    markers, target = topic(8, **{"cleanup.policy": "compact"}), topic(2)
    layout = Layout(target, key=("n",), headers={name: "text"})
    log = LogPlace(tmp_path / "log", slots=2)

    @dataclass
    class Messages:
        keyed: bool = False

        def sink(self, of: str) -> Sink:
            return KafkaSink(of, services.kafka_bootstrap, layout, log, markers=markers)

        def rows(self) -> Counter[Row]:
            found = drain(services.kafka_bootstrap, target)
            return Counter((each.json["n"], (each.headers[name] or b"").decode()) for each in found)

        def leave_foreign(self) -> None:
            """See Target."""

    _live(Messages(), name)


@pytest.mark.any_server
def test_a_header_whose_name_cannot_be_written_is_refused(
    services: Services, topic: TopicFactory, tmp_path: Path
) -> None:
    """librdkafka ends it at the NUL: it would be another header."""
    layout = Layout(topic(1), key=("n",), headers={"a\0b": "text"})
    sink = KafkaSink("out", services.kafka_bootstrap, layout, LogPlace(tmp_path / "log", slots=1))
    with pytest.raises(TargetError, match="NUL"):
        sink.open(SCHEMA)
