"""A copy of the target takes its place, as a restored backup does (H26). For targets that can copy themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from connectors.testing.life import Life
from connectors.testing.rows import rows
from eos.errors import SetBackError
from twophase.ids import Scope
from twophase.values import CommitOutcome


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
