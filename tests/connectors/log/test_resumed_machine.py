"""A machine is restored from a snapshot with its memory (H33), with SQLite behind a log.

`integration_tests/test_set_back.py` does it to servers.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from connectors.log.place import LogPlace
from connectors.sql.sqlite.sink import SqliteSink
from tests.resumed_machine_suite import ResumedMachineSuite
from tests.world import SCHEMA, World
from twophase.ids import Scope, TransactionId, fresh_attempt, sink_key


@pytest.fixture
def world(tmp_path: Path) -> World:
    database, machine = tmp_path / "t.db", tmp_path / "machine"

    def query(statement: str) -> list[int]:
        with closing(sqlite3.connect(database)) as connection:
            return [row[0] for row in connection.execute(statement)]

    query("CREATE TABLE t (n INTEGER)")
    sink = SqliteSink("warehouse", database, "t", LogPlace(machine / "log")).open(SCHEMA)
    return World(machine, sink, lambda: query("SELECT n FROM t"), has_log=True)


class TestSqliteLog(ResumedMachineSuite):
    """See `ResumedMachineSuite`."""


def test_h33_no_attempt_has_the_number_of_another_one() -> None:
    numbers = [fresh_attempt(attempt) for attempt in (7, 7, 8, 2**31)]
    assert len({*numbers}) == 4
    assert max(numbers) < 2**63, "it is a BIGINT"
    found = [TransactionId(Scope("i" * 20, 1, 0), sink_key("s"), 0, each) for each in numbers]
    assert [each.spark_attempt for each in found] == [7, 7, 8, 2**31]
    assert [TransactionId.parse(str(each)) for each in found] == found
