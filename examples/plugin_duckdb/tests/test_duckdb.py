"""The DuckDB sink, by the tests that ship with eos-spark, and names that hurt careless code."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from eos_duckdb.entry import DuckDbEntry
from eos_duckdb.store import DuckDbStore, quoted

from eos import EosError
from eos.testing import TokenStoreCompliance

_HOSTILE = 'rows"; DROP TABLE eos_token; --'


class TestDuckDb(TokenStoreCompliance):
    """Every test of a sink, and every test of a store with a token."""

    events = 10  # each opens the file several times

    def make_store(self, folder: Path, schema: pa.Schema) -> DuckDbStore:
        with duckdb.connect(str(folder / "target.duckdb")) as database:
            database.register("wanted", schema.empty_table())
            database.execute(f"CREATE TABLE {quoted(_HOSTILE)} AS SELECT * FROM wanted")
        return DuckDbStore(folder / "target.duckdb", _HOSTILE)

    def read(self, store: DuckDbStore) -> pa.Table:
        with duckdb.connect(str(store.path)) as database:
            return database.sql(f"SELECT * FROM {quoted(store.table)}").to_arrow_table()


@pytest.mark.parametrize("name", ["md:target.duckdb", "a 'b' \"c\"; --.duckdb", ":memory:"])
def test_a_path_is_a_file_whatever_its_name(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = DuckDbStore(Path(name), "t", create=True)
    column = 'it"s; --'
    rows = pa.record_batch([pa.array([1, 2])], names=[column])
    assert store.apply("s", "", "one", iter([rows]))
    assert store.applied("s") == "one"
    assert (tmp_path / name).is_file()
    with duckdb.connect(str(tmp_path / name)) as database:
        assert database.execute(f"SELECT sum({quoted(column)}) FROM t").fetchall() == [(3,)]


def test_a_table_that_does_not_fit_is_found_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "t.duckdb"
    with duckdb.connect(str(path)) as database:
        database.execute("CREATE TABLE t (n INTEGER, text VARCHAR UNIQUE, must INTEGER NOT NULL)")
    rows = pa.schema([("n", pa.int64()), ("text", pa.string()), ("more", pa.string())])
    table, constraints = DuckDbStore(path, "t").check(rows)
    assert (table.ok, table.fatal) == (False, True)
    for part in ("column n is INTEGER, the rows need BIGINT", "no column more", "column must is NOT NULL"):
        assert part in table.detail
    assert (constraints.ok, constraints.fatal) == (False, False)
    (missing,) = DuckDbStore(path, "other").check(rows)
    assert (missing.ok, missing.remedy) == (False, "create it, or set `create: if-missing`")


def test_a_file_that_another_process_holds_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eos_duckdb.store._TURN_S", 60.0)
    path = tmp_path / "t.duckdb"
    script = "import duckdb, sys, time; duckdb.connect(sys.argv[1]); print('open', flush=True); time.sleep(1)"
    with subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        assert DuckDbStore(path, "t", create=True).applied("s") == ""


def test_a_file_of_another_program_loads_no_extension(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB would download native code for a file of SQLite."""
    with sqlite3.connect(tmp_path / "t.db") as database:
        database.execute("CREATE TABLE t (n INTEGER)")
    monkeypatch.setattr("eos_duckdb.store._TURN_S", 0.1)
    with pytest.raises(EosError) as refused:
        DuckDbStore(tmp_path / "t.db", "t").check(None)
    assert "download" not in refused.value.message


def test_a_view_of_the_file_reads_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("private")
    with duckdb.connect(str(tmp_path / "t.db")) as database:
        text = str(tmp_path / "key.pem")
        database.execute(f"CREATE VIEW eos_token AS SELECT 's' slot, content token FROM read_text('{text}')")
    with pytest.raises(EosError):
        DuckDbStore(tmp_path / "t.db", "t").applied("s")


@pytest.mark.parametrize("table", ["eos_token", "EOS_Token", "eos_rows"])
def test_the_tables_of_the_connector_are_no_targets(tmp_path: Path, table: str) -> None:
    with pytest.raises(ValueError, match="of this connector's own"):
        DuckDbEntry(name="out", connector="duckdb", path=tmp_path / "t.db", table=table)


def _prepare(path: Path, *statements: str) -> None:
    with duckdb.connect(str(path)) as database:
        for statement in statements:
            database.execute(statement)


def test_names_are_compared_as_duckdb_compares_them(tmp_path: Path) -> None:
    """DuckDB keeps the case of a name, quoted or not, and ignores it where it looks for one."""
    path = tmp_path / "t.duckdb"
    _prepare(path, 'CREATE TABLE "Orders" ("Id" BIGINT NOT NULL, "ORDER" VARCHAR, "Select" VARCHAR)')
    rows = pa.record_batch([pa.array([1]), pa.array(["a"]), pa.array(["b"])], names=["id", "order", "SELECT"])
    store = DuckDbStore(path, "oRDERS")
    table, constraints = store.check(rows.schema)
    assert (table.ok, table.detail) == (True, "oRDERS takes the rows")
    assert "NOT NULL" in constraints.detail
    assert store.apply("s", "", "one", iter([rows]))
    with duckdb.connect(str(path)) as database:
        assert database.execute('FROM "Orders"').fetchall() == [(1, "a", "b")]


def test_letters_beyond_ascii_keep_their_case(tmp_path: Path) -> None:
    _prepare(tmp_path / "t.duckdb", 'CREATE TABLE "É" (n BIGINT)')
    (missing,) = DuckDbStore(tmp_path / "t.duckdb", "é").check(pa.schema([("n", pa.int64())]))
    assert missing.detail == "é does not exist"


@pytest.mark.parametrize("create", [False, True])
def test_two_columns_that_are_one_in_duckdb_are_refused(tmp_path: Path, create: bool) -> None:
    """DuckDB would write the values of the first one into both."""
    _prepare(tmp_path / "t.duckdb", *([] if create else ["CREATE TABLE t (a BIGINT, a_1 BIGINT)"]))
    store = DuckDbStore(tmp_path / "t.duckdb", "t", create=create)
    (table,) = store.check(pa.schema([("A", pa.int64()), ("b", pa.int64()), ("a", pa.int64())]))
    assert not table.ok
    assert table.detail == "the rows have the columns A and a, which are one name in DuckDB"


def test_a_table_of_another_schema_is_another_table(tmp_path: Path) -> None:
    path = tmp_path / "main.duckdb"  # DuckDB would take "main"."t" for a table of this file, or of the schema
    _prepare(
        path,
        'CREATE SCHEMA "Lake"',
        'CREATE TABLE "Lake".t (n VARCHAR, must INTEGER NOT NULL CHECK (must > 0))',
        "CREATE TABLE t (n BIGINT)",
    )
    rows = pa.record_batch([pa.array([1])], names=["n"])
    table, constraints = DuckDbStore(path, "t").check(rows.schema)
    assert (table.ok, constraints.detail) == (True, "none")
    other, _ = DuckDbStore(path, "t", schema="lake").check(rows.schema)
    assert "column n is VARCHAR, the rows need BIGINT" in other.detail
    (missing,) = DuckDbStore(path, "t", schema="sea").check(rows.schema)
    assert (missing.ok, missing.detail) == (False, "schema sea does not exist")
    created = DuckDbStore(path, "select", schema="LAKE", create=True)
    assert created.check(rows.schema)[0].ok
    for store, token in ((DuckDbStore(path, "t"), "one"), (created, "two")):
        assert store.apply(token, "", token, iter([rows]))
    with duckdb.connect(str(path)) as database:
        for name, count in (("main_db.main.t", 1), ('main_db."Lake".t', 0), ('main_db."Lake"."select"', 1)):
            assert database.execute(f"SELECT count(*) FROM {name}").fetchall() == [(count,)]


def test_a_schema_of_the_spec_is_a_part_of_the_target(tmp_path: Path) -> None:
    entry = {"name": "out", "connector": "duckdb", "path": tmp_path / "t.db", "table": "t"}
    main, lake = DuckDbEntry.model_validate(entry), DuckDbEntry.model_validate({**entry, "schema": "lake"})
    assert main.target != lake.target
    assert lake.target == DuckDbEntry.model_validate({**entry, "schema": "LAKE", "table": "T"}).target
    assert (main.where, lake.where) == (f"{tmp_path}/t.db, table t", f"{tmp_path}/t.db, table lake.t")
