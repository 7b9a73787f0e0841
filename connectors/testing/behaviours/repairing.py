"""R7: what is lost of a decided checkpoint is written again, once."""

from __future__ import annotations

from collections import Counter

from connectors.testing.rows import rows
from connectors.testing.sink_driver import ALREADY, COMMITTED, SinkDriver
from eos.errors import ConnectorError
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
