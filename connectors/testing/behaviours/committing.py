"""What becomes visible, when, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from connectors.api.contracts import Sink
from connectors.testing.life import ALREADY, COMMITTED, Life
from connectors.testing.rows import rows
from eos.errors import IdentityError
from twophase.values import CommitOutcome, Committable


class Committing:
    """Behaviours of commits."""

    def test_rows_are_seen_with_the_commit_and_not_before(self, life: Life) -> None:
        scope = life.permit(0)
        life.decided[0] = [life.prepare(scope, *rows(0, 5)), life.prepare(scope, *rows(5, 8), task=1)]
        assert life.target.rows() == Counter()
        assert len(life.prepared()) == 2
        assert life.commit(0) == [COMMITTED, COMMITTED]
        assert life.target.rows() == Counter(rows(0, 8))
        assert life.prepared() == []

    def test_a_second_commit_adds_nothing(self, life: Life) -> None:
        life.checkpoint(0, rows(0, 5), rows(5, 8))
        assert life.commit(0) == [ALREADY, ALREADY]
        assert life.commit(0, life.another_committer()) == [ALREADY, ALREADY]
        assert life.target.rows() == Counter(rows(0, 8))

    def test_another_process_commits(self, life: Life) -> None:
        scope = life.permit(0)
        life.decided[0] = [life.prepare(scope, *rows(0, 5)), life.prepare(scope, *rows(5, 8), task=1)]
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as other:
            asked = (life.sink, life.pipeline, life.incarnation, 0, life.decided[0])
            assert other.submit(_commit_elsewhere, *asked).result(timeout=60) == [COMMITTED, COMMITTED]
        assert life.commit(0) == [ALREADY, ALREADY]
        assert life.target.rows() == Counter(rows(0, 8))

    def test_what_is_aborted_is_never_seen(self, life: Life) -> None:
        scope = life.permit(0)
        life.prepare(scope, *rows(0, 5))
        listed = life.prepared()
        life.committer.abort(listed)
        life.committer.abort(listed)
        life.committer.revoke(scope)
        assert life.prepared() == []
        again = life.permit(0, attempt=2)
        life.decided[0] = [life.prepare(again, *rows(0, 5))]
        assert life.commit(0) == [COMMITTED]
        assert life.target.rows() == Counter(rows(0, 5))

    def test_what_is_committed_is_not_aborted(self, life: Life) -> None:
        life.decided[0] = [life.prepare(life.permit(0), *rows(0, 5))]
        listed = life.prepared()
        life.commit(0)
        with pytest.raises(IdentityError):
            life.committer.abort(listed)
        assert life.target.rows() == Counter(rows(0, 5))

    def test_of_a_task_that_ran_twice_one_attempt_is_seen(self, life: Life) -> None:
        """H1: the first attempt has prepared, and its acknowledgement was lost; or it is still writing."""
        scope = life.permit(0)
        life.prepare(scope, *rows(0, 5))
        late = life.writer(scope)
        life.write(late, *rows(0, 5))
        life.decided[0] = [life.prepare(scope, *rows(0, 5))]
        life.commit(0)
        late.abort()
        life.committer.count(life.incarnation, 0, life.decided[0])
        life.committer.revoke(scope, counted=True)
        assert life.prepared() == []
        life.checkpoint(1, rows(5, 8))
        assert life.target.rows() == Counter(rows(0, 8))

    def test_checkpoints_without_rows(self, life: Life) -> None:
        life.checkpoint(0)
        life.checkpoint(1, (), ())
        life.checkpoint(2, rows(0, 3), ())
        assert {*life.commit(1), *life.commit(2)} <= {COMMITTED, ALREADY}
        assert life.target.rows() == Counter(rows(0, 3))

    def test_a_witness_tells_what_is_committed(self, life: Life) -> None:
        life.checkpoint(0, rows(0, 5))
        scope = life.permit(1)
        (seen,), waiting = life.decided[0], life.prepare(scope, *rows(5, 8))
        state = life.committer.inspect(life.incarnation, [seen, waiting])
        assert (state.claim_incarnation, state.claim_epoch) == (life.incarnation, 1)
        assert (state.highest_witness, state.missing) == (0, (waiting.transaction,))

    def test_a_replay_after_pruning_adds_nothing(self, life: Life) -> None:
        for number in range(4):
            life.checkpoint(number, rows(number, number + 1))
        life.committer.prune(life.incarnation, 3)
        assert COMMITTED not in life.committer.commit(0, life.decided[0])
        assert life.commit(3) == [ALREADY]
        assert life.target.rows() == Counter(rows(0, 4))


def _commit_elsewhere(
    sink: Sink, pipeline: str, incarnation: str, checkpoint_id: int, committables: Sequence[Committable]
) -> list[CommitOutcome]:
    committer = sink.committer(pipeline)
    committer.inspect(incarnation, ())
    try:
        return list(committer.commit(checkpoint_id, committables))
    finally:
        committer.close()
