"""A step that takes long: the connection of the task behind it does nothing meanwhile, and must outlive that."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest

from connectors.api.contracts import Sink
from connectors.sql.mysql.sink import MySqlSink
from connectors.sql.postgres.sink import PostgresSink
from connectors.testing.sink_driver import new_incarnation
from integration_tests.harness.oracle import PostgresTable, SinkTable
from twophase.ids import Scope, TransactionId, sink_key

_ROWS = pa.schema([("id", pa.int64())])
_KINDS = [pytest.param("mysql"), pytest.param("postgresql", marks=pytest.mark.any_server)]
# By checkpoint.timeout in seconds, how long a server lets a task's connection do nothing.
_TIMEOUTS = {60.0: 600, 3600.5: 3601, 1e9: 2_000_000}


@pytest.mark.parametrize("direct", [False, True], ids=["two-phase", "at-least-once"])
@pytest.mark.parametrize("kind", _KINDS)
def test_a_server_waits_for_a_task_as_long_as_its_checkpoint_may_take(
    kind: str, direct: bool, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("database" if kind == "mysql" else "postgres_database")
    (SinkTable if kind == "mysql" else PostgresTable)(url, "t").execute("CREATE TABLE t (id BIGINT)")
    for timeout_s, expected_s in _TIMEOUTS.items():
        make: Any = MySqlSink if kind == "mysql" else PostgresSink
        sink: Sink = make("s", url, "t", timeout_s=timeout_s).open(_ROWS)
        incarnation = new_incarnation()
        with closing(sink.committer("p")) as committer:
            committer.inspect(incarnation, ())
            committer.claim(incarnation, 1, take_over=True)
            scope = Scope(incarnation, 1, 0)
            committer.permit(scope)
            transaction = TransactionId(scope, sink_key("s"), 0, 0)
            writer: Any = sink.direct_writer(transaction) if direct else sink.writer(transaction)
            writer.write(pa.RecordBatch.from_pydict({"id": [1]}, schema=_ROWS))
            writer._sender.wait()
            assert _allowed_s(kind, writer._session) == expected_s
            writer.abort()


def _allowed_s(kind: str, session: Any) -> int:
    if kind == "mysql":
        return int(session.execute("SELECT @@wait_timeout")[0][0])
    name = "idle_in_transaction_session_timeout"
    return int(session.execute("SELECT setting::int / 1000 FROM pg_settings WHERE name = %s", name)[0][0])
