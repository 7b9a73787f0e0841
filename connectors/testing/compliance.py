"""The behaviours of every sink and every commit variant. Derive from `SinkCompliance` and provide `target`:

class TestMySinkTwoPhase(SinkCompliance):
    @pytest.fixture
    def target(self) -> Target: ...
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import ClassVar, Final

import pyarrow as pa
import pytest

from connectors.contracts import Sink
from connectors.testing.life import Life, new_incarnation
from connectors.testing.target import SCHEMA, Change, Row, Target, batch, schema_for
from twophase.errors import BadRowError, ConnectorError, FencedError, IdentityError
from twophase.ids import Scope
from twophase.values import CommitOutcome, Committable

COMMITTED, ALREADY = CommitOutcome.COMMITTED, CommitOutcome.ALREADY_COMMITTED

TEXTS: Final = (
    *(None, "", " ", "\\", "\\N", "NULL", "'", '"', "\t", "\n", "\r\n", "a,b;c", "%s %%"),
    *("\u017c\u00f3\u0142\u0107", "\U0001d518\U0001f600", "x" * 200),
)
"""Texts that a careless encoder changes."""

MANY: Final = 1_000_000
_BATCH: Final = 50_000


def rows(start: int, stop: int) -> list[Row]:
    """Rows that are told apart by their number."""
    return [(n, f"row {n}") for n in range(start, stop)]


class SinkCompliance:
    """Each test is one behaviour, on a fresh target."""

    late_writers: ClassVar[bool] = False
    """Whether a claim cannot end a writer that lives on. What that one prepares is decided by nobody, keeps nothing
    locked, and is gone with the next checkpoint."""

    events: ClassVar[int] = 30
    """How many come by chance, one after another; fewer for a service that takes its time to start."""

    @pytest.fixture
    def target(self) -> Target:
        """Provided by the class that lists a sink."""
        raise NotImplementedError

    @pytest.fixture
    def life(self, target: Target) -> Iterator[Life]:
        made = Life(target)
        made.start()
        yield made
        made.close()

    def test_rows_are_seen_with_the_commit_and_not_before(self, life: Life) -> None:
        scope = life.permit(0)
        life.decided[0] = [life.prepare(scope, *rows(0, 5)), life.prepare(scope, *rows(5, 8), task=1)]
        assert life.target.rows() == Counter()
        assert len(life.prepared()) == 2
        assert life.commit(0) == [COMMITTED, COMMITTED]
        assert life.target.rows() == Counter(rows(0, 8))
        assert life.prepared() == []

    def test_columns_are_foreseen_as_they_are_found(self, life: Life) -> None:
        assert life.target.sink(life.name).foresee(schema_for(life.target)) == life.sink.columns

    def test_batches_written_whole(self, life: Life) -> None:
        writer = life.writer(life.permit(0))
        for each in (rows(0, 3), rows(3, 3), rows(3, 8)):
            writer.write_whole(batch(*each).select(list(life.sink.columns)))
        life.decided[0] = [writer.prepare()]
        assert life.decided[0][0].rows == 8
        assert life.commit(0) == [COMMITTED]
        assert life.target.rows() == Counter(rows(0, 8))

    def test_a_second_commit_adds_nothing(self, life: Life) -> None:
        life.checkpoint(0, rows(0, 5), rows(5, 8))
        assert life.commit(0) == [ALREADY, ALREADY]
        assert life.commit(0, life.another_committer()) == [ALREADY, ALREADY]
        assert life.target.rows() == Counter(rows(0, 8))

    def test_another_process_commits(self, life: Life) -> None:
        scope = life.permit(0)
        life.decided[0] = [life.prepare(scope, *rows(0, 5)), life.prepare(scope, *rows(5, 8), task=1)]
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as other:
            asked = (life.sink, life.pipeline, life.incarnation, 0, life.decided[0])
            assert other.submit(_commit_elsewhere, *asked).result(timeout=60) == [COMMITTED, COMMITTED]
        assert life.commit(0) == [ALREADY, ALREADY]
        assert life.target.rows() == Counter(rows(0, 8))

    def test_what_is_aborted_is_never_seen(self, life: Life) -> None:
        scope = life.permit(0)
        life.prepare(scope, *rows(0, 5))
        listed = life.prepared()
        life.committer.abort(listed)
        life.committer.abort(listed)
        life.committer.revoke(scope)
        assert life.prepared() == []
        again = life.permit(0, attempt=2)
        life.decided[0] = [life.prepare(again, *rows(0, 5))]
        assert life.commit(0) == [COMMITTED]
        assert life.target.rows() == Counter(rows(0, 5))

    def test_what_is_committed_is_not_aborted(self, life: Life) -> None:
        life.decided[0] = [life.prepare(life.permit(0), *rows(0, 5))]
        listed = life.prepared()
        life.commit(0)
        with pytest.raises(IdentityError):
            life.committer.abort(listed)
        assert life.target.rows() == Counter(rows(0, 5))

    def test_of_a_task_that_ran_twice_one_attempt_is_seen(self, life: Life) -> None:
        """H1: the first attempt has prepared, and its acknowledgement was lost; or it is still writing."""
        scope = life.permit(0)
        life.prepare(scope, *rows(0, 5))
        late = life.writer(scope)
        life.write(late, *rows(0, 5))
        life.decided[0] = [life.prepare(scope, *rows(0, 5))]
        life.commit(0)
        late.abort()
        life.committer.revoke(scope)
        assert life.prepared() == []
        life.checkpoint(1, rows(5, 8))
        assert life.target.rows() == Counter(rows(0, 8))

    def test_checkpoints_without_rows(self, life: Life) -> None:
        life.checkpoint(0)
        life.checkpoint(1, (), ())
        life.checkpoint(2, rows(0, 3), ())
        assert {*life.commit(1), *life.commit(2)} <= {COMMITTED, ALREADY}
        assert life.target.rows() == Counter(rows(0, 3))

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

    def test_a_witness_tells_what_is_committed(self, life: Life) -> None:
        life.checkpoint(0, rows(0, 5))
        scope = life.permit(1)
        (seen,), waiting = life.decided[0], life.prepare(scope, *rows(5, 8))
        state = life.committer.inspect(life.incarnation, [seen, waiting])
        assert (state.claim_incarnation, state.claim_epoch) == (life.incarnation, 1)
        assert (state.highest_witness, state.missing) == (0, (waiting.transaction,))

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

    def test_a_replay_after_pruning_adds_nothing(self, life: Life) -> None:
        for number in range(4):
            life.checkpoint(number, rows(number, number + 1))
        life.committer.prune(life.incarnation, 3)
        assert COMMITTED not in life.committer.commit(0, life.decided[0])
        assert life.commit(3) == [ALREADY]
        assert life.target.rows() == Counter(rows(0, 4))

    def test_values_come_back_as_they_went(self, life: Life) -> None:
        numbers = (0, -1, 2**63 - 1, -(2**63))
        written = [*((n, "number") for n in numbers), *((n, text) for n, text in enumerate(TEXTS, 1))]
        life.checkpoint(0, written)
        assert life.target.rows() == Counter(written)

    def test_a_million_rows(self, life: Life) -> None:
        scope = life.permit(0)
        writers = [life.writer(scope, task) for task in range(2)]
        for start in range(0, MANY, _BATCH):
            writers[start // _BATCH % 2].write(_numbered(start, start + _BATCH).select(list(life.sink.columns)))
        life.decided[0] = [writer.prepare() for writer in writers]
        assert sum(each.rows for each in life.decided[0]) == MANY
        life.commit(0)
        seen = life.target.rows()
        assert (seen.total(), len(seen)) == (MANY, MANY)
        assert all(seen[n, str(n)] == 1 for n in range(0, MANY, 997))

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

    @pytest.mark.parametrize("seed", range(3))
    def test_any_order_of_events(self, life: Life, seed: int) -> None:
        """Attempts, failed tries, decisions, commits and starts as chance will have it: at every moment what is seen
        is what was committed, and at the end what was decided."""
        chance = random.Random(seed)
        number, attempt, committed = 0, 1, Counter[Row]()
        for _ in range(self.events):
            event = chance.choice(("try", "fail", "decide", "start", "again"))
            if event == "again" and life.decided:
                life.commit(chance.choice(sorted(life.decided)))
                continue
            if event == "start":
                life.start()
                attempt = 1
                continue
            scope = life.permit(number, attempt)
            shares = [rows(number * 10 + task * 5, number * 10 + task * 5 + chance.randrange(5)) for task in range(2)]
            accepted = [life.prepare(scope, *share, task=task) for task, share in enumerate(shares)]
            assert life.target.rows() == committed
            if event == "fail":
                life.committer.abort([each for each in life.prepared() if _is_of(each.transaction, scope)])
                life.committer.revoke(scope)
                attempt += 1
                continue
            life.decided[number] = accepted
            committed.update(row for share in shares for row in share)
            if event == "decide":  # and killed right after
                life.start()
            else:
                life.commit(number)
                life.committer.revoke(scope)
            number, attempt = number + 1, 1
            assert life.target.rows() == committed
        life.start()
        assert life.target.rows() == committed
        assert committed.total() > 0
        assert life.prepared() == []


def _skip_where_rows_are_merged(life: Life) -> None:
    if life.target.keyed:
        pytest.skip("not applicable: rows that are merged are written exactly-once only")


class UpsertCompliance(SinkCompliance):
    """Of a sink that merges rows by `n`."""

    def test_the_greatest_offset_wins_whichever_comes_first(self, life: Life) -> None:
        old, new, between = Change(1, "old", 10), Change(1, "new", 30), Change(1, "between", 20)
        life.checkpoint(0, [new, old, Change(2, "other", 5), between])
        assert life.target.rows() == Counter([(1, "new"), (2, "other")])

    def test_a_later_checkpoint_takes_the_place_of_rows(self, life: Life) -> None:
        life.checkpoint(0, rows(0, 5))
        life.checkpoint(1, [Change(1, "changed"), Change(7, "added")], [Change(2, None)])
        expected = {**dict(rows(0, 5)), 1: "changed", 2: None, 7: "added"}
        assert life.target.rows() == Counter(expected.items())

    def test_keys_are_deleted(self, life: Life) -> None:
        life.checkpoint(0, rows(0, 5))
        again = [Change(3, gone=True, offset=100), Change(3, "again", offset=101)]
        never = [Change(9, "never seen", offset=100), Change(9, gone=True, offset=101)]
        life.checkpoint(1, [Change(1, gone=True), Change(8, gone=True), *again, *never])
        assert life.target.rows() == Counter({0: "row 0", 2: "row 2", 3: "again", 4: "row 4"}.items())

    def test_h16_a_stale_replay_revives_nothing(self, life: Life) -> None:
        """A driver that was frozen before it applied a checkpoint wakes up when the next ones are applied."""
        life.checkpoint(0, rows(0, 5))
        life.checkpoint(1, [Change(1, gone=True), Change(2, "newer")])
        late = life.another_committer()
        assert set(life.commit(0, late)) == {ALREADY}
        late.close()
        assert life.target.rows() == Counter({0: "row 0", 2: "newer", 3: "row 3", 4: "row 4"}.items())

    def test_a_key_that_is_null_is_a_bad_row(self, life: Life) -> None:
        writer = life.writer(life.permit(0))
        broken = _numbered(0, 2).set_column(0, SCHEMA.field("n"), pa.array([1, None], pa.int64()))
        with pytest.raises(BadRowError, match="row 2, column 'n': NULL in a key"):
            writer.write(broken.select(list(life.sink.columns)))
        writer.abort()

    def test_a_batch_that_is_refused_whole_leaves_nothing_and_the_writer_goes_on(self, life: Life) -> None:
        writer = life.writer(life.permit(0))
        broken = _numbered(0, 2).set_column(0, SCHEMA.field("n"), pa.array([1, None], pa.int64()))
        for each in (_numbered(0, 3), broken, _numbered(3, 5)):
            columns = each.select(list(life.sink.columns))
            if each is broken:
                with pytest.raises(BadRowError, match="NULL in a key"):
                    writer.write_whole(columns)
            else:
                writer.write_whole(columns)
        life.decided[0] = [writer.prepare()]
        assert life.decided[0][0].rows == 5
        life.commit(0)
        assert life.target.rows() == Counter((n, str(n)) for n in range(5))

    def test_many_changes_of_few_keys(self, life: Life) -> None:
        """More than a writer keeps: it lets go of old ones on the way."""
        writer = life.writer(life.permit(0))
        for start in range(0, MANY, _BATCH):
            numbered = _numbered(start, start + _BATCH)
            few = pa.array([n % 1000 for n in range(start, start + _BATCH)], pa.int64())
            writer.write(numbered.set_column(0, SCHEMA.field("n"), few).select(list(life.sink.columns)))
        life.decided[0] = [writer.prepare()]
        assert life.decided[0][0].rows == MANY
        life.commit(0)
        assert life.target.rows() == Counter((n, str(MANY - 1000 + n)) for n in range(1000))


def _numbered(start: int, stop: int) -> pa.RecordBatch:
    numbers = pa.array(range(start, stop), pa.int64())
    zeros = pa.repeat(pa.scalar(0, pa.int32()), len(numbers))
    gone = pa.repeat(pa.scalar(False), len(numbers))
    return pa.record_batch([numbers, numbers.cast(pa.string()), zeros, numbers, gone], schema=SCHEMA)


def _is_of(transaction: object, scope: Scope) -> bool:
    return getattr(transaction, "scope", None) == scope


def _commit_elsewhere(
    sink: Sink, pipeline: str, incarnation: str, checkpoint_id: int, committables: Sequence[Committable]
) -> list[CommitOutcome]:
    committer = sink.committer(pipeline)
    committer.inspect(incarnation, ())
    try:
        return list(committer.commit(checkpoint_id, committables))
    finally:
        committer.close()
