"""A sink counts the checkpoints that it shows, so that one that went back in time is noticed (H26, H27)."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import pytest

from connectors.testing.rows import rows
from connectors.testing.sink_driver import SinkDriver
from connectors.testing.target import Target
from eos.errors import ConnectorError, PermitRevokedError, SetBackError
from twophase.ids import Scope


class Counting:
    """Behaviours of the count of committed checkpoints."""

    def test_h26_a_sink_counts_what_it_shows(self, target: Target) -> None:
        driver = SinkDriver(target)
        committer = driver.sink.committer(driver.pipeline)
        assert committer.inspect(driver.incarnation, ()).counted is None
        committer.close()
        driver.start()
        try:
            counts = [_counted(driver)]
            for number in range(3):
                driver.checkpoint(number, rows(number, number + 1))
                counts.append(_counted(driver))
            driver.checkpoint(3)  # no task has had a row
            counts.append(_counted(driver))
            driver.start()
            assert [*counts, _counted(driver)] == [-1, 0, 1, 2, 3, 3]
        finally:
            driver.close()

    def test_h26_what_is_not_shown_is_not_counted(self, driver: SinkDriver) -> None:
        driver.checkpoint(0, rows(0, 2))
        driver.decided[1] = [driver.prepare(driver.permit(1), *rows(2, 4))]
        with suppress(SetBackError):  # a log does nothing: it counts as it applies
            driver.committer.count(driver.incarnation, 1, driver.decided[1])
        assert _counted(driver) == 0
        driver.commit(1)
        driver.committer.count(driver.incarnation, 1, driver.decided[1])
        driver.committer.count(driver.incarnation, 1, driver.decided[1])  # the answer was lost
        assert _counted(driver) == 1

    def test_h26_a_count_moves_by_one_checkpoint(self, driver: SinkDriver) -> None:
        driver.checkpoint(0, rows(0, 2))
        with pytest.raises(ConnectorError):
            _commit_and_count(driver, 2)
        assert _counted(driver) == 0

    def test_h34_a_count_moves_over_at_least_once_checkpoints(self, driver: SinkDriver) -> None:
        """From what the sink is known to have counted, and from nothing less."""
        driver.checkpoint(0, rows(0, 2))
        with suppress(SetBackError):  # a log does nothing: it counts as it applies
            driver.committer.count(driver.incarnation, 3, [], known=1)
        assert _counted(driver) == 0
        driver.committer.count(driver.incarnation, 3, [], known=0)
        assert _counted(driver) in (0, 3)

    def test_h34_catching_up_does_not_hide_that_a_sink_went_back(self, driver: SinkDriver) -> None:
        driver.checkpoint(0, rows(0, 2))
        with pytest.raises(SetBackError, match=f"{driver.name} went back in time: it counts checkpoints up to 0"):
            driver.committer.fast_forward(driver.incarnation, driver.epoch, 3, counted=1)
        assert _counted(driver) == 0
        driver.committer.fast_forward(driver.incarnation, driver.epoch, 3, counted=0)
        assert _counted(driver) == 3

    def test_h26_a_sink_that_counts_less_takes_no_checkpoint(self, driver: SinkDriver) -> None:
        driver.checkpoint(0, rows(0, 2))
        with pytest.raises(SetBackError, match=f"{driver.name} went back in time: it counts checkpoints up to 0"):
            driver.committer.permit(Scope(driver.incarnation, driver.epoch, 2), counted=1)
        driver.checkpoint(1, rows(2, 4))

    def test_h33_a_checkpoint_that_a_sink_has_is_not_permitted_again(self, driver: SinkDriver) -> None:
        """A driver asks that was set back with its memory. What it writes must not come beside what is there."""
        driver.checkpoint(0, rows(0, 2))
        driver.decided[1] = [driver.prepare(driver.permit(1), *rows(2, 4))]
        driver.permit(1, attempt=2)  # nothing of it is visible yet: another try
        driver.commit(1)  # and not counted
        scope = Scope(driver.incarnation, driver.epoch, 1)
        if not driver.committer.permits_once:
            with pytest.raises(
                SetBackError, match=f"{driver.name} already has checkpoint 1, which this driver is only"
            ):
                driver.committer.permit(scope)
            with pytest.raises(PermitRevokedError):
                driver.prepare(scope, *rows(4, 6))
        driver.committer.count(driver.incarnation, 1, driver.decided[1])
        for number in (0, 1):
            with pytest.raises(ConnectorError):  # a log says where its slots stand
                driver.committer.permit(Scope(driver.incarnation, driver.epoch, number))
        assert driver.target.rows() == Counter(rows(0, 4))

    def test_h27_a_sink_that_counts_less_is_not_claimed(self, driver: SinkDriver) -> None:
        driver.checkpoint(0, rows(0, 2))
        driver.prepare(driver.permit(1), *rows(2, 4))
        with pytest.raises(SetBackError, match=f"{driver.name} went back in time: it counts checkpoints up to 0"):
            driver.committer.claim(driver.incarnation, driver.epoch + 1, counted=1)
        assert len(driver.prepared()) == 1, "it was rolled back"
        with suppress(SetBackError):  # a log has no permits
            driver.committer.revoke(Scope(driver.incarnation, driver.epoch, 1), counted=True)
        assert len(driver.prepared()) == 1, "it was rolled back"

    def test_h26_a_sink_from_before_the_first_claim_is_not_claimed(self, target: Target) -> None:
        driver = SinkDriver(target)
        driver.start()
        driver.close()
        before = SinkDriver(target)  # nothing of this pipeline is there
        before.committer = before.sink.committer(before.pipeline)
        before.committer.inspect(before.incarnation, ())
        with pytest.raises(SetBackError, match="it counts no checkpoint, and had counted up to 4"):
            before.committer.claim(before.incarnation, 7, begins=4, counted=4)
        before.committer.claim(before.incarnation, 7)
        assert _counted(before) == -1
        before.committer.close()


def _commit_and_count(driver: SinkDriver, checkpoint_id: int) -> None:
    driver.committer.commit(checkpoint_id, [])
    driver.committer.count(driver.incarnation, checkpoint_id, [])


def _counted(driver: SinkDriver) -> int | None:
    return driver.committer.inspect(driver.incarnation, ()).counted
