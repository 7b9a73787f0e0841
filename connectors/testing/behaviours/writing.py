"""Rows arrive as they are: every value, in batches of any size."""

from __future__ import annotations

from collections import Counter

from connectors.testing.rows import AT_ONCE, MANY, TEXTS, batch, numbered, rows
from connectors.testing.sink_driver import COMMITTED, SinkDriver
from connectors.testing.target import schema_for


class Writing:
    """Behaviours of two-phase writers."""

    def test_columns_are_foreseen_as_they_are_found(self, driver: SinkDriver) -> None:
        assert driver.target.sink(driver.name).dry_run(schema_for(driver.target)) == driver.sink.columns

    def test_batches_written_whole(self, driver: SinkDriver) -> None:
        writer = driver.writer(driver.permit(0))
        for each in (rows(0, 3), rows(3, 3), rows(3, 8)):
            writer.write_atomic(batch(*each).select(list(driver.sink.columns)))
        driver.decided[0] = [writer.prepare()]
        assert driver.decided[0][0].rows == 8
        assert driver.commit(0) == [COMMITTED]
        assert driver.target.rows() == Counter(rows(0, 8))

    def test_values_come_back_as_they_went(self, driver: SinkDriver) -> None:
        numbers = (0, -1, 2**63 - 1, -(2**63))
        written = [*((n, "number") for n in numbers), *((n, text) for n, text in enumerate(TEXTS, 1))]
        driver.checkpoint(0, written)
        assert driver.target.rows() == Counter(written)

    def test_a_million_rows(self, driver: SinkDriver) -> None:
        scope = driver.permit(0)
        writers = [driver.writer(scope, task) for task in range(2)]
        for start in range(0, MANY, AT_ONCE):
            writers[start // AT_ONCE % 2].write(numbered(start, start + AT_ONCE).select(list(driver.sink.columns)))
        driver.decided[0] = [writer.prepare() for writer in writers]
        assert sum(each.rows for each in driver.decided[0]) == MANY
        driver.commit(0)
        seen = driver.target.rows()
        assert (seen.total(), len(seen)) == (MANY, MANY)
        assert all(seen[n, str(n)] == 1 for n in range(0, MANY, 997))
