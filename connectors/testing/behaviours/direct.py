"""At-least-once: tasks commit their rows themselves."""

from __future__ import annotations

from collections import Counter

import pytest

from connectors.testing.rows import TEXTS, batch, rows
from connectors.testing.sink_driver import COMMITTED, SinkDriver
from twophase.ids import Scope, TransactionId, sink_key


class Direct:
    """Behaviours of at-least-once writers."""

    def test_rows_of_an_at_least_once_run_are_seen_at_once(self, driver: SinkDriver) -> None:
        _skip_where_rows_are_merged(driver)
        scope = Scope(driver.incarnation, driver.epoch, 0, 1)
        written = [(0, text) for text in TEXTS]
        assert driver.write_directly(scope, *written).rows == len(written)
        assert driver.target.rows() == Counter(written)
        assert driver.write_directly(scope, task=1).rows == 0
        driver.write_directly(scope, *written)  # another attempt of the task
        assert driver.target.rows() == Counter(written * 2)
        assert driver.prepared() == []

    def test_batches_written_whole_at_least_once(self, driver: SinkDriver) -> None:
        _skip_where_rows_are_merged(driver)
        scope = Scope(driver.incarnation, driver.epoch, 0, 1)
        writer = driver.sink.direct_writer(TransactionId(scope, sink_key(driver.name), 0, 1))
        for each in (rows(0, 3), rows(3, 3), rows(3, 8)):
            writer.write_atomic(batch(*each).select(list(driver.sink.columns)))
        assert writer.commit().rows == 8
        assert driver.target.rows() == Counter(rows(0, 8))

    def test_a_run_may_be_at_least_once_between_two_that_are_exactly_once(self, driver: SinkDriver) -> None:
        """Nothing that was decided is doubled or lost on the way."""
        _skip_where_rows_are_merged(driver)
        driver.checkpoint(0, rows(0, 5), rows(5, 8))
        scope = driver.permit(1)
        driver.decided[1] = [driver.prepare(scope, *rows(8, 9))]
        driver.start()  # at-least-once: what is decided is committed first
        for number in (2, 3):
            own = Scope(driver.incarnation, driver.epoch, number, 1)
            driver.write_directly(own, *rows(number * 10, number * 10 + 3))
        driver.start()
        for _ in range(2):
            driver.committer.fast_forward(driver.incarnation, driver.epoch, 3)
        driver.checkpoint(4, rows(40, 42), rows(42, 45))
        assert COMMITTED not in [*driver.commit(0), *driver.commit(1), *driver.commit(4)]
        assert driver.target.rows() == Counter([*rows(0, 9), *rows(20, 23), *rows(30, 33), *rows(40, 45)])


def _skip_where_rows_are_merged(driver: SinkDriver) -> None:
    if driver.target.keyed:
        pytest.skip("not applicable: rows that are merged are written exactly-once only")
