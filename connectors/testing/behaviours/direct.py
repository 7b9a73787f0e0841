"""At-least-once: tasks commit their rows themselves."""

from __future__ import annotations

from collections import Counter

import pytest

from connectors.testing.life import COMMITTED, Life
from connectors.testing.rows import TEXTS, batch, rows
from twophase.ids import Scope, TransactionId, sink_key


class Direct:
    """Behaviours of at-least-once writers."""

    def test_rows_of_an_at_least_once_run_are_seen_at_once(self, life: Life) -> None:
        _skip_where_rows_are_merged(life)
        scope = Scope(life.incarnation, life.epoch, 0, 1)
        written = [(0, text) for text in TEXTS]
        assert life.write_directly(scope, *written).rows == len(written)
        assert life.target.rows() == Counter(written)
        assert life.write_directly(scope, task=1).rows == 0
        life.write_directly(scope, *written)  # another attempt of the task
        assert life.target.rows() == Counter(written * 2)
        assert life.prepared() == []

    def test_batches_written_whole_at_least_once(self, life: Life) -> None:
        _skip_where_rows_are_merged(life)
        scope = Scope(life.incarnation, life.epoch, 0, 1)
        writer = life.sink.direct_writer(TransactionId(scope, sink_key(life.name), 0, 1))
        for each in (rows(0, 3), rows(3, 3), rows(3, 8)):
            writer.write_whole(batch(*each).select(list(life.sink.columns)))
        assert writer.commit().rows == 8
        assert life.target.rows() == Counter(rows(0, 8))

    def test_a_run_may_be_at_least_once_between_two_that_are_exactly_once(self, life: Life) -> None:
        """Nothing that was decided is doubled or lost on the way."""
        _skip_where_rows_are_merged(life)
        life.checkpoint(0, rows(0, 5), rows(5, 8))
        scope = life.permit(1)
        life.decided[1] = [life.prepare(scope, *rows(8, 9))]
        life.start()  # at-least-once: what is decided is committed first
        for number in (2, 3):
            own = Scope(life.incarnation, life.epoch, number, 1)
            life.write_directly(own, *rows(number * 10, number * 10 + 3))
        life.start()
        for _ in range(2):
            life.committer.catch_up(life.incarnation, life.epoch, 3)
        life.checkpoint(4, rows(40, 42), rows(42, 45))
        assert COMMITTED not in [*life.commit(0), *life.commit(1), *life.commit(4)]
        assert life.target.rows() == Counter([*rows(0, 9), *rows(20, 23), *rows(30, 33), *rows(40, 45)])


def _skip_where_rows_are_merged(life: Life) -> None:
    if life.target.keyed:
        pytest.skip("not applicable: rows that are merged are written exactly-once only")
