"""Rows that are merged by `n`."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from connectors.testing.rows import AT_ONCE, MANY, SCHEMA, Change, numbered, rows
from connectors.testing.sink_driver import ALREADY, SinkDriver
from eos.errors import BadRowError


class Merging:
    """Behaviours of merged rows."""

    def test_the_greatest_offset_wins_whichever_comes_first(self, driver: SinkDriver) -> None:
        old, new, between = Change(1, "old", 10), Change(1, "new", 30), Change(1, "between", 20)
        driver.checkpoint(0, [new, old, Change(2, "other", 5), between])
        assert driver.target.rows() == Counter([(1, "new"), (2, "other")])

    def test_a_later_checkpoint_takes_the_place_of_rows(self, driver: SinkDriver) -> None:
        driver.checkpoint(0, rows(0, 5))
        driver.checkpoint(1, [Change(1, "changed"), Change(7, "added")], [Change(2, None)])
        expected = {**dict(rows(0, 5)), 1: "changed", 2: None, 7: "added"}
        assert driver.target.rows() == Counter(expected.items())

    def test_keys_are_deleted(self, driver: SinkDriver) -> None:
        driver.checkpoint(0, rows(0, 5))
        again = [Change(3, gone=True, offset=100), Change(3, "again", offset=101)]
        never = [Change(9, "never seen", offset=100), Change(9, gone=True, offset=101)]
        driver.checkpoint(1, [Change(1, gone=True), Change(8, gone=True), *again, *never])
        assert driver.target.rows() == Counter({0: "row 0", 2: "row 2", 3: "again", 4: "row 4"}.items())

    def test_h16_a_stale_replay_revives_nothing(self, driver: SinkDriver) -> None:
        """A driver that was frozen before it applied a checkpoint wakes up when the next ones are applied."""
        driver.checkpoint(0, rows(0, 5))
        driver.checkpoint(1, [Change(1, gone=True), Change(2, "newer")])
        late = driver.another_committer()
        assert set(driver.commit(0, late)) == {ALREADY}
        late.close()
        assert driver.target.rows() == Counter({0: "row 0", 2: "newer", 3: "row 3", 4: "row 4"}.items())

    def test_a_key_that_is_null_is_a_bad_row(self, driver: SinkDriver) -> None:
        writer = driver.writer(driver.permit(0))
        broken = numbered(0, 2).set_column(0, SCHEMA.field("n"), pa.array([1, None], pa.int64()))
        with pytest.raises(BadRowError, match="row 2, column 'n': NULL in a key"):
            writer.write(broken.select(list(driver.sink.columns)))
        writer.abort()

    def test_a_batch_that_is_refused_whole_leaves_nothing_and_the_writer_goes_on(self, driver: SinkDriver) -> None:
        writer = driver.writer(driver.permit(0))
        broken = numbered(0, 2).set_column(0, SCHEMA.field("n"), pa.array([1, None], pa.int64()))
        for each in (numbered(0, 3), broken, numbered(3, 5)):
            columns = each.select(list(driver.sink.columns))
            if each is broken:
                with pytest.raises(BadRowError, match="NULL in a key"):
                    writer.write_atomic(columns)
            else:
                writer.write_atomic(columns)
        driver.decided[0] = [writer.prepare()]
        assert driver.decided[0][0].rows == 5
        driver.commit(0)
        assert driver.target.rows() == Counter((n, str(n)) for n in range(5))

    def test_many_changes_of_few_keys(self, driver: SinkDriver) -> None:
        """More than a writer keeps: it lets go of old ones on the way."""
        writer = driver.writer(driver.permit(0))
        for start in range(0, MANY, AT_ONCE):
            batch = numbered(start, start + AT_ONCE)
            few = pa.array([n % 1000 for n in range(start, start + AT_ONCE)], pa.int64())
            writer.write(batch.set_column(0, SCHEMA.field("n"), few).select(list(driver.sink.columns)))
        driver.decided[0] = [writer.prepare()]
        assert driver.decided[0][0].rows == MANY
        driver.commit(0)
        assert driver.target.rows() == Counter((n, str(MANY - 1000 + n)) for n in range(1000))
