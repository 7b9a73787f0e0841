"""What a start finds and ends, of its own pipeline and of nobody else."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

import pytest

from connectors.testing.life import Life, new_incarnation
from connectors.testing.rows import rows
from connectors.testing.target import Target
from eos.errors import ConnectorError, FencedError, IdentityError
from twophase.ids import Scope


class Starting:
    """Behaviours of starts."""

    late_writers: ClassVar[bool] = False
    """Whether a claim cannot end a writer that lives on. What that one prepares is decided by nobody, keeps nothing
    locked, and is gone with the next checkpoint."""

    def test_a_start_commits_what_is_decided_and_aborts_the_rest(self, life: Life) -> None:
        life.checkpoint(0, rows(0, 5))
        scope = life.permit(1)
        life.decided[1] = [life.prepare(scope, *rows(5, 8))]
        life.prepare(scope, *rows(5, 8))  # a sibling that nobody waited for
        life.start()
        assert life.prepared() == []
        life.checkpoint(2, rows(8, 9))
        assert life.target.rows() == Counter(rows(0, 9))

    def test_nobody_older_prepares_after_a_claim(self, life: Life) -> None:
        scope = life.permit(0)
        open_before, old = life.writer(scope), life.committer
        life.write(open_before, *rows(0, 5))
        life.start()
        with pytest.raises(FencedError):
            old.permit(Scope(life.incarnation, 1, 0, 2))
        with pytest.raises(FencedError):
            old.claim(life.incarnation, 1)
        if self.late_writers:
            open_before.prepare()
        else:
            with pytest.raises(ConnectorError):
                open_before.prepare()
        open_before.abort()
        assert len(life.prepared()) == self.late_writers
        life.checkpoint(0, rows(0, 5))
        assert life.target.rows() == Counter(rows(0, 5))
        assert life.prepared() == []

    def test_another_life_is_refused_unless_it_takes_over(self, life: Life) -> None:
        life.checkpoint(0, rows(0, 5))
        other = Life(life.target, life.pipeline, incarnation=new_incarnation())
        with pytest.raises(IdentityError):
            other.start()
        other.start(take_over=True)
        with pytest.raises(FencedError):
            life.permit(1)
        other.checkpoint(0, rows(5, 8))
        assert life.target.rows() == Counter(rows(0, 8))
        other.close()

    def test_two_pipelines_and_two_sinks_share_a_place(self, life: Life) -> None:
        others = [Life(life.target), Life(life.target, life.pipeline, name="second")]
        for other in others:
            other.start()
        mine = life.prepare(life.permit(0), *rows(0, 2))
        theirs = [other.prepare(other.permit(0), *rows(2, 4)) for other in others]
        assert [each.transaction for each in life.prepared()] == [mine.transaction]
        life.decided[0] = [mine]
        life.commit(0)
        life.committer.prune(life.incarnation, 100)
        for other, committable in zip(others, theirs, strict=True):
            other.decided[0] = [committable]
            other.commit(0)
            other.close()
        assert life.target.rows() == Counter(rows(0, 4) if life.target.keyed else [*rows(0, 4), *rows(2, 4)])

    def test_what_is_foreign_is_left_alone(self, target: Target) -> None:
        check = target.leave_foreign()
        if check is None:
            pytest.skip("not applicable: nothing of other programs can be prepared here")
        life = Life(target)
        life.start()
        try:
            life.checkpoint(0, rows(0, 3))
            life.start()
            listed = life.committer.prepared(life.incarnation)
            assert [each for each in listed if each.transaction is None], "it is not reported"
            life.committer.abort(listed)
        finally:
            check()
            life.close()
