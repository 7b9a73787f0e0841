"""R7: what is lost of a decided checkpoint is written again, once."""

from __future__ import annotations

from collections import Counter

from connectors.testing.life import ALREADY, COMMITTED, Life
from connectors.testing.rows import rows
from eos.errors import ConnectorError
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
