"""What was lost after the decision: it is written again once (R7), also where a restored copy takes the target's place.

A copy of the target takes its place as a restored backup does (H26), for targets that can copy themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from connectors.testing.life import ALREADY, COMMITTED, Life
from connectors.testing.rows import rows
from eos.errors import ConnectorError, SetBackError
from twophase.ids import Scope
from twophase.values import CommitOutcome


class Repairing:
    """Behaviours of repairs."""

    def test_what_is_lost_is_written_again_once(self, life: Life) -> None:
        """R7: two tasks are decided, and what one of them has prepared is ended by hand."""
        life.checkpoint(0, rows(0, 3))
        scope = life.permit(1)
        first, second = [life.prepare(scope, *rows(3, 6)), life.prepare(scope, *rows(6, 8), task=1)]
        life.decided[1] = [first, second]
        assert life.committer.lost(1, [first, second]) == []
        life.lose(first)
        assert CommitOutcome.LOST in life.commit(1)
        assert life.committer.lost(1, [first, second]) == [first]
        again = life.write_again(1, first, *rows(3, 6))
        assert again.rows == first.rows
        assert life.target.rows() in (Counter(rows(0, 3)), Counter([*rows(0, 3), *rows(6, 8)]))
        life.decided[1] = [again, second]
        assert life.committer.lost(1, [again, second]) == []
        assert CommitOutcome.LOST not in life.commit(1)
        assert life.target.rows() == Counter(rows(0, 8))
        assert life.commit(1, life.another_committer()) == [ALREADY, ALREADY]
        life.committer.revoke(again.transaction.scope)
        state = life.committer.inspect(life.incarnation, [again, second])
        assert (state.highest_witness, state.missing) == (1, ())
        life.start()
        life.checkpoint(2, rows(8, 9))
        assert life.target.rows() == Counter(rows(0, 9))
        assert life.prepared() == []

    def test_what_is_written_again_and_not_decided_is_gone_with_the_next_start(self, life: Life) -> None:
        life.decided[0] = [life.prepare(life.permit(0), *rows(0, 3))]
        (lost,) = life.decided[0]
        life.lose(lost)
        life.write_again(0, lost, *rows(0, 3))
        assert life.commit(0) == [CommitOutcome.LOST]
        again = life.write_again(0, lost, *rows(0, 3))
        life.decided[0] = [again]
        life.start()
        assert life.target.rows() == Counter(rows(0, 3))
        assert life.prepared() == []

    def test_what_was_not_lost_is_not_written_again(self, life: Life) -> None:
        """Whatever a repair took it for: of the two only one is ever seen."""
        life.checkpoint(0, rows(0, 3))
        (kept,) = life.decided[0]
        assert life.committer.lost(0, [kept]) == []
        try:
            again = life.write_again(0, kept, *rows(0, 3))
        except ConnectorError:
            assert life.prepared() == []
        else:
            assert COMMITTED not in life.committer.commit(0, [again])
        assert life.target.rows() == Counter(rows(0, 3))


class SettingBack:
    """See the module."""

    def test_h26_a_copy_counts_what_it_shows(self, life: Life) -> None:
        life.checkpoint(0, rows(0, 2))
        set_back = _copy(life)
        life.checkpoint(1, rows(2, 4))
        set_back()
        assert life.target.rows() == Counter(rows(0, 2))
        assert life.committer.inspect(life.incarnation, life.decided[1]).counted == 0
        with pytest.raises(SetBackError, match="went back in time: it counts checkpoints up to 0"):
            life.committer.permit(Scope(life.incarnation, life.epoch, 2), counted=1)
        with pytest.raises(SetBackError, match="went back in time"):
            life.committer.claim(life.incarnation, life.epoch + 1, counted=1)

    def test_h26_a_copy_is_brought_forward_in_order(self, life: Life) -> None:
        """What the copy still holds, or a log still has, is committed once more, and each row is there once."""
        life.checkpoint(0, rows(0, 2))
        life.decided[1] = [life.prepare(life.permit(1), *rows(2, 4))]
        set_back = _copy(life)
        life.commit(1)
        life.committer.count(life.incarnation, 1, life.decided[1])
        set_back()
        outcomes = life.commit(1)
        shown = rows(0, 2) if CommitOutcome.LOST in outcomes else rows(0, 4)
        assert life.target.rows() == Counter(shown)

    def test_h26_a_copy_from_before_the_claim_is_noticed(self, life: Life) -> None:
        set_back = _copy(life)
        life.checkpoint(0, rows(0, 2))
        set_back()
        with pytest.raises(SetBackError):
            life.committer.claim(life.incarnation, life.epoch + 1, counted=0)
        assert life.target.rows() == Counter()


def _copy(life: Life) -> Callable[[], None]:
    """Copy the target now; the function puts the copy in its place."""
    copy: Callable[[], Callable[[], None]] | None = getattr(life.target, "copy", None)
    if copy is None:
        pytest.skip("not applicable: the target does not say how it is copied")
    return copy()
