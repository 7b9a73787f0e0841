"""Connections to a database that keeps head: a few are kept, and none that has answered with an error."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import pytest
import sqlalchemy

from connectors.sql.head import SqlHead
from eos.errors import HeadError
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline

_WHO: Final = {"mysql": "SELECT CONNECTION_ID()", "postgresql": "SELECT pg_backend_pid()"}
_END: Final = {"mysql": "KILL {}", "postgresql": "SELECT pg_terminate_backend({})"}
_LOGINS: Final = "SELECT sessions FROM pg_stat_database WHERE datname = current_database()"
_WATCHED_S: Final = 30
_MOST_LOGINS: Final = 3  # 0.1 a second


@pytest.fixture(params=["database", "postgres_database"])
def url(request: pytest.FixtureRequest) -> str:
    """A database on a server of each kind."""
    found: str = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def head(url: str) -> Iterator[SqlHead]:
    opened = SqlHead(url, "orders")
    yield opened
    opened.close()


def kind_of(url: str) -> str:
    return sqlalchemy.make_url(url).get_backend_name()


def who(head: SqlHead, url: str) -> int:
    """The server's number of the connection that the next call takes."""
    with head._transaction("ask") as connection:
        return int(connection.exec_driver_sql(_WHO[kind_of(url)]).scalar_one())


def test_calls_share_a_connection(head: SqlHead, url: str) -> None:
    seen = {who(head, url)}
    for number in range(10):
        assert head.swap(head.read(), b"value %d" % number)
        head.put_record(f"r-{number}.json", b"content")
        assert head.blobs("requests").names() == []
        seen.add(who(head, url))
    assert len(seen) == 1


def test_a_connection_that_the_server_has_ended_is_replaced(head: SqlHead, url: str) -> None:
    assert head.swap(None, b"one")
    before, other = who(head, url), sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    with other.begin() as connection:
        connection.exec_driver_sql(_END[kind_of(url)].format(before))
    assert head.swap(head.read(), b"two")
    assert who(head, url) != before


def test_after_an_error_no_connection_is_kept(head: SqlHead, url: str) -> None:
    """A server that has become a replica refuses writes, and keeps its connections."""
    before = who(head, url)
    with pytest.raises(HeadError), head._transaction("ask") as connection:
        connection.exec_driver_sql("SELECT 1 FROM nowhere")
    assert who(head, url) != before


@pytest.mark.timeout(600)
def test_a_pipeline_that_waits_for_records_logs_in_at_most_once_in_ten_seconds(
    pipeline: Pipeline, postgres_database: str
) -> None:
    pipeline.spec["checkpoint"]["head"] = postgres_database
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    process = pipeline.start(until_caught_up=False)
    process.await_output("checkpoint=0 state=committed")
    engine = sqlalchemy.create_engine(postgres_database, poolclass=sqlalchemy.StaticPool)

    def logins() -> int:
        with engine.begin() as connection:
            return int(connection.exec_driver_sql(_LOGINS).scalar_one())

    time.sleep(5)
    before = logins()
    time.sleep(_WATCHED_S)
    assert logins() - before <= _MOST_LOGINS
    process.terminate()
    process.succeed()
    pipeline.assert_exact(at_least=CHECKPOINT_RECORDS)
