"""`eos reset` on a real head in files and a real SQLite sink (R2)."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from connectors.log.place import LogPlace
from connectors.sql.sqlite.sink import SqliteSink
from eos.errors import IdentityError
from twophase.driver import Driver
from twophase.local_head import LocalHead
from twophase.values import SparkState, StartingPoint


class _NoSpark:
    def await_state(self, _checkpoint_id: int) -> None:
        """Nothing to wait for."""

    def state(self, incarnation: str) -> SparkState:
        return SparkState()


def _driver(location: Path, database: Path, incarnation: str) -> Driver:
    sink = SqliteSink("table", database, "target", LogPlace(location / "wal"))
    return Driver(
        "orders",
        LocalHead(location),
        {"table": sink.committer("orders")},
        _NoSpark(),
        f"s{incarnation[0]}",
        incarnation,
    )


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "sink.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE target (value TEXT)")
    return path


def test_a_reset_begins_another_incarnation_and_a_later_epoch(tmp_path: Path, database: Path) -> None:
    first = _driver(tmp_path / "a", database, "a" * 20).start()
    driver = _driver(tmp_path / "a", database, "b" * 20)
    driver.start()
    driver.store_positions("orders", StartingPoint({"t/0": 5}, {"t": "id"}))
    after = _driver(tmp_path / "a", database, "c" * 20).reset(expected=driver.owned).head
    assert (first.incarnation, after.incarnation) == ("a" * 20, "c" * 20)
    assert after.epoch > driver.owned.epoch
    assert (after.completed, after.initial, after.identities, after.positions) == (-1, {}, {}, {})
    assert after.query_id is None
    assert _driver(tmp_path / "a", database, "d" * 20).start().incarnation == "c" * 20


def test_a_copy_is_refused_until_it_takes_the_sink_over_and_then_the_first_is(tmp_path: Path, database: Path) -> None:
    _driver(tmp_path / "a", database, "a" * 20).start()
    with pytest.raises(IdentityError, match="another incarnation"):
        _driver(tmp_path / "b", database, "b" * 20).start()
    _driver(tmp_path / "b", database, "b" * 20).reset(expected=None)
    assert _driver(tmp_path / "b", database, "x" * 20).start().incarnation == "b" * 20
    with pytest.raises(IdentityError, match="claimed by incarnation"):
        _driver(tmp_path / "a", database, "x" * 20).start()


def test_a_reset_of_what_never_ran_makes_what_a_run_needs(tmp_path: Path, database: Path) -> None:
    assert _driver(tmp_path / "a", database, "a" * 20).reset(expected=None).head.incarnation == "a" * 20
    assert _driver(tmp_path / "a", database, "b" * 20).start().epoch == 2
