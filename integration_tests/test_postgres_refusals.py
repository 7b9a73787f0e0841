"""What PostgreSQL refuses is told apart: a row, a wrong address or password, a server that is away."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
import sqlalchemy

from connectors.api.contracts import DirectWriter, Sink, Writer
from connectors.log.place import LogPlace
from connectors.log.writer import LogWriter
from connectors.row_bisector import RowBisector, decode_dead_letters
from connectors.sql.postgres.engine import Session
from connectors.sql.postgres.errors import ServerError, not_connected
from connectors.sql.postgres.sink import PostgresSink
from connectors.sql.statements import in_transaction
from connectors.testing.rows import as_spark_has
from connectors.testing.sink_driver import new_incarnation
from eos.errors import BadRowError, SinkUnavailableError, TargetError
from integration_tests.services.postgres_native import Postgres
from twophase.ids import Scope, TransactionId, sink_key
from twophase.participants import Committer
from twophase.values import CommitOutcome

pytestmark = pytest.mark.any_server


def test_a_wrong_password_is_no_outage(postgres: Postgres) -> None:
    wrong = sqlalchemy.make_url(postgres.url).set(password="wrong", database="postgres")
    nowhere = sqlalchemy.make_url(postgres.url).set(database="nowhere")
    for url, said in ((wrong, "password authentication failed"), (nowhere, 'database "nowhere" does not exist')):
        sink = PostgresSink("s", url.render_as_string(hide_password=False), "t")
        with pytest.raises(TargetError, match=said):
            sink.open(pa.schema([("n", pa.int64())]))
    away = sqlalchemy.make_url(postgres.url).set(port=1, database="postgres")
    with pytest.raises(SinkUnavailableError):
        PostgresSink("s", away.render_as_string(hide_password=False), "t").open(pa.schema([("n", pa.int64())]))


@pytest.mark.parametrize("table", ["pg_class", "pg_catalog.pg_authid", "information_schema.sql_features"])
def test_no_table_of_the_server_itself_is_written(postgres_database: str, table: str) -> None:
    with pytest.raises(TargetError, match="is a table of the server's own"):
        PostgresSink("s", postgres_database, table).open(pa.schema([("oid", pa.int64())]))


def test_the_table_of_a_longer_name_is_not_found(postgres_database: str) -> None:
    """The server cuts names off after 63 bytes, also where it looks for them."""
    with sqlalchemy.create_engine(postgres_database).begin() as connection:
        connection.exec_driver_sql(f"CREATE TABLE {'t' * 63} (n BIGINT)")
    PostgresSink("s", postgres_database, "t" * 63).open(pa.schema([("n", pa.int64())]))
    with pytest.raises(TargetError, match="does not exist"):
        PostgresSink("s", postgres_database, "t" * 64).open(pa.schema([("n", pa.int64())]))


NOT_NOW = [
    "the database system is starting up",
    "the database system is not yet accepting connections\nDETAIL:  Consistent recovery state has not been yet reached",
    "the database system is shutting down",
    "sorry, too many clients already",
    "remaining connection slots are reserved for roles with the SUPERUSER attribute",
]


@pytest.mark.parametrize("text", NOT_NOW)
def test_a_server_that_refuses_for_the_moment_is_waited_for(text: str) -> None:
    refusal = psycopg.OperationalError(
        f'connection failed: connection to server at "::1", port 5432 failed: FATAL:  {text}'
    )
    assert isinstance(not_connected(refusal).connector_error("connecting"), SinkUnavailableError)


DAY = pa.date32()
MOMENT = pa.timestamp("us", "UTC")
YEAR_1 = -62_135_596_800_000_000  # microseconds
BAD: list[tuple[str, pa.DataType, list[Any], str]] = [
    ("TEXT", pa.string(), ["a", "b\0c"], "NUL"),
    ("TEXT", pa.string(), [b"a", b"a\xff"], "not UTF-8"),
    ("JSON", pa.list_(pa.string()), [[b"a"], [b"a\xff"]], "not UTF-8"),
    ("VARCHAR(5)", pa.list_(pa.int32()), [[1, 2], [1, 2, 3]], "longer than 5 characters"),
    ("SMALLINT", pa.int64(), [1, 2**15], "out of range: -32768 to 32767"),
    ("VARCHAR(2)", pa.string(), ["ab", "abc"], "longer than 2 characters"),
    ("NUMERIC(5,2)", pa.decimal128(10, 2), [Decimal("-999.99"), 1000], "no number of 5 digits, 2 behind the point"),
    ("NUMERIC(3)", pa.int64(), [-999, 1000], "no number of 3 digits, 0 behind the point"),
    ("NUMERIC(80,75)", pa.decimal128(10, 2), [Decimal("99999.99"), 100_000], "no number of 76 digits, 71 behind"),
    ("TIMESTAMPTZ", MOMENT, [YEAR_1, YEAR_1 - 1], "out of range: years 1 to 32767"),
    ("TIMESTAMP(6)", pa.timestamp("us"), [253_402_300_800_000_000, -(2**62)], "out of range: years 1 to 32767"),
    ("DATE", DAY, [YEAR_1 // 86_400_000_000, 2**27], "out of range: years 1 to 32767"),
    ("mood", pa.string(), ["it's", "sad"], "none of it's, ok"),
    ("UUID", pa.string(), ["{A0EEBC99-9c0b-4ef8-bb6d-6bb9bd380a11}", "a0eebc99"], "no UUID"),
]


@pytest.mark.parametrize(("declared", "arrow", "values", "said"), BAD, ids=[c[0] for c in BAD])
def test_what_a_log_would_never_get_rid_of_is_refused_by_the_task(
    postgres_database: str, tmp_path: Path, declared: str, arrow: pa.DataType, values: list[Any], said: str
) -> None:
    with Session(postgres_database) as session:
        session.execute("CREATE TYPE mood AS ENUM ('it''s', 'ok')")
        session.execute(f"CREATE TABLE t (v {declared})")
    log = LogPlace(tmp_path / "log")
    with committing(postgres_database, arrow, log) as (sink, scope, committer):
        writer = sink.writer(TransactionId(scope, sink_key("s"), 0, 1))
        with pytest.raises(BadRowError, match=f"row 2, column 'v': {said}"):
            writer.write(pa.record_batch([as_spark_has(values, arrow)], names=["v"]))
        writer.write(pa.record_batch([as_spark_has(values[:1], arrow)], names=["v"]))  # the last that the server takes
        assert committer.commit(0, [writer.prepare()]) == [CommitOutcome.COMMITTED]
    with Session(postgres_database) as session:
        assert session.execute("SELECT COUNT(*) FROM t") == [(1,)]


REFUSED = [
    ("BIGINT PRIMARY KEY", pa.int64(), 3, "duplicate key"),
    ("BIGINT CHECK (v < 100)", pa.int64(), 100, "check constraint"),
    ("SMALLINT", pa.int64(), 2**15, "out of range"),
]


@contextmanager
def committing(
    database: str, arrow: pa.DataType, log: LogPlace | None = None
) -> Iterator[tuple[Sink, Scope, Committer]]:
    """The table t with its column v as an opened sink, and a scope that may prepare there."""
    sink = PostgresSink("s", database, "t", log).open(pa.schema([("v", arrow)]))
    committer, incarnation = sink.committer("p"), new_incarnation()
    committer.inspect(incarnation, ())
    committer.claim(incarnation, 1)
    scope = Scope(incarnation, 1, 0)
    committer.permit(scope)
    yield sink, scope, committer
    committer.close()


@pytest.mark.parametrize(("declared", "arrow", "bad", "said"), REFUSED, ids=[c[0] for c in REFUSED])
def test_a_bad_row_is_put_aside_and_its_neighbours_are_prepared(
    postgres_database: str, declared: str, arrow: pa.DataType, bad: int, said: str
) -> None:
    with Session(postgres_database) as session:
        session.execute(f"CREATE TABLE t (v {declared})")
    with committing(postgres_database, arrow) as (sink, scope, committer):
        bisector, writer = RowBisector(3), sink.writer(TransactionId(scope, sink_key("s"), 0, 1))
        for values in ([1, 2, 3], [4, 5, bad, 6, 7], [bad]):
            bisector.write(writer, "s", pa.record_batch([pa.array(values, arrow)], names=["v"]))
        assert committer.commit(0, [writer.prepare()]) == [CommitOutcome.COMMITTED]
    letters = decode_dead_letters(bisector.encode() or b"").to_pylist()
    assert [each["value"] for each in letters] == [b'{"v": %d}' % bad] * 2
    assert all(said in each["error"] for each in letters)
    with Session(postgres_database) as session:
        assert session.execute("SELECT v FROM t ORDER BY v") == [(each,) for each in range(1, 8)]


def test_a_row_too_large_for_an_index_is_a_bad_row(postgres_database: str) -> None:
    """Of which the server says no more than that a limit of its own is exceeded."""
    with Session(postgres_database) as session:
        session.execute("CREATE TABLE t (v TEXT)")
        session.execute("CREATE INDEX ON t (v)")
    large = "".join(hashlib.sha256(str(number).encode()).hexdigest() for number in range(400))  # not to be compressed
    with committing(postgres_database, pa.string()) as (sink, scope, committer):
        bisector, writer = RowBisector(3), sink.writer(TransactionId(scope, sink_key("s"), 0, 1))
        bisector.write(writer, "s", pa.record_batch([["a", large, "b"]], names=["v"]))
        assert committer.commit(0, [writer.prepare()]) == [CommitOutcome.COMMITTED]
    (letter,) = decode_dead_letters(bisector.encode() or b"").to_pylist()
    assert "SQLSTATE 54000" in letter["error"]
    with Session(postgres_database) as session:
        assert session.execute("SELECT v FROM t ORDER BY v") == [("a",), ("b",)]


@pytest.mark.parametrize("declared", ["JSON", "JSONB"])
def test_json_nested_deeper_than_the_stack_of_the_server_is_a_bad_row(postgres_database: str, declared: str) -> None:
    """The server reports a limit of its own. The connection lives on, and takes the other rows."""
    deep = "[" * 50_000 + "]" * 50_000
    with Session(postgres_database) as session:
        session.execute(f"CREATE TABLE t (v {declared})")
        with pytest.raises(ServerError, match="stack depth limit exceeded") as refused:
            session.execute(f"INSERT INTO t VALUES ('{deep}')")
        assert (refused.value.code, refused.value.row_fault, refused.value.disconnected) == ("54001", True, False)
        assert session.execute("SELECT COUNT(*) FROM t") == [(0,)]
    with committing(postgres_database, pa.string()) as (sink, scope, committer):
        bisector, writer = RowBisector(3), sink.writer(TransactionId(scope, sink_key("s"), 0, 1))
        for values in (['{"n": 1}', deep, '{"n": 2}'], [deep], ['{"n": 3}']):
            bisector.write(writer, "s", pa.record_batch([values], names=["v"]))
        assert committer.commit(0, [writer.prepare()]) == [CommitOutcome.COMMITTED]
    letters = decode_dead_letters(bisector.encode() or b"").to_pylist()
    assert [json.loads(each["value"]) for each in letters] == [{"v": deep}] * 2
    assert all("stack depth limit exceeded (SQLSTATE 54001)" in each["error"] for each in letters)
    with Session(postgres_database) as session:
        assert session.execute("SELECT v->>'n' FROM t ORDER BY 1") == [("1",), ("2",), ("3",)]


def _swallow_an_error(session: Session) -> None:
    with in_transaction(session):
        session.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(ServerError):
            session.execute("SELECT 1/0")


def test_a_commit_that_the_server_turns_into_a_rollback_is_an_error(postgres_database: str) -> None:
    with Session(postgres_database) as session:
        session.execute("CREATE TABLE t (v INT)")
        with pytest.raises(ServerError, match="rolled back instead of COMMIT"):
            _swallow_an_error(session)
        assert session.execute("SELECT * FROM t") == []


def _write_all(writer: Writer | DirectWriter, rows: pa.RecordBatch, committer: Committer) -> None:
    writer.write(rows)
    if isinstance(writer, LogWriter):
        committer.commit(0, [writer.prepare()])


@pytest.mark.parametrize("variant", ["two-phase", "write-ahead-log", "at-least-once"])
def test_rows_that_a_trigger_leaves_out_are_missed(postgres_database: str, tmp_path: Path, variant: str) -> None:
    """The server gives no error: COPY's count of rows alone tells."""
    with Session(postgres_database) as session:
        session.execute("CREATE TABLE t (v BIGINT)")
        session.execute(
            "CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql"
            " AS 'BEGIN IF NEW.v = 2 THEN RETURN NULL; END IF; RETURN NEW; END'"
        )
        session.execute("CREATE TRIGGER skips BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION skip()")
    log = LogPlace(tmp_path / "log") if variant == "write-ahead-log" else None
    rows = pa.record_batch([pa.array([1, 2, 3], pa.int64())], names=["v"])
    with committing(postgres_database, pa.int64(), log) as (sink, scope, committer):
        transaction = TransactionId(scope, sink_key("s"), 0, 1)
        writer = sink.direct_writer(transaction) if variant == "at-least-once" else sink.writer(transaction)
        with pytest.raises(BadRowError, match="the server stored 2 of 3 rows and gave no reason"):
            _write_all(writer, rows, committer)
        writer.abort()
        with Session(postgres_database) as session:
            assert session.execute("SELECT COUNT(*) FROM t") == [(0,)]
            session.execute("DROP TRIGGER skips ON t")
        if variant == "write-ahead-log":  # the rows are decided, and wait
            share = [each.committable for each in committer.prepared(scope.incarnation)]
            assert committer.commit(0, [each for each in share if each is not None]) == [CommitOutcome.COMMITTED]
            with Session(postgres_database) as session:
                assert session.execute("SELECT v FROM t ORDER BY v") == [(1,), (2,), (3,)]
