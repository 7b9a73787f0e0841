"""Decided rows that were lost: they are written again once (R7), also into a restored copy of the target (H26)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from connectors.testing.rows import rows
from connectors.testing.sink_driver import ALREADY, COMMITTED, SinkDriver
from eos.errors import ConnectorError, SetBackError
from twophase.ids import Scope
from twophase.values import CommitOutcome


class Repairing:
    """Behaviours of repairs."""

    def test_what_is_lost_is_written_again_once(self, driver: SinkDriver) -> None:
        """R7: two tasks are decided, and what one of them has prepared is ended by hand."""
        driver.checkpoint(0, rows(0, 3))
        scope = driver.permit(1)
        first, second = [driver.prepare(scope, *rows(3, 6)), driver.prepare(scope, *rows(6, 8), task=1)]
        driver.decided[1] = [first, second]
        assert driver.committer.missing_committables(1, [first, second]) == []
        driver.lose(first)
        assert CommitOutcome.LOST in driver.commit(1)
        assert driver.committer.missing_committables(1, [first, second]) == [first]
        again = driver.rewrite_missing(1, first, *rows(3, 6))
        assert again.rows == first.rows
        assert driver.target.rows() in (Counter(rows(0, 3)), Counter([*rows(0, 3), *rows(6, 8)]))
        driver.decided[1] = [again, second]
        assert driver.committer.missing_committables(1, [again, second]) == []
        assert CommitOutcome.LOST not in driver.commit(1)
        assert driver.target.rows() == Counter(rows(0, 8))
        assert driver.commit(1, driver.another_committer()) == [ALREADY, ALREADY]
        driver.committer.revoke(again.transaction.scope)
        state = driver.committer.inspect(driver.incarnation, [again, second])
        assert (state.highest_witness, state.missing) == (1, ())
        driver.start()
        driver.checkpoint(2, rows(8, 9))
        assert driver.target.rows() == Counter(rows(0, 9))
        assert driver.prepared() == []

    def test_what_is_written_again_and_not_decided_is_gone_with_the_next_start(self, driver: SinkDriver) -> None:
        driver.decided[0] = [driver.prepare(driver.permit(0), *rows(0, 3))]
        (lost,) = driver.decided[0]
        driver.lose(lost)
        driver.rewrite_missing(0, lost, *rows(0, 3))
        assert driver.commit(0) == [CommitOutcome.LOST]
        again = driver.rewrite_missing(0, lost, *rows(0, 3))
        driver.decided[0] = [again]
        driver.start()
        assert driver.target.rows() == Counter(rows(0, 3))
        assert driver.prepared() == []

    def test_what_was_not_lost_is_not_written_again(self, driver: SinkDriver) -> None:
        """Whatever a repair took it for: of the two only one is ever seen."""
        driver.checkpoint(0, rows(0, 3))
        (kept,) = driver.decided[0]
        assert driver.committer.missing_committables(0, [kept]) == []
        try:
            again = driver.rewrite_missing(0, kept, *rows(0, 3))
        except ConnectorError:
            assert driver.prepared() == []
        else:
            assert COMMITTED not in driver.committer.commit(0, [again])
        assert driver.target.rows() == Counter(rows(0, 3))


class SettingBack:
    """See the module."""

    def test_h26_a_copy_counts_what_it_shows(self, driver: SinkDriver) -> None:
        driver.checkpoint(0, rows(0, 2))
        set_back = _copy(driver)
        driver.checkpoint(1, rows(2, 4))
        set_back()
        assert driver.target.rows() == Counter(rows(0, 2))
        assert driver.committer.inspect(driver.incarnation, driver.decided[1]).counted == 0
        with pytest.raises(SetBackError, match="went back in time: it counts checkpoints up to 0"):
            driver.committer.permit(Scope(driver.incarnation, driver.epoch, 2), counted=1)
        with pytest.raises(SetBackError, match="went back in time"):
            driver.committer.claim(driver.incarnation, driver.epoch + 1, counted=1)

    def test_h26_a_copy_is_brought_forward_in_order(self, driver: SinkDriver) -> None:
        """What the copy still holds, or a log still has, is committed once more, and each row is there once."""
        driver.checkpoint(0, rows(0, 2))
        driver.decided[1] = [driver.prepare(driver.permit(1), *rows(2, 4))]
        set_back = _copy(driver)
        driver.commit(1)
        driver.committer.count(driver.incarnation, 1, driver.decided[1])
        set_back()
        outcomes = driver.commit(1)
        shown = rows(0, 2) if CommitOutcome.LOST in outcomes else rows(0, 4)
        assert driver.target.rows() == Counter(shown)

    def test_h26_a_copy_from_before_the_claim_is_noticed(self, driver: SinkDriver) -> None:
        set_back = _copy(driver)
        driver.checkpoint(0, rows(0, 2))
        set_back()
        with pytest.raises(SetBackError):
            driver.committer.claim(driver.incarnation, driver.epoch + 1, counted=0)
        assert driver.target.rows() == Counter()


def _copy(driver: SinkDriver) -> Callable[[], None]:
    """Copy the target now; the function puts the copy in its place."""
    copy: Callable[[], Callable[[], None]] | None = getattr(driver.target, "copy", None)
    if copy is None:
        pytest.skip("not applicable: the target does not say how it is copied")
    return copy()
