"""A take-over by another incarnation while the older one still applies its log (H28)."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor, wait
from typing import ClassVar

import pytest

from connectors.testing.held import Gate, held_committer, log_of
from connectors.testing.rows import Row, rows
from connectors.testing.sink_driver import SinkDriver, new_incarnation
from eos.errors import ConnectorError

_OLD: Row = (7, "old")
_NEW: Row = (7, "new")


class TakingOver:
    """Behaviours of a take-over by another incarnation."""

    claims_wait: ClassVar[bool] = True
    """Whether a claim waits for an applier that is not frozen; else the claim ends its transaction at once."""

    def test_h28_no_row_of_another_life_becomes_visible_after_a_take_over(self, driver: SinkDriver) -> None:
        if log_of(driver) is None:
            pytest.skip("not applicable: two-phase commit has no log that is applied")
        driver.checkpoint(0, rows(0, 3))
        driver.decided[1] = [driver.prepare(driver.permit(1), _OLD)]
        gate = Gate()
        held = held_committer(driver, gate)
        other = SinkDriver(driver.target, driver.pipeline, incarnation=new_incarnation())

        def take_over() -> Counter[Row]:
            other.start(take_over=True)
            seen = driver.target.rows()
            other.checkpoint(0, [_NEW])
            return seen

        with ThreadPoolExecutor(2) as pool:
            older = pool.submit(held.commit, 1, driver.decided[1])
            gate.await_held()
            newer = pool.submit(take_over)
            wait([newer], timeout=3 if self.claims_wait else 60)  # side by side they would fence each other in turn
            waited = not newer.done()
            gate.go.set()
            seen, failure = newer.result(60), older.exception(60)
        assert isinstance(failure, type(None) if self.claims_wait else ConnectorError)
        assert seen == Counter([*rows(0, 3), *([_OLD] if self.claims_wait else [])])
        assert waited or not self.claims_wait
        shown = Counter(seen)
        if driver.target.keyed:
            del shown[_OLD]
        assert driver.target.rows() == shown + Counter([_NEW])
        held.close()
        other.close()
