"""Debezium reads a table of PostgreSQL, and it becomes equal in PostgreSQL and in MariaDB. Everything is killed."""

from __future__ import annotations

import datetime as dt
import json
import random
import struct
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest
import sqlalchemy

from integration_tests.conftest import TopicFactory
from integration_tests.harness.drain import await_text, drain
from integration_tests.harness.kills import kill_at
from integration_tests.harness.pipeline import Pipeline
from integration_tests.services import Services
from integration_tests.services.debezium_native import PostgresDebezium
from integration_tests.services.postgres_native import Postgres

pytestmark = [pytest.mark.in_turns, pytest.mark.any_server]

_ORIGINAL: Final = (
    "id BIGINT PRIMARY KEY, small SMALLINT, n INT, price NUMERIC(38,10) NOT NULL, free NUMERIC, single REAL,"
    " ratio FLOAT8, ok BOOLEAN, day DATE, at TIMESTAMP(6), moment TIMESTAMPTZ, hours TIME(6), token UUID, doc JSONB,"
    " raw BYTEA, mood mood, bits BIT(12), place POINT, txt TEXT"
)
_DDL: Final = (
    "id BIGINT NOT NULL, small SMALLINT, n BIGINT, price DECIMAL(38,10) NOT NULL, free DECIMAL(38,12), single FLOAT,"
    " ratio DOUBLE, ok BOOLEAN, day DATE, at TIMESTAMP_NTZ, moment TIMESTAMP, hours STRING, token STRING, doc STRING,"
    " raw BINARY, mood STRING, bits BINARY, place STRUCT<wkb: BINARY>, txt STRING"
)
_NAMES: Final = [each.split()[0] for each in _ORIGINAL.replace("(38,10)", "").split(",")]
_STEP: Final = f"SELECT {', '.join(_NAMES)}, _deleted, _partition, _offset FROM incoming".replace(
    "place,", "place.wkb AS place,"
)
_POSTGRES: Final = (
    "id BIGINT PRIMARY KEY, small SMALLINT, n BIGINT, price NUMERIC(38,10), free NUMERIC(38,12), single REAL,"
    " ratio FLOAT8, ok BOOLEAN, day DATE, at TIMESTAMP(6), moment TIMESTAMPTZ, hours TEXT, token UUID, doc JSONB,"
    " raw BYTEA, mood TEXT, bits BYTEA, place BYTEA, txt TEXT"
)
_MARIADB: Final = (
    "id BIGINT PRIMARY KEY, small SMALLINT, n BIGINT, price DECIMAL(38,10), free DECIMAL(38,12), single FLOAT,"
    " ratio DOUBLE, ok BOOLEAN, day DATE, at DATETIME(6), moment DATETIME(6), hours VARCHAR(20), token VARCHAR(36),"
    " doc LONGTEXT, raw LONGBLOB, mood VARCHAR(10), bits VARBINARY(8), place VARBINARY(40), txt LONGTEXT"
)
_HOURS: Final = {"hours": "to_char(hours, 'HH24:MI:SS.US')"}  # with all decimals, as a copy has it
_KEYS: Final = 150


class _Server(Postgres):
    kind = "postgres-logical"
    wanted_port = "15439"

    @property
    def settings(self) -> Sequence[str]:
        return (*super().settings, "wal_level=logical", "max_replication_slots=4")


class Original:
    """The table, changed at random by SQL."""

    def __init__(self, url: str, seed: int) -> None:
        self._engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT")
        self._chance = random.Random(seed)
        self.changes = 0
        self.execute("CREATE TYPE mood AS ENUM ('calm', 'glad ü')", f"CREATE TABLE original ({_ORIGINAL})")
        self.execute("ALTER TABLE original REPLICA IDENTITY FULL")

    def execute(self, *statements: str) -> list[Any]:
        """Run statements on one connection, and return the rows of the last one."""
        found: list[Any] = []
        with self._engine.connect() as connection:
            for each in statements:
                result = connection.execute(sqlalchemy.text(each))
                found = list(result) if result.returns_rows else []
        return found

    def change(self, count: int) -> None:
        """Insert, update and delete rows, and change keys; in transactions of some statements."""
        for _ in range(count):
            made = [self._change(self._chance.randrange(_KEYS)) for _ in range(self._chance.randrange(1, 4))]
            ends_well = self._chance.random() < 0.9
            self.execute("BEGIN", *made, "COMMIT" if ends_well else "ROLLBACK")
            self.changes += len(made) if ends_well else 0

    def _change(self, key: int) -> str:
        kind = self._chance.random()
        if kind < 0.5:
            values = self._values()
            updates = ", ".join(f"{name} = EXCLUDED.{name}" for name in values)
            columns = f"id, {', '.join(values)}"
            rows = f"{key}, {', '.join(values.values())}"
            return f"INSERT INTO original ({columns}) VALUES ({rows}) ON CONFLICT (id) DO UPDATE SET {updates}"
        if kind < 0.75:
            return f"UPDATE original SET price = price + 1.25, at = NULL, txt = 'ü {kind}' WHERE id = {key}"
        if kind < 0.88:
            return f"DELETE FROM original WHERE id = {key}"
        other = self._chance.randrange(_KEYS, 2 * _KEYS)
        free = f"NOT EXISTS (SELECT 1 FROM original WHERE id = {other})"
        return f"UPDATE original SET id = {other} WHERE id = {key} AND {free}"

    def _values(self) -> dict[str, str]:
        number = self._chance.randrange(-(10**9), 10**9)
        at = f"2024-02-29 {self._chance.randrange(24):02}\\:59\\:59.{self._chance.randrange(10**6):06}"
        return {
            "small": str(number % 32_768),
            "n": str(number),
            "price": f"{number}12345678901234567.0123456789",
            "free": f"{number}.{abs(number):012}",
            "single": str(number % 1000 / 4),
            "ratio": f"{number}.125",
            "ok": "TRUE" if number % 2 else "NULL",
            "day": "'0001-01-01'" if number % 7 == 0 else "'9999-12-31'",
            "at": f"'{at}'",
            "moment": f"'{at}+13'",
            "hours": f"'{at[11:]}'",
            "token": f"'00000000-0000-4000-8000-{number % 10**12:012}'",
            "doc": f'\'{{"a"\\: [{number}, null, "ü"]}}\'',
            "raw": f"'\\x00ff{number % 100:02}'",
            "mood": "'glad ü'",
            "bits": f"B'{number % 4096:012b}'",
            "place": f"'({number / 8},{-number / 4})'",
            "txt": f"'{'long ' * (1000 * (number % 5))}'",
        }


def _rows(rows: Iterable[Sequence[Any]]) -> list[dict[str, Any]]:
    """Return rows by their key, with values in one form."""
    found = sorted((tuple(map(_plain, row)) for row in rows), key=lambda row: row[0])
    return [dict(zip(_NAMES, row, strict=True)) for row in found]


def _plain(value: Any) -> Any:
    match value:
        case Decimal() | float():
            return f"{Decimal(value):f}".rstrip("0").rstrip(".") if value % 1 else f"{Decimal(value):.0f}"
        case bool():
            return int(value)
        case memoryview() | bytes():
            return bytes(value).hex()
        case dt.datetime():
            return value.astimezone(dt.UTC).replace(tzinfo=None).isoformat() if value.tzinfo else value.isoformat()
        case dict() | list():
            return json.dumps(value)
        case _:
            return str(value) if value is not None and not isinstance(value, int) else value


def _of_original(row: Sequence[Any]) -> list[Any]:
    """Return the row with bits and points as bytes, as the copies have them."""
    named = dict(zip(_NAMES, row, strict=True))
    if named["bits"] is not None:
        named["bits"] = int(named["bits"], 2).to_bytes(2, "little").rstrip(b"\0")  # as Debezium writes them
    if named["place"] is not None:
        x, y = map(float, named["place"].strip("()").split(","))
        named["place"] = b"\x01" + struct.pack("<Idd", 1, x, y)
    return list(named.values())


def _selected(*as_text: str, **expressions: str) -> str:
    """Return the columns for a statement of PostgreSQL's. `expressions`: in place of some."""
    casts = {name: f"{name}::text" for name in as_text} | expressions
    return ", ".join(casts.get(name, name) for name in _NAMES)


@pytest.fixture
def server() -> Iterator[_Server]:
    server = _Server()
    server.up()
    yield server
    server.down()


@pytest.mark.timeout(900)
def test_a_table_of_postgresql_is_equal_in_two_databases(
    pipeline: Pipeline,
    services: Services,
    topic: TopicFactory,
    postgres_database: str,
    server: _Server,
    tmp_path: Path,
) -> None:
    """Pipeline, Debezium and the server are killed, a column is added and another one widened."""
    name = f"eos_{random.SystemRandom().randrange(10**9)}"
    admin = server.admin_url.rpartition("/")[0]
    engine = sqlalchemy.create_engine(server.admin_url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text(f"CREATE DATABASE {name}"))
    engine.dispose()
    original = Original(f"{admin}/{name}", 51)
    pipeline.table.execute(f"CREATE TABLE copied ({_MARIADB}) CHARSET utf8mb4")
    target = sqlalchemy.create_engine(postgres_database, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT")
    with target.connect() as connection:
        connection.execute(sqlalchemy.text(f"CREATE TABLE copied ({_POSTGRES})"))
    topic_name = f"{name}.public.original"
    pipeline.source.update(topics=[topic_name], format={"type": "debezium", "schema": _DDL})
    pipeline.spec["checkpoint"]["max_records_per_checkpoint"] = 200
    pipeline.spec["dead_letter"] = {
        "connector": "kafka",
        "bootstrap_servers": services.kafka_bootstrap,
        "topic": topic(partitions=1),
    }
    pipeline.spec["transforms"] = [{"name": "rows", "sql": _STEP}]
    merged = {"from": "rows", "table": "copied", "commit": "upsert", "key": ["id"], "deleted": "_deleted"}
    pipeline.spec["sinks"] = [
        {"name": "mariadb", "connector": "mysql", "url": "${env:SINK_URL}", **merged},
        {"name": "postgresql", "connector": "postgresql", "url": postgres_database, **merged},
    ]
    original.change(100)
    folder = tmp_path / "debezium"
    folder.mkdir()
    url = f"{admin}/{name}".replace("postgresql+psycopg", "postgresql")
    settings = {"table.include.list": "public.original"}
    with PostgresDebezium(folder, services.kafka_bootstrap, url, name, settings) as debezium:
        await_text(services.kafka_bootstrap, topic_name, '"op":"r"')
        original.change(200)
        kill_at(pipeline, "before-decide", "after-decide")
        original.execute("ALTER TABLE original ADD COLUMN more INT DEFAULT 5")
        original.change(100)
        original.execute("ALTER TABLE original ALTER COLUMN n TYPE BIGINT")
        original.execute(f"INSERT INTO original (id, price, n) VALUES (998, 1, {2**40})")
        original.change(100)
        debezium.kill()
        server.kill()
        server.up()
        original.change(100)
        kill_at(pipeline, "applying")
        debezium.start()
        original.execute("INSERT INTO original (id, price, txt) VALUES (999, 1, 'the last one')")
        await_text(services.kafka_bootstrap, topic_name, "the last one")
    pipeline.catch_up()
    letters = drain(services.kafka_bootstrap, pipeline.spec["dead_letter"]["topic"])
    assert [each.reason for each in letters] == []
    found = original.execute(f"SELECT {_selected('token', 'doc', 'mood', 'bits', 'place', **_HOURS)} FROM original")
    expected = _rows(map(_of_original, found))
    with target.connect() as connection:
        in_postgres = _rows(connection.execute(sqlalchemy.text(f"SELECT {_selected('token', 'doc')} FROM copied")))
    in_mariadb = _rows(pipeline.table.execute(f"SELECT {', '.join(_NAMES)} FROM copied"))
    assert len(expected) > 50
    assert original.changes > 800
    assert in_postgres == expected
    assert in_mariadb == expected
    assert pipeline.prepared() == []
