"""Names that break naive quoting, and passwords that must never be seen, on a real server."""

from __future__ import annotations

import pickle
import traceback
from urllib.parse import quote_plus

import pyarrow as pa
import pytest
from sqlalchemy.engine import make_url

from connectors.sql.head import SqlHead
from connectors.sql.mysql.engine import Session
from connectors.sql.mysql.sink import MySqlSink
from eos.errors import ConnectorError, HeadError, SinkUnavailableError, SpecError, TargetError
from integration_tests.mysql_support import bench
from integration_tests.mysql_support import clean_up as clean_up
from twophase.values import CommitOutcome

NAMES = [
    "back`tick",
    "quo'te",
    'double"quote',
    "with space",
    "per%cent %s %(x)s %%",
    "ünï中",
    "select",
    "a.b",
    "-- x",
]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_of_a_table_and_a_column(database: str, name: str) -> None:
    quoted = name.replace("`", "``").replace("%", "%%")
    schema = pa.schema([(name, pa.int64()), ("raw", pa.binary()), ("bit", pa.bool_())])
    made = bench(database, f"`{quoted}` BIGINT PRIMARY KEY, raw BLOB, bit BIT(1)", schema, name=name, table=name)
    assert made.sink.partition_by == (name,)
    rows = pa.record_batch(
        [pa.array(range(1000), pa.int64()), pa.array([b"\xff"] * 1000), pa.array([True] * 1000)], schema
    )
    committable = made.prepare(made.permitted(), 0, rows)
    while made.committer.commit(0, [committable])[0] is CommitOutcome.RETRY_LATER:
        pass
    assert made.count() == 1000
    assert made.query(f"SELECT SUM(`{quoted}`) FROM {made.sink.target}")[0][0] == 499_500


def test_a_name_that_no_server_takes_is_a_missing_table(database: str) -> None:
    with pytest.raises(TargetError, match="no table"):
        MySqlSink("warehouse", database, "smile😀").open(pa.schema([("id", pa.int64())]))


def test_a_table_of_another_database_of_the_same_server(database: str) -> None:
    schema = pa.schema([("id", pa.int64())])
    made = bench(database, "id BIGINT", schema)
    other = MySqlSink("warehouse", database, f"{make_url(database).database}.rows_in").open(schema)
    assert other.target == made.sink.target


@pytest.mark.parametrize("table", ["mysql.user", "MySQL.new", "information_schema.TABLES", "sys.version"])
@pytest.mark.parametrize("create", [False, True])
def test_no_table_of_the_server_itself_is_written_or_made(database: str, table: str, create: bool) -> None:
    with pytest.raises(TargetError, match="is the server's own"):
        MySqlSink("warehouse", database, table, create=create).open(pa.schema([("id", pa.int64())]))


@pytest.mark.parametrize("password", ["p@ss/w:rd?#&%", "päss中", "'\"`\\", "%s%(x)s"])
def test_a_password_is_in_no_message(database: str, password: str) -> None:
    url = make_url(database).set(password=password).render_as_string(hide_password=False)
    sink = MySqlSink("warehouse", url, "rows_in")
    seen = [repr(sink), repr(sink.committer("orders"))]
    with pytest.raises(TargetError) as wrong:
        sink.open(pa.schema([("id", pa.int64())]))
    seen += traceback.format_exception(wrong.value)
    with pytest.raises(ConnectorError) as late:
        sink.committer("orders").inspect("x" * 20, ())
    seen += traceback.format_exception(late.value)
    seen += [f"{each.detail}{each.remedy}" for each in sink.check(None)]
    head = SqlHead(url, "orders")
    with pytest.raises(HeadError) as refused:
        head.read()
    seen += [repr(head), head.describe(), *traceback.format_exception(refused.value)]
    for text in seen:
        assert password not in text
        assert quote_plus(password) not in text
    assert any("Access denied" in text for text in seen)
    assert pickle.loads(pickle.dumps(sink)) == sink


def test_a_server_that_does_not_answer_is_unavailable_not_wrong() -> None:
    sink = MySqlSink("warehouse", "mysql+pymysql://eos:secret@127.0.0.1:1/eos", "rows_in")
    with pytest.raises(SinkUnavailableError, match=r"127\.0\.0\.1:1") as failure:
        sink.open(pa.schema([("id", pa.int64())]))
    assert "secret" not in str(failure.value)
    (finding,) = sink.check(None)
    assert (finding.ok, finding.fatal) == (False, True)


@pytest.mark.parametrize("url", ["secret", "postgresql://u:secret@h/d", "mysql+pymysql://u:secret@host:port/d"])
def test_a_url_that_is_none_is_not_repeated(url: str) -> None:
    with pytest.raises(SpecError) as failure:
        MySqlSink("warehouse", url, "t").open(pa.schema([("id", pa.int64())]))
    assert "secret" not in str(failure.value)


@pytest.mark.only_on("MySQL", "its default configuration has a certificate that nobody signed")
def test_tls_is_verified_where_it_is_asked_for(database: str) -> None:
    with pytest.raises(TargetError, match="CERTIFICATE_VERIFY_FAILED"):
        connect(f"{database}?ssl=true")
    connect(f"{database}?ssl=true&ssl_verify_cert=false")
    connect(f"{database}?ssl_disabled=true")
    with pytest.raises(SpecError, match="TLS files"):
        connect(f"{database}?ssl_ca=/nowhere/ca.pem")


def connect(url: str) -> None:
    """Connect and disconnect, with the errors that a user sees."""
    MySqlSink("warehouse", url, "t").committer("orders").prepared("x" * 20)
    Session(url).close()
