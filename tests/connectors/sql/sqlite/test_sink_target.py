"""Does the table take the rows: asked before anything is read, and answered with every mistake and its cure."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from connectors.log.keyed import Upsert
from connectors.log.place import LogPlace
from connectors.sql.sqlite.sink import SqliteSink
from eos.errors import SinkUnavailableError, TargetError
from twophase.ids import Scope, TransactionId, sink_key

SCOPE = Scope("c" * 20, 1, 0)


def make(folder: Path, ddl: str) -> SqliteSink:
    connection = sqlite3.connect(folder / "t.db")
    connection.executescript(ddl)
    connection.close()
    return SqliteSink("s", folder / "t.db", "t", LogPlace(folder / "log"))


ROWS = pa.schema([("id", pa.int64()), ("word", pa.string()), ("_key", pa.binary()), ("_offset", pa.int64())])


def refusal(sink: SqliteSink, schema: pa.Schema = ROWS) -> str:
    with pytest.raises(TargetError) as caught:
        sink.open(schema)
    return str(caught.value)


def test_metadata_that_the_table_lacks_is_left_out(tmp_path: Path) -> None:
    sink = make(tmp_path, "CREATE TABLE t (_OFFSET INTEGER, Word TEXT, ID INTEGER, more TEXT)").open(ROWS)
    assert sink.columns == ("id", "word", "_offset")
    assert sink.partition_by is None


def test_a_missing_table_gets_its_definition(tmp_path: Path) -> None:
    sink = make(tmp_path, "CREATE TABLE ordres (id INTEGER)")
    text = refusal(SqliteSink("s", sink.path, "orders", sink.log))
    assert "table orders does not exist; did you mean ordres?" in text
    statement, _, rest = text.partition("did you mean ordres?")[2].partition("CREATE")[2].partition("; or ")
    statement = f"CREATE{statement}"
    assert statement == 'CREATE TABLE IF NOT EXISTS "orders" ("id" INTEGER, "word" TEXT)'
    assert rest == "let a run do that: create: if-missing"
    connection = sqlite3.connect(sink.path)
    connection.execute(statement)
    connection.close()
    assert SqliteSink("s", sink.path, "orders", sink.log).open(ROWS).columns == ("id", "word")


def test_every_mistake_at_once(tmp_path: Path) -> None:
    required = "must INTEGER NOT NULL, easy INTEGER NOT NULL DEFAULT 0"
    ddl = f"CREATE TABLE t (ID TEXT, wort TEXT, {required}, sum INTEGER AS (must + 1))"
    schema = pa.schema([("id", pa.int64()), ("word", pa.string()), ("sum", pa.int64())])
    text = refusal(make(tmp_path, ddl), schema)
    for part in (
        "column 'ID' (TEXT) would change values of BIGINT: declare it INTEGER",
        "column 'word' is missing in the table; did you mean 'wort'?",
        "column 'sum' of the table is generated and cannot be written",
        "column 'must' of the table is NOT NULL without a default",
    ):
        assert part in text
    assert "easy" not in text


def test_a_number_that_the_database_gives_need_not_be_in_the_rows(tmp_path: Path) -> None:
    make(tmp_path, "CREATE TABLE t (nr INTEGER PRIMARY KEY NOT NULL, id INTEGER, word TEXT)").open(ROWS)


def test_hostile_names(tmp_path: Path) -> None:
    name = 'we\'ird "t"; DROP TABLE t; -- %s ? :x'
    quoted = '"' + name.replace('"', '""') + '"'
    sink = make(tmp_path, f"DROP TABLE IF EXISTS {quoted}; CREATE TABLE {quoted} ({quoted} TEXT)")
    sink = SqliteSink("s'ink", sink.path, name, sink.log).open(pa.schema([(name, pa.string())]))
    writer = sink.writer(TransactionId(SCOPE, sink_key("s'ink"), 0, 1))
    writer.write(pa.record_batch([["x"]], names=[name]))
    one = writer.prepare()
    committer = sink.committer("pipe'line")
    committer.inspect(SCOPE.incarnation, ())
    committer.claim(SCOPE.incarnation, 1)
    committer.permit(SCOPE)
    committer.commit(0, [one])
    connection = sqlite3.connect(sink.path)
    assert connection.execute(f"SELECT * FROM {quoted}").fetchall() == [("x",)]
    connection.close()
    assert all(finding.ok for finding in sink.check(pa.schema([(name, pa.string())])))


def test_a_missing_file_is_not_created_unless_the_spec_says_so(tmp_path: Path) -> None:
    sink = SqliteSink("s", tmp_path / "none.db", "t", LogPlace(tmp_path / "log"))
    assert "none.db does not exist" in refusal(sink)
    with pytest.raises(SinkUnavailableError, match="unable to open database file"):
        sink.committer("p").inspect("c" * 20, ())
    assert list(tmp_path.iterdir()) == []


def test_a_missing_file_is_created_by_a_start_and_by_nothing_else(tmp_path: Path) -> None:
    sink = SqliteSink("s", tmp_path / "new.db", "t", LogPlace(tmp_path / "log"), create=True)
    assert sink.dry_run(ROWS) == ("id", "word")
    found = {each.check: each for each in sink.check(ROWS)}
    assert all(each.ok for each in found.values())
    assert found["database"].detail == f"{tmp_path}/new.db is missing; will be created"
    assert found["target table"].detail.startswith('t is missing; will create: CREATE TABLE IF NOT EXISTS "t"')
    assert not sink.path.exists()
    committer = sink.committer("p")
    assert committer.inspect("c" * 20, ()).claim_incarnation is None
    assert sink.path.exists()
    assert sink.open(ROWS).columns == ("id", "word")


def test_the_folder_of_a_missing_file_is_not_created(tmp_path: Path) -> None:
    """It may be a disk that is not mounted."""
    sink = SqliteSink("s", tmp_path / "disk" / "new.db", "t", LogPlace(tmp_path / "log"), create=True)
    assert "new.db cannot be created: No such file or directory" in refusal(sink)
    with pytest.raises(TargetError, match="cannot be created"):
        sink.committer("p").inspect("c" * 20, ())
    (database,) = [each for each in sink.check(ROWS) if not each.ok]
    assert database.check == "database"
    assert not (tmp_path / "disk").exists()


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "t.db").write_text("not a database, but long enough to look at\n" * 50)
    assert "file is not a database" in refusal(SqliteSink("s", tmp_path / "t.db", "t", LogPlace(tmp_path / "log")))


def failed(sink: SqliteSink, schema: pa.Schema | None = ROWS) -> Sequence[str]:
    return [finding.check for finding in sink.check(schema) if not finding.ok]


def test_doctor_is_content_and_changes_nothing(tmp_path: Path) -> None:
    sink = make(tmp_path, "CREATE TABLE t (id INTEGER, word TEXT)")
    before = (tmp_path / "t.db").read_bytes()
    assert failed(sink) == failed(sink, None) == []
    assert (tmp_path / "t.db").read_bytes() == before
    assert not (tmp_path / "log").exists()


def test_doctor_names_what_is_wrong(tmp_path: Path) -> None:
    sink = make(tmp_path, "CREATE TABLE t (id INTEGER PRIMARY KEY, word TEXT UNIQUE CHECK (word <> ''))")
    (warning,) = [finding for finding in sink.check(ROWS) if not finding.ok]
    assert (warning.check, warning.fatal) == ("constraints", False)
    assert "a primary key, unique constraints, check constraints" in warning.detail
    assert failed(SqliteSink("s", sink.path, "x", sink.log)) == ["target table"]
    assert failed(SqliteSink("s", tmp_path / "no.db", "t", sink.log)) == [
        "database",
        "own tables",
        "target table",
        "constraints",
    ]
    (tmp_path / "file").write_text("")
    assert failed(SqliteSink("s", sink.path, "t", LogPlace(tmp_path / "file")))[0] == "log folder"


def test_columns_that_the_table_calls_otherwise(tmp_path: Path) -> None:
    """Two change places, and metadata gets a name; the key is named as the rows name it."""
    sink = make(tmp_path, "CREATE TABLE t (word INTEGER PRIMARY KEY, Id TEXT, at INTEGER)")
    names = {"word": "id", "id": "word", "at": "_offset"}
    schema = ROWS.append(pa.field("_partition", pa.int32()))
    sink = SqliteSink("s", sink.path, "t", sink.log, Upsert(("id",)), names).open(schema)
    assert (sink.partition_by, set(sink.columns)) == (("id",), {"id", "word", "_offset", "_partition"})
    writer = sink.writer(TransactionId(SCOPE, sink_key("s"), 0, 1))
    rows = pa.record_batch({"id": [1, 2, 1], "word": ["a", "b", "c"], "_offset": [0, 1, 2], "_partition": [0, 0, 0]})
    writer.write(rows.select(list(sink.columns)))
    one = writer.prepare()
    committer = sink.committer("p")
    committer.inspect(SCOPE.incarnation, ())
    committer.claim(SCOPE.incarnation, 1)
    committer.permit(SCOPE)
    committer.commit(0, [one])
    connection = sqlite3.connect(sink.path)
    assert connection.execute("SELECT word, id, at FROM t ORDER BY word").fetchall() == [(1, "c", 2), (2, "b", 1)]
    connection.close()
