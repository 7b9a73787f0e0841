"""Rows arrive as they are: every value, in batches of any size; by two-phase writers, at least once, or merged."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from connectors.testing.rows import AT_ONCE, MANY, SCHEMA, TEXTS, Change, batch, numbered, rows
from connectors.testing.sink_driver import ALREADY, COMMITTED, SinkDriver
from connectors.testing.target import schema_for
from eos.errors import BadRowError
from twophase.ids import Scope, TransactionId, sink_key


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
