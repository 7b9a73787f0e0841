"""A copy of the target takes its place, as a restored backup does (H26). For targets that can copy themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from connectors.testing.rows import rows
from connectors.testing.sink_driver import SinkDriver
from eos.errors import SetBackError
from twophase.ids import Scope
from twophase.values import CommitOutcome


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
