"""What becomes visible, when, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from connectors.api.contracts import Sink
from connectors.testing.rows import rows
from connectors.testing.sink_driver import ALREADY, COMMITTED, SinkDriver
from eos.errors import IdentityError
from twophase.values import CommitOutcome, Committable


class Committing:
    """Behaviours of commits."""

    def test_rows_are_seen_with_the_commit_and_not_before(self, driver: SinkDriver) -> None:
        scope = driver.permit(0)
        driver.decided[0] = [driver.prepare(scope, *rows(0, 5)), driver.prepare(scope, *rows(5, 8), task=1)]
        assert driver.target.rows() == Counter()
        assert len(driver.prepared()) == 2
        assert driver.commit(0) == [COMMITTED, COMMITTED]
        assert driver.target.rows() == Counter(rows(0, 8))
        assert driver.prepared() == []

    def test_a_second_commit_adds_nothing(self, driver: SinkDriver) -> None:
        driver.checkpoint(0, rows(0, 5), rows(5, 8))
        assert driver.commit(0) == [ALREADY, ALREADY]
        assert driver.commit(0, driver.another_committer()) == [ALREADY, ALREADY]
        assert driver.target.rows() == Counter(rows(0, 8))

    def test_another_process_commits(self, driver: SinkDriver) -> None:
        scope = driver.permit(0)
        driver.decided[0] = [driver.prepare(scope, *rows(0, 5)), driver.prepare(scope, *rows(5, 8), task=1)]
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as other:
            asked = (driver.sink, driver.pipeline, driver.incarnation, 0, driver.decided[0])
            assert other.submit(_commit_elsewhere, *asked).result(timeout=60) == [COMMITTED, COMMITTED]
        assert driver.commit(0) == [ALREADY, ALREADY]
        assert driver.target.rows() == Counter(rows(0, 8))

    def test_what_is_aborted_is_never_seen(self, driver: SinkDriver) -> None:
        scope = driver.permit(0)
        driver.prepare(scope, *rows(0, 5))
        listed = driver.prepared()
        driver.committer.abort(listed)
        driver.committer.abort(listed)
        driver.committer.revoke(scope)
        assert driver.prepared() == []
        again = driver.permit(0, attempt=2)
        driver.decided[0] = [driver.prepare(again, *rows(0, 5))]
        assert driver.commit(0) == [COMMITTED]
        assert driver.target.rows() == Counter(rows(0, 5))

    def test_what_is_committed_is_not_aborted(self, driver: SinkDriver) -> None:
        driver.decided[0] = [driver.prepare(driver.permit(0), *rows(0, 5))]
        listed = driver.prepared()
        driver.commit(0)
        with pytest.raises(IdentityError):
            driver.committer.abort(listed)
        assert driver.target.rows() == Counter(rows(0, 5))

    def test_of_a_task_that_ran_twice_one_attempt_is_seen(self, driver: SinkDriver) -> None:
        """H1: the first attempt has prepared, and its acknowledgement was lost; or it is still writing."""
        scope = driver.permit(0)
        driver.prepare(scope, *rows(0, 5))
        late = driver.writer(scope)
        driver.write(late, *rows(0, 5))
        driver.decided[0] = [driver.prepare(scope, *rows(0, 5))]
        driver.commit(0)
        late.abort()
        driver.committer.count(driver.incarnation, 0, driver.decided[0])
        driver.committer.revoke(scope, counted=True)
        assert driver.prepared() == []
        driver.checkpoint(1, rows(5, 8))
        assert driver.target.rows() == Counter(rows(0, 8))

    def test_checkpoints_without_rows(self, driver: SinkDriver) -> None:
        driver.checkpoint(0)
        driver.checkpoint(1, (), ())
        driver.checkpoint(2, rows(0, 3), ())
        assert {*driver.commit(1), *driver.commit(2)} <= {COMMITTED, ALREADY}
        assert driver.target.rows() == Counter(rows(0, 3))

    def test_a_witness_tells_what_is_committed(self, driver: SinkDriver) -> None:
        driver.checkpoint(0, rows(0, 5))
        scope = driver.permit(1)
        (seen,), waiting = driver.decided[0], driver.prepare(scope, *rows(5, 8))
        state = driver.committer.inspect(driver.incarnation, [seen, waiting])
        assert (state.claim_incarnation, state.claim_epoch) == (driver.incarnation, 1)
        assert (state.highest_witness, state.missing) == (0, (waiting.transaction,))

    def test_a_replay_after_pruning_adds_nothing(self, driver: SinkDriver) -> None:
        for number in range(4):
            driver.checkpoint(number, rows(number, number + 1))
        driver.committer.prune(driver.incarnation, 3)
        assert COMMITTED not in driver.committer.commit(0, driver.decided[0])
        assert driver.commit(3) == [ALREADY]
        assert driver.target.rows() == Counter(rows(0, 4))


def _commit_elsewhere(
    sink: Sink, pipeline: str, incarnation: str, checkpoint_id: int, committables: Sequence[Committable]
) -> list[CommitOutcome]:
    committer = sink.committer(pipeline)
    committer.inspect(incarnation, ())
    try:
        return list(committer.commit(checkpoint_id, committables))
    finally:
        committer.close()
