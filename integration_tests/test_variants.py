"""A sink whose `commit` is changed between two runs: what the other variant has left is ended first, or refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from connectors.log.place import LogPlace
from connectors.testing.life import Life
from connectors.testing.rows import rows
from connectors.testing.target import schema_for
from eos.errors import IdentityError
from integration_tests.test_compliance import DatabaseTarget, MySqlTarget, PostgresTarget

pytestmark = pytest.mark.in_turns

Change = Callable[[str], Life]


@pytest.fixture(params=["MySQL", pytest.param("PostgreSQL", marks=pytest.mark.any_server)])
def target(request: pytest.FixtureRequest) -> DatabaseTarget:
    if request.param == "MySQL":
        return MySqlTarget(request.getfixturevalue("database"), None)
    return PostgresTarget(request.getfixturevalue("postgres_database"), None)


@pytest.fixture
def change(target: DatabaseTarget, tmp_path: Path) -> Iterator[Change]:
    """A driver of the same life with another variant."""
    life = Life(target)

    def changed(commit: str) -> Life:
        target.log = LogPlace(tmp_path / "log", slots=2) if commit == "log" else None
        life.sink = target.sink(life.name).open(schema_for(target))
        return life

    yield changed
    life.close()


def test_back_and_forth_where_everything_is_committed(change: Change, target: DatabaseTarget) -> None:
    number = 0
    for commit in ("two-phase", "log", "two-phase", "log"):
        life = change(commit)
        life.start()
        for _ in range(3):
            life.checkpoint(number, rows(2 * number, 2 * number + 1), rows(2 * number + 1, 2 * number + 2), ())
            state = life.committer.inspect(life.incarnation, life.decided.pop(number))
            assert state.missing == ()
            number += 1
    assert target.rows() == Counter(rows(0, 24))


def test_what_is_decided_in_the_log_is_not_lost_to_two_phase(change: Change, target: DatabaseTarget) -> None:
    life = change("log")
    life.start()
    life.decided[0] = [life.prepare(life.permit(0), *rows(0, 5))]
    with pytest.raises(IdentityError, match="waits in the write-ahead log"):
        change("two-phase").start()
    life = change("log")
    life.start()
    assert target.rows() == Counter(rows(0, 5))


def test_what_two_phase_has_left_prepared_is_not_forgotten(change: Change, target: DatabaseTarget) -> None:
    life = change("two-phase")
    life.start()
    life.prepare(life.permit(0), *rows(0, 5))
    with pytest.raises(IdentityError, match="was written to by two-phase commit, which was not ended"):
        change("log").start()
    change("two-phase").start()
    life = change("log")
    life.start()
    life.checkpoint(0, rows(0, 5))
    assert target.rows() == Counter(rows(0, 5))
