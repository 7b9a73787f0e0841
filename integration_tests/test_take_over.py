"""H28: another incarnation takes over a sink whose log is being applied, on real servers."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from connectors.log.place import LogPlace
from connectors.owner import Owner
from connectors.sql import claims
from connectors.sql.log import ledger
from connectors.sql.mysql.store import MySqlStore
from connectors.sql.postgres.store import PostgresStore
from connectors.testing.held import Gate, held_committer
from connectors.testing.rows import rows
from connectors.testing.sink_driver import SinkDriver
from eos.errors import ConnectorError, FencedError
from integration_tests.test_compliance import DatabaseTarget, MySqlTarget, PostgresTarget
from twophase.ids import sink_key

_SLOTS = 2
_ROUNDS = 6


@dataclass
class Case:
    """A table of one server, and a connection of the driver's kind to it."""

    target: DatabaseTarget
    store: type[MySqlStore] | type[PostgresStore]

    def driver(self, pipeline: str | None = None, slots: int = _SLOTS) -> SinkDriver:
        """Return another incarnation that writes to the table."""
        made = SinkDriver(self.target) if pipeline is None else SinkDriver(self.target, pipeline)
        sink: Any = made.sink
        made.sink = replace(sink, log=replace(sink.log, slots=slots))
        return made


@pytest.fixture(params=["append", "upsert"])
def keyed(request: pytest.FixtureRequest) -> bool:
    """Whether rows are merged."""
    return bool(request.param == "upsert")


@pytest.fixture(params=["mysql", pytest.param("postgresql", marks=pytest.mark.any_server)])
def case(request: pytest.FixtureRequest, keyed: bool, tmp_path: Path) -> Case:
    """A fresh table."""
    log = LogPlace(tmp_path / "log", slots=_SLOTS)
    if request.param == "mysql":
        return Case(MySqlTarget(request.getfixturevalue("database"), log, keyed), MySqlStore)
    return Case(PostgresTarget(request.getfixturevalue("postgres_database"), log, keyed), PostgresStore)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start takes a connection for frozen after two seconds."""
    monkeypatch.setattr(claims, "FROZEN_S", 2.0)
    monkeypatch.setattr(ledger, "FROZEN_S", 2.0)


@pytest.mark.usefixtures("impatient")
def test_h28_a_take_over_ends_a_frozen_applier_of_any_slot(case: Case) -> None:
    """The newer incarnation has one slot, and the older one is frozen in two."""
    old = case.driver()
    old.start()
    old.checkpoint(0, rows(0, 3), rows(3, 6))
    scope = old.permit(1)
    old.decided[1] = [old.prepare(scope, (n, "old"), task=n % _SLOTS) for n in (8, 9)]
    gate = Gate()
    held = held_committer(old, gate)
    new = case.driver(old.pipeline, slots=1)
    with ThreadPoolExecutor(1) as pool:
        older = pool.submit(held.commit, 1, old.decided[1])
        gate.await_held(_SLOTS)
        try:
            new.start(take_over=True)
            assert case.target.rows() == Counter(rows(0, 6))
            new.checkpoint(0, [(8, "new"), (9, "new")])
        finally:
            gate.go.set()
        assert isinstance(older.exception(60), ConnectorError)
    with pytest.raises(FencedError):
        held.commit(1, old.decided[1])
    assert case.target.rows() == Counter([*rows(0, 6), (8, "new"), (9, "new")])
    held.close()
    new.close()


@pytest.mark.usefixtures("impatient")
def test_h28_a_start_ends_a_frozen_claim(case: Case) -> None:
    """A start applies what is decided before it claims: it then waits for the claim row."""
    driver = case.driver()
    driver.start()
    driver.checkpoint(0, rows(0, 3))
    driver.decided[1] = [driver.prepare(driver.permit(1), *rows(3, 5))]
    frozen = case.store(case.target.url)
    frozen.mark(claims.control(driver.pipeline, sink_key(driver.name)))
    frozen.execute(frozen.begin)
    claims.hold_claim(frozen, driver.pipeline, driver.name, Owner(driver.incarnation, driver.epoch))
    driver.start()
    assert case.target.rows() == Counter(rows(0, 5))
    assert not frozen.answers()
    frozen.close()
    driver.close()


def test_h28_claims_and_appliers_do_not_wait_for_each_other_for_ever(case: Case) -> None:
    """Each incarnation is taken over while its slots apply; nobody needs to be ended."""
    driver = case.driver()
    driver.start()
    for number in range(_ROUNDS):
        scope = driver.permit(0)
        shares = [rows(first, first + 500) for first in (1000 * number, 1000 * number + 500)]
        driver.decided[0] = [driver.prepare(scope, *share, task=task) for task, share in enumerate(shares)]
        newer = case.driver(driver.pipeline, slots=1 + number % 3)
        with ThreadPoolExecutor(1) as pool:
            older = pool.submit(driver.commit, 0)
            time.sleep(0.01 * number)  # the claim meets another moment of the appliers each time
            began = time.monotonic()
            newer.start(take_over=True)
            seen = case.target.rows()
            assert time.monotonic() - began < claims.FROZEN_S
            assert isinstance(older.exception(60), FencedError | None)
        assert case.target.rows() == seen
        driver.committer.close()
        driver = newer
    scope = driver.permit(0)
    driver.decided[0] = [driver.prepare(scope, (-1, "last"))]
    driver.commit(0)
    assert case.target.rows() == seen + Counter([(-1, "last")])
    driver.close()
