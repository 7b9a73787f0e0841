"""What a start finds and ends, of its own pipeline and of nobody else."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

import pytest

from connectors.testing.rows import rows
from connectors.testing.sink_driver import SinkDriver, new_incarnation
from connectors.testing.target import Target
from eos.errors import ConnectorError, FencedError, IdentityError
from twophase.ids import Scope


class Starting:
    """Behaviours of starts."""

    late_writers: ClassVar[bool] = False
    """Whether a claim cannot end a writer that lives on. What that one prepares is decided by nobody, keeps nothing
    locked, and is gone with the next checkpoint."""

    def test_a_start_commits_what_is_decided_and_aborts_the_rest(self, driver: SinkDriver) -> None:
        driver.checkpoint(0, rows(0, 5))
        scope = driver.permit(1)
        driver.decided[1] = [driver.prepare(scope, *rows(5, 8))]
        driver.prepare(scope, *rows(5, 8))  # a sibling that nobody waited for
        driver.start()
        assert driver.prepared() == []
        driver.checkpoint(2, rows(8, 9))
        assert driver.target.rows() == Counter(rows(0, 9))

    def test_nobody_older_prepares_after_a_claim(self, driver: SinkDriver) -> None:
        scope = driver.permit(0)
        open_before, old = driver.writer(scope), driver.committer
        driver.write(open_before, *rows(0, 5))
        driver.start()
        with pytest.raises(FencedError):
            old.permit(Scope(driver.incarnation, 1, 0, 2))
        with pytest.raises(FencedError):
            old.claim(driver.incarnation, 1)
        if self.late_writers:
            open_before.prepare()
        else:
            with pytest.raises(ConnectorError):
                open_before.prepare()
        open_before.abort()
        assert len(driver.prepared()) == self.late_writers
        driver.checkpoint(0, rows(0, 5))
        assert driver.target.rows() == Counter(rows(0, 5))
        assert driver.prepared() == []

    def test_another_life_is_refused_unless_it_takes_over(self, driver: SinkDriver) -> None:
        driver.checkpoint(0, rows(0, 5))
        other = SinkDriver(driver.target, driver.pipeline, incarnation=new_incarnation())
        with pytest.raises(IdentityError):
            other.start()
        other.start(take_over=True)
        with pytest.raises(FencedError):
            driver.permit(1)
        other.checkpoint(0, rows(5, 8))
        assert driver.target.rows() == Counter(rows(0, 8))
        other.close()

    def test_two_pipelines_and_two_sinks_share_a_place(self, driver: SinkDriver) -> None:
        others = [SinkDriver(driver.target), SinkDriver(driver.target, driver.pipeline, name="second")]
        for other in others:
            other.start()
        mine = driver.prepare(driver.permit(0), *rows(0, 2))
        theirs = [other.prepare(other.permit(0), *rows(2, 4)) for other in others]
        assert [each.transaction for each in driver.prepared()] == [mine.transaction]
        driver.decided[0] = [mine]
        driver.commit(0)
        driver.committer.prune(driver.incarnation, 100)
        for other, committable in zip(others, theirs, strict=True):
            other.decided[0] = [committable]
            other.commit(0)
            other.close()
        assert driver.target.rows() == Counter(rows(0, 4) if driver.target.keyed else [*rows(0, 4), *rows(2, 4)])

    def test_what_is_foreign_is_left_alone(self, target: Target) -> None:
        check = target.leave_foreign()
        if check is None:
            pytest.skip("not applicable: nothing of other programs can be prepared here")
        driver = SinkDriver(target)
        driver.start()
        try:
            driver.checkpoint(0, rows(0, 3))
            driver.start()
            listed = driver.committer.prepared(driver.incarnation)
            assert [each for each in listed if each.transaction is None], "it is not reported"
            driver.committer.abort(listed)
        finally:
            check()
            driver.close()
