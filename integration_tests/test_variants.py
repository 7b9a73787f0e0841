"""A sink whose `commit` is changed between two runs: what the other variant has left is ended first, or refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from connectors.log.place import LogPlace
from connectors.testing.rows import rows
from connectors.testing.sink_driver import SinkDriver
from connectors.testing.target import schema_for
from eos.errors import IdentityError
from integration_tests.test_compliance import DatabaseTarget, MySqlTarget, PostgresTarget

pytestmark = pytest.mark.in_turns

Change = Callable[[str], SinkDriver]


@pytest.fixture(params=["MySQL", pytest.param("PostgreSQL", marks=pytest.mark.any_server)])
def target(request: pytest.FixtureRequest) -> DatabaseTarget:
    if request.param == "MySQL":
        return MySqlTarget(request.getfixturevalue("database"), None)
    return PostgresTarget(request.getfixturevalue("postgres_database"), None)


@pytest.fixture
def change(target: DatabaseTarget, tmp_path: Path) -> Iterator[Change]:
    """A driver of the same life with another variant."""
    driver = SinkDriver(target)

    def changed(commit: str) -> SinkDriver:
        target.log = LogPlace(tmp_path / "log", slots=2) if commit == "log" else None
        driver.sink = target.sink(driver.name).open(schema_for(target))
        return driver

    yield changed
    driver.close()


def test_back_and_forth_where_everything_is_committed(change: Change, target: DatabaseTarget) -> None:
    number = 0
    for commit in ("two-phase", "log", "two-phase", "log"):
        driver = change(commit)
        driver.start()
        for _ in range(3):
            driver.checkpoint(number, rows(2 * number, 2 * number + 1), rows(2 * number + 1, 2 * number + 2), ())
            state = driver.committer.inspect(driver.incarnation, driver.decided.pop(number))
            assert state.missing == ()
            number += 1
    assert target.rows() == Counter(rows(0, 24))


def test_what_is_decided_in_the_log_is_not_lost_to_two_phase(change: Change, target: DatabaseTarget) -> None:
    driver = change("log")
    driver.start()
    driver.decided[0] = [driver.prepare(driver.permit(0), *rows(0, 5))]
    with pytest.raises(IdentityError, match="waits in the write-ahead log"):
        change("two-phase").start()
    driver = change("log")
    driver.start()
    assert target.rows() == Counter(rows(0, 5))


def test_what_two_phase_has_left_prepared_is_not_forgotten(change: Change, target: DatabaseTarget) -> None:
    driver = change("two-phase")
    driver.start()
    driver.prepare(driver.permit(0), *rows(0, 5))
    with pytest.raises(IdentityError, match="was written to by two-phase commit, which was not ended"):
        change("log").start()
    change("two-phase").start()
    driver = change("log")
    driver.start()
    driver.checkpoint(0, rows(0, 5))
    assert target.rows() == Counter(rows(0, 5))
