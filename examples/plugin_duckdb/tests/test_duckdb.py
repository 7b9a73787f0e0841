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
