"""Events in any order."""

from __future__ import annotations

import random
from collections import Counter
from typing import ClassVar

import pytest

from connectors.testing.rows import Row, rows
from connectors.testing.sink_driver import SinkDriver
from twophase.ids import Scope


class Chance:
    """Behaviours under random faults."""

    events: ClassVar[int] = 30
    """How many come by chance, one after another; fewer for a service that takes its time to start."""

    @pytest.mark.parametrize("seed", range(3))
    def test_any_order_of_events(self, driver: SinkDriver, seed: int) -> None:
        """Attempts, failed tries, decisions, commits and starts as chance will have it: at every moment what is seen
        is what was committed, and at the end what was decided."""
        chance = random.Random(seed)
        number, attempt, committed = 0, 1, Counter[Row]()
        for _ in range(self.events):
            event = chance.choice(("try", "fail", "decide", "start", "again"))
            if event == "again" and driver.decided:
                driver.commit(chance.choice(sorted(driver.decided)))
                continue
            if event == "start":
                driver.start()
                attempt = 1
                continue
            scope = driver.permit(number, attempt)
            shares = [rows(number * 10 + task * 5, number * 10 + task * 5 + chance.randrange(5)) for task in range(2)]
            accepted = [driver.prepare(scope, *share, task=task) for task, share in enumerate(shares)]
            assert driver.target.rows() == committed
            if event == "fail":
                driver.committer.abort([each for each in driver.prepared() if _is_of(each.transaction, scope)])
                driver.committer.revoke(scope)
                attempt += 1
                continue
            driver.decided[number] = accepted
            committed.update(row for share in shares for row in share)
            if event == "decide":  # and killed right after
                driver.start()
            else:
                driver.commit(number)
                driver.committer.revoke(scope)
            number, attempt = number + 1, 1
            assert driver.target.rows() == committed
        driver.start()
        assert driver.target.rows() == committed
        assert committed.total() > 0
        assert driver.prepared() == []


def _is_of(transaction: object, scope: Scope) -> bool:
    return getattr(transaction, "scope", None) == scope
