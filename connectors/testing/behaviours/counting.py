"""A sink counts the checkpoints that it shows, so that one that went back in time is noticed (H26, H27)."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import pytest

from connectors.testing.life import Life
from connectors.testing.rows import rows
from connectors.testing.target import Target
from eos.errors import ConnectorError, PermitRevokedError, SetBackError
from twophase.ids import Scope


class Counting:
    """Behaviours of the count of committed checkpoints."""

    def test_h26_a_sink_counts_what_it_shows(self, target: Target) -> None:
        life = Life(target)
        committer = life.sink.committer(life.pipeline)
        assert committer.inspect(life.incarnation, ()).counted is None
        committer.close()
        life.start()
        try:
            counts = [_counted(life)]
            for number in range(3):
                life.checkpoint(number, rows(number, number + 1))
                counts.append(_counted(life))
            life.checkpoint(3)  # no task has had a row
            counts.append(_counted(life))
            life.start()
            assert [*counts, _counted(life)] == [-1, 0, 1, 2, 3, 3]
        finally:
            life.close()

    def test_h26_what_is_not_shown_is_not_counted(self, life: Life) -> None:
        life.checkpoint(0, rows(0, 2))
        life.decided[1] = [life.prepare(life.permit(1), *rows(2, 4))]
        with suppress(SetBackError):  # a log does nothing: it counts as it applies
            life.committer.count(life.incarnation, 1, life.decided[1])
        assert _counted(life) == 0
        life.commit(1)
        life.committer.count(life.incarnation, 1, life.decided[1])
        life.committer.count(life.incarnation, 1, life.decided[1])  # the answer was lost
        assert _counted(life) == 1

    def test_h26_a_count_moves_by_one_checkpoint(self, life: Life) -> None:
        life.checkpoint(0, rows(0, 2))
        with pytest.raises(ConnectorError):
            _commit_and_count(life, 2)
        assert _counted(life) == 0

    def test_h34_a_count_moves_over_at_least_once_checkpoints(self, life: Life) -> None:
        """From what the sink is known to have counted, and from nothing less."""
        life.checkpoint(0, rows(0, 2))
        with suppress(SetBackError):  # a log does nothing: it counts as it applies
            life.committer.count(life.incarnation, 3, [], known=1)
        assert _counted(life) == 0
        life.committer.count(life.incarnation, 3, [], known=0)
        assert _counted(life) in (0, 3)

    def test_h34_catching_up_does_not_hide_that_a_sink_went_back(self, life: Life) -> None:
        life.checkpoint(0, rows(0, 2))
        with pytest.raises(SetBackError, match=f"{life.name} went back in time: it counts checkpoints up to 0"):
            life.committer.catch_up(life.incarnation, life.epoch, 3, counted=1)
        assert _counted(life) == 0
        life.committer.catch_up(life.incarnation, life.epoch, 3, counted=0)
        assert _counted(life) == 3

    def test_h26_a_sink_that_counts_less_takes_no_checkpoint(self, life: Life) -> None:
        life.checkpoint(0, rows(0, 2))
        with pytest.raises(SetBackError, match=f"{life.name} went back in time: it counts checkpoints up to 0"):
            life.committer.permit(Scope(life.incarnation, life.epoch, 2), counted=1)
        life.checkpoint(1, rows(2, 4))

    def test_h33_a_checkpoint_that_a_sink_has_is_not_permitted_again(self, life: Life) -> None:
        """A driver asks that was set back with its memory. What it writes must not come beside what is there."""
        life.checkpoint(0, rows(0, 2))
        life.decided[1] = [life.prepare(life.permit(1), *rows(2, 4))]
        life.permit(1, attempt=2)  # nothing of it is visible yet: another try
        life.commit(1)  # and not counted
        scope = Scope(life.incarnation, life.epoch, 1)
        if not life.committer.permits_once:
            with pytest.raises(SetBackError, match=f"{life.name} already has checkpoint 1, which this driver is only"):
                life.committer.permit(scope)
            with pytest.raises(PermitRevokedError):
                life.prepare(scope, *rows(4, 6))
        life.committer.count(life.incarnation, 1, life.decided[1])
        for number in (0, 1):
            with pytest.raises(ConnectorError):  # a log says where its slots stand
                life.committer.permit(Scope(life.incarnation, life.epoch, number))
        assert life.target.rows() == Counter(rows(0, 4))

    def test_h27_a_sink_that_counts_less_is_not_claimed(self, life: Life) -> None:
        life.checkpoint(0, rows(0, 2))
        life.prepare(life.permit(1), *rows(2, 4))
        with pytest.raises(SetBackError, match=f"{life.name} went back in time: it counts checkpoints up to 0"):
            life.committer.claim(life.incarnation, life.epoch + 1, counted=1)
        assert len(life.prepared()) == 1, "it was rolled back"
        with suppress(SetBackError):  # a log has no permits
            life.committer.revoke(Scope(life.incarnation, life.epoch, 1), counted=True)
        assert len(life.prepared()) == 1, "it was rolled back"

    def test_h26_a_sink_from_before_the_first_claim_is_not_claimed(self, target: Target) -> None:
        life = Life(target)
        life.start()
        life.close()
        before = Life(target)  # nothing of this pipeline is there
        before.committer = before.sink.committer(before.pipeline)
        before.committer.inspect(before.incarnation, ())
        with pytest.raises(SetBackError, match="it counts no checkpoint, and had counted up to 4"):
            before.committer.claim(before.incarnation, 7, begins=4, counted=4)
        before.committer.claim(before.incarnation, 7)
        assert _counted(before) == -1
        before.committer.close()


def _commit_and_count(life: Life, checkpoint_id: int) -> None:
    life.committer.commit(checkpoint_id, [])
    life.committer.count(life.incarnation, checkpoint_id, [])


def _counted(life: Life) -> int | None:
    return life.committer.inspect(life.incarnation, ()).counted
