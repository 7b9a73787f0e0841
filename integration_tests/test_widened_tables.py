"""`evolve: add-and-widen` on real servers: stored values stay, definitions keep all but their type, and what an older
driver has prepared, or still writes, fits the wider table."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy

from connectors.log.keyed import Upsert
from connectors.log.place import LogPlace
from connectors.sql.mysql.sink import MySqlSink
from connectors.sql.postgres.sink import PostgresSink
from eos.errors import SinkUnavailableError, TargetError
from integration_tests.multi_table import Tables, batch
from integration_tests.test_made_tables import METADATA, Place

PLACES = [
    "mysql",
    "mysql log",
    pytest.param("postgres", marks=pytest.mark.any_server),
    pytest.param("postgres log", marks=pytest.mark.any_server),
]
on_a_log = pytest.mark.parametrize("place", [PLACES[1], PLACES[3]], indirect=True)
in_mysql = pytest.mark.parametrize("place", ["mysql"], indirect=True)
in_postgres = pytest.mark.parametrize("place", [PLACES[2]], indirect=True)

NARROW = pa.schema(
    [pa.field("id", pa.int32(), nullable=False), ("price", pa.decimal128(9, 2)), ("ratio", pa.float32())]
)
WIDE = pa.schema([pa.field("id", pa.int64(), nullable=False), ("price", pa.decimal128(14, 4)), ("ratio", pa.float64())])
NARROW_ROWS: list[tuple[object, ...]] = [
    (-(2**31), Decimal("-9999999.99"), 0.10000000149011612),
    (2**31 - 1, Decimal("0.01"), -3.4028234663852886e38),
    (7, None, None),
]
WIDE_ROWS: list[tuple[object, ...]] = [
    (-(2**63), Decimal("-9999999999.9999"), 0.1),
    (2**63 - 1, Decimal("0.0001"), 1.7976931348623157e308),
]


def rows(schema: pa.Schema, values: list[tuple[object, ...]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=False)) for row in values], schema)


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A database with a table of narrow types."""
    kind, _, log = request.param.partition(" ")
    servers = {"mysql": ["services"], "postgres": ["postgres"]}[kind]
    request.node.fixturenames = [*request.node.fixturenames, *servers]  # for the report
    url = request.getfixturevalue("database" if kind == "mysql" else "postgres_database")
    sink: Any = MySqlSink if kind == "mysql" else PostgresSink
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT")
    made = Place(lambda name, table, **facts: sink(name, url, table, **facts), engine, tmp_path, bool(log))
    execute(made, f"CREATE TABLE made (id INT NOT NULL, price DECIMAL(9,2), ratio {real(made)})")
    yield made
    engine.dispose()


def real(place: Place) -> str:
    return "FLOAT" if place.engine.dialect.name != "postgresql" else "REAL"


def execute(place: Place, statement: str) -> list[tuple[Any, ...]]:
    with place.engine.connect() as connection:
        result = connection.exec_driver_sql(statement.replace("%", "%%"))
        return [tuple(row) for row in result] if result.returns_rows else []


def stored(place: Place) -> set[tuple[object, ...]]:
    """The rows of the table. Servers show a double with all its digits, a float with as few as tell it from others."""
    ratio = "ratio::float8" if place.engine.dialect.name == "postgresql" else "ratio + 0e0"
    return set(execute(place, f"SELECT id, price, {ratio} FROM made"))


def kinds(place: Place, table: str = "made") -> dict[str, str]:
    """The types of the columns."""
    columns = sqlalchemy.inspect(place.engine).get_columns(table)
    return {each["name"]: re.sub(r"(INT|INTEGER|FLOAT)\(\d+\)", r"\1", str(each["type"]).upper()) for each in columns}


def widest(place: Place) -> dict[str, str]:
    server = place.engine.dialect.name == "postgresql"
    decimal = "NUMERIC" if server else "DECIMAL"
    return {"id": "BIGINT", "price": f"{decimal}(14, 4)", "ratio": "DOUBLE PRECISION" if server else "DOUBLE"}


def test_columns_are_widened_and_stored_values_stay(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "eos.sink")
    place.through(place.sink().open(NARROW), rows(NARROW, NARROW_ROWS))
    before, narrow = stored(place), kinds(place)
    assert before == set(NARROW_ROWS)
    wider = place.sink(evolve=True, widen=True)
    ahead = [each.detail for each in wider.check(WIDE) if "will change" in each.detail]
    assert len(ahead) == 1, ahead
    assert wider.dry_run(WIDE) == tuple(WIDE.names)
    assert kinds(place) == narrow
    with ThreadPoolExecutor(8) as pool:  # all look, and one of them is first
        sinks = list(pool.map(lambda _: wider.open(WIDE), range(16)))
    assert kinds(place) == widest(place)
    assert stored(place) == before
    logged = [each.getMessage() for each in caplog.records if "ALTER TABLE" in each.getMessage()]
    assert logged == [f"sink s: {ahead[0].partition('will change: ')[2]}"]
    place.through(sinks[-1], rows(WIDE, WIDE_ROWS))
    assert stored(place) == {*NARROW_ROWS, *WIDE_ROWS}
    assert not [each for each in wider.check(WIDE) if "will change" in each.detail]


def test_without_it_no_type_changes(place: Place) -> None:
    narrow = kinds(place)
    with pytest.raises(TargetError, match="'ratio'"):  # a double would be rounded there
        place.sink(evolve=True).open(WIDE)
    assert kinds(place) == narrow


def test_an_older_drivers_tasks_still_write(place: Place) -> None:
    """Its plan is for the narrower columns. A float has the same value in the wider one."""
    older = place.sink().open(NARROW)
    place.sink(evolve=True, widen=True).open(WIDE)
    place.through(older, rows(NARROW, NARROW_ROWS))
    assert stored(place) == set(NARROW_ROWS)
    place.through(place.sink(evolve=True, widen=True).open(NARROW), rows(NARROW, [(8, Decimal("1.00"), 1.5)]))
    assert kinds(place) == widest(place)
    assert len(stored(place)) == len(NARROW_ROWS) + 1


@on_a_log
def test_segments_of_before_fit_the_wider_table(place: Place) -> None:
    """Decided, and applied only when the types are wider."""
    commit = place.prepared(place.sink().open(NARROW), rows(NARROW, NARROW_ROWS))
    place.sink(evolve=True, widen=True).open(WIDE)
    commit()
    assert stored(place) == set(NARROW_ROWS)


@pytest.mark.parametrize("place", [PLACES[0], PLACES[2]], indirect=True)
def test_what_is_prepared_keeps_the_types(place: Place) -> None:
    """So recovery ends it before a sink is opened (R3)."""
    narrow = kinds(place)
    commit = place.prepared(place.sink().open(NARROW), rows(NARROW, NARROW_ROWS))
    with pytest.raises(SinkUnavailableError, match="ALTER TABLE"):
        place.sink(evolve=True, widen=True).open(WIDE)
    assert kinds(place) == narrow
    commit()
    place.sink(evolve=True, widen=True).open(WIDE)
    assert (kinds(place), stored(place)) == (widest(place), set(NARROW_ROWS))


@on_a_log
def test_a_sink_opened_while_its_server_is_away_widens_nothing(place: Place) -> None:
    known = place.sink().open(NARROW).cached_target
    assert known is not None
    narrow = kinds(place)
    place.sink(evolve=True, widen=True).open_cached(NARROW, known)
    with pytest.raises(SinkUnavailableError):
        place.sink(evolve=True, widen=True).open_cached(WIDE, known)
    assert kinds(place) == narrow


def test_drivers_of_two_specs_at_once_make_nothing_narrower(place: Place) -> None:
    """One has whole numbers, the other decimals. A statement planned before the other's would round its values."""
    whole = pa.schema([("v", pa.int64())])
    digits = pa.schema([("v", pa.decimal128(38, 10))])
    value = Decimal("1234567890.0123456789")
    for number in range(6):
        name = f"both{number}"
        execute(place, f"CREATE TABLE {name} (v INT)")
        execute(place, f"INSERT INTO {name} VALUES (7)")

        def start(schema: pa.Schema, name: str = name) -> None:
            place.sink(name, evolve=True, widen=True).open(schema)
            if schema is digits:
                execute(place, f"INSERT INTO {name} VALUES ({value})")

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(start, [whole, digits] * 4))
        assert sorted(execute(place, f"SELECT v FROM {name}")) == [(Decimal(7),), *[(value,)] * 4]
        assert kinds(place, name)["v"].endswith("(38, 10)")


@on_a_log
def test_a_key_of_whole_numbers_is_widened(place: Place) -> None:
    schema = pa.schema([("id", pa.int64()), ("price", pa.decimal128(9, 2)), *METADATA])
    execute(place, "CREATE TABLE keyed (id INT PRIMARY KEY, price DECIMAL(9,2))")
    execute(place, "INSERT INTO keyed VALUES (1, 1.00), (2, 2.00)")
    sink = place.sink("keyed", upsert=Upsert(("id",)), evolve=True, widen=True).open(schema)
    place.through(sink, rows(schema, [(1, Decimal("5.00"), 0, 0), (2**40, Decimal("6.00"), 0, 1)]))
    found = sorted(execute(place, "SELECT * FROM keyed"))
    assert found == [(1, Decimal("5.00")), (2, Decimal("2.00")), (2**40, Decimal("6.00"))]
    assert kinds(place, "keyed")["id"] == "BIGINT"


def test_a_table_that_is_learned_is_widened(place: Place) -> None:
    """By a sink of several tables, while it runs."""
    url = place.engine.url.render_as_string(hide_password=False)
    tables = Tables(url, LogPlace(place.folder / "tables"), upsert=None, widen=True).start()
    ids = [{"id": 1, "_offset": 0}], [{"id": 2**40, "_offset": 1}], [{"id": 3, "_offset": 2}]
    assert tables.checkpoint(0, [batch("t", (), ids[0], id=pa.int32())]) == 1
    assert kinds(place, "t")["id"] in ("INTEGER", "INT")
    assert tables.checkpoint(1, [batch("t", (), ids[1], id=pa.int64())]) == 1
    assert kinds(place, "t")["id"] == "BIGINT"
    assert tables.checkpoint(2, [batch("t", (), ids[2], id=pa.int32())]) == 0
    assert {row[0] for row in tables.rows("t", "id")} == {1, 2**40, 3}
    assert len(tables.rows("t")) == 3


DEFINITIONS = """\
CREATE TABLE kept (
  a INT NOT NULL DEFAULT 7 COMMENT 'of 100%, a `b` INT,\\n  \\'s \\\\ ü',
  `b``%s` SMALLINT UNSIGNED NULL DEFAULT NULL COMMENT 'INT',
  c DECIMAL(9,2) NOT NULL DEFAULT 1.50 CHECK (c > -5),
  d FLOAT NULL DEFAULT 0.5,
  n BIGINT NOT NULL AUTO_INCREMENT UNIQUE COMMENT 'number',
  t VARCHAR(80) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL DEFAULT 'x' COMMENT 'text',
  at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),
  g BIGINT GENERATED ALWAYS AS (CHAR_LENGTH(t)) STORED,
  e INT DEFAULT (CHAR_LENGTH(t)) INVISIBLE,
  KEY by_a (a)
) COMMENT 'whole'"""


@in_mysql
def test_a_definition_keeps_all_but_its_type(place: Place) -> None:
    """MODIFY COLUMN replaces a whole definition, and what it does not name is lost."""
    execute(place, DEFINITIONS)
    schema = pa.schema(
        [
            *[("a", pa.int64()), ("b`%s", pa.int32()), ("c", pa.decimal128(12, 4)), ("d", pa.float64())],
            *[("n", pa.int64()), ("t", pa.string()), ("e", pa.int64())],
        ]
    )
    ((_, before),) = execute(place, "SHOW CREATE TABLE kept")
    place.sink("kept", evolve=True, widen=True).open(schema)
    ((_, after),) = execute(place, "SHOW CREATE TABLE kept")
    expected = str(before)
    for name, types in {
        "a": (r"int(\(11\))?", "bigint"),
        "b``%s": (r"smallint(\(5\))? unsigned", "int"),
        "c": (r"decimal\(9,2\)", "decimal(12,4)"),
        "d": ("float", "double"),
        "e": (r"int(\(11\))?", "bigint"),
    }.items():
        old, new = types
        expected, changed = re.subn(rf"(?m)^  `{re.escape(name)}` {old}(?= )", f"  `{name}` {new}", expected)
        assert changed == 1, name
    display = re.compile(r"\b(int|bigint)\(\d+\)")
    wanted = display.sub(r"\1", expected).replace("DEFAULT 1.50", "DEFAULT 1.5000").replace("'1.50'", "'1.5000'")
    assert display.sub(r"\1", str(after)) == wanted
    assert after != before


@in_postgres
def test_a_column_of_postgresql_keeps_what_is_not_its_type(place: Place) -> None:
    execute(place, "CREATE DOMAIN small AS INTEGER CHECK (VALUE < 100)")
    execute(
        place,
        "CREATE TABLE kept (a INT NOT NULL DEFAULT 7, b NUMERIC(9,2) DEFAULT 1.50 CHECK (b > -5), s SERIAL,"
        " i INT GENERATED BY DEFAULT AS IDENTITY, d small)",
    )
    execute(place, "COMMENT ON COLUMN kept.a IS 'of 100%'")
    schema = pa.schema(
        [(name, pa.int64()) for name in ("a", "s", "i", "d")] + [("b", pa.decimal128(12, 4))],
    )
    place.sink("kept", evolve=True, widen=True).open(schema)
    asked = "SELECT attname, format_type(atttypid, atttypmod), attnotnull, attidentity::text FROM pg_attribute"
    found = execute(place, f"{asked} WHERE attrelid = 'kept'::regclass AND attnum > 0 ORDER BY attnum")
    assert found == [
        ("a", "bigint", True, ""),
        ("b", "numeric(12,4)", False, ""),
        ("s", "integer", True, ""),
        ("i", "integer", True, "d"),
        ("d", "small", False, ""),
    ]
    execute(place, "INSERT INTO kept DEFAULT VALUES")
    assert execute(place, "SELECT * FROM kept") == [(7, Decimal("1.5000"), 1, 1, None)]
    assert execute(place, "SELECT col_description('kept'::regclass, 1)") == [("of 100%",)]
    with pytest.raises(sqlalchemy.exc.DatabaseError, match="kept_b_check"):
        execute(place, "INSERT INTO kept (b) VALUES (-6)")


def test_what_the_server_does_not_allow_stops_the_start_with_the_statement(place: Place) -> None:
    """A foreign key of MySQL and MariaDB, a view of PostgreSQL."""
    if place.engine.dialect.name == "postgresql":
        execute(place, "CREATE VIEW shown AS SELECT id FROM made")
        statement = 'ALTER TABLE "public"."made" ALTER COLUMN "id" TYPE bigint'
    else:
        execute(place, "CREATE TABLE parent (id INT PRIMARY KEY)")
        execute(place, "ALTER TABLE made ADD FOREIGN KEY (id) REFERENCES parent (id)")
        statement = "MODIFY COLUMN `id` bigint NOT NULL"
    schema = pa.schema([("id", pa.int64())])
    narrow = kinds(place)
    with pytest.raises(TargetError, match="refuses a statement that the spec allows") as caught:
        place.sink(evolve=True, widen=True).open(schema)
    assert statement in caught.value.remedy
    assert kinds(place) == narrow


@in_mysql
def test_an_unsigned_column_holds_both(place: Place) -> None:
    """Where no whole number does, the column stays, and so does one whose type says how it is shown."""
    execute(place, "CREATE TABLE plus (a INT UNSIGNED, b BIGINT UNSIGNED, c TINYINT(1), d INT(8) ZEROFILL)")
    execute(place, "INSERT INTO plus VALUES (4294967295, 18446744073709551615, 1, 5)")
    place.sink("plus", evolve=True, widen=True).open(pa.schema([(name, pa.int64()) for name in "abcd"]))
    found = {name: kind.partition("(")[0].split()[0] for name, kind in kinds(place, "plus").items()}
    assert found == {"a": "BIGINT", "b": "BIGINT", "c": "TINYINT", "d": "INTEGER"}
    assert execute(place, "SELECT a, b FROM plus") == [(4294967295, 18446744073709551615)]
