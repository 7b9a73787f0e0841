"""Every way in which head may change, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eos.errors import IdentityError, PermitRevokedError
from tests.twophase_values import head, record, ref
from twophase.head_value import HeadValue
from twophase.transitions import Abort, Claim, Committed, Complete, CompleteDirect, NotCommitted, SetPositions, SetQuery
from twophase.values import StartingPoint


def test_a_claim_begins_the_next_epoch_and_forgets_tries() -> None:
    before = head(epoch=3, completed=5, committed=4, aborted_checkpoint=6, aborted_attempt=2)
    after = Claim().apply(before)
    assert after.sinks == before.sinks
    assert Claim(("a",)).apply(replace(before, sinks=("a", "b"))).sinks == ("a",)
    assert after == replace(before, epoch=4, aborted_checkpoint=-1, aborted_attempt=0)
    assert after.next_attempt(6) == 1


def test_initial_positions_are_stored_once() -> None:
    first = SetPositions("orders", StartingPoint({"t/0": 5}, {"t": "first"})).apply(head(positions={}))
    again = SetPositions("orders", StartingPoint({"t/0": 9, "t/1": 7}, {"t": "second", "u": "u"})).apply(first)
    assert again.initial == {"orders": {"t/0": 5, "t/1": 7}}
    assert again.positions == {"orders": {"t/0": 5, "t/1": 7}}
    assert again.identities == {"orders": {"t": "first", "u": "u"}}


def test_initial_positions_do_not_move_what_was_read_since() -> None:
    stored = SetPositions("orders", StartingPoint({"orders/0": 5}, {}))
    again = stored.apply(Complete(record(0, 5, 20), ref(0)).apply(stored.apply(head(positions={}))))
    assert again.position("orders", "orders/0") == 20


def test_a_split_that_no_store_knows_starts_where_its_first_checkpoint_says() -> None:
    with pytest.raises(IdentityError, match="where it begins is not known"):
        Complete(record(0, 5, 20), ref(0)).apply(head(positions={}))
    began = {"orders": StartingPoint({"orders/0": 5}, {"orders": "id"})}
    after = Complete(record(0, 5, 20), ref(0), began).apply(head(positions={}))
    assert (after.initial, after.identities) == ({"orders": {"orders/0": 5}}, {"orders": {"orders": "id"}})
    assert after.position("orders", "orders/0") == 20


def test_the_query_is_set_once() -> None:
    first = SetQuery("a").apply(head())
    assert SetQuery("a").apply(first) == first
    with pytest.raises(IdentityError, match="belongs to Spark query a, this is b"):
        SetQuery("b").apply(first)


def test_a_decision_moves_positions_and_keeps_its_record() -> None:
    before = head(aborted_checkpoint=0, aborted_attempt=1)
    after = Complete(record(0, attempt=2), ref(0)).apply(before)
    assert (after.completed, after.committed) == (0, -1)
    assert after.position("orders", "orders/0") == 10
    assert after.records == (ref(0),)
    assert after.next_attempt(1) == 1


@pytest.mark.parametrize("number", [0, 1, 3, 9])
def test_checkpoints_follow_one_another(number: int) -> None:
    with pytest.raises(IdentityError, match=f"checkpoint {number} cannot follow 1"):
        Complete(record(number), ref(number)).apply(head(completed=1))


def test_a_decision_that_stands_is_not_refused_against_itself() -> None:
    """Unanswered, while threads that commit have swapped so often that head does not tell its nonce any more (H20)."""
    decision = Complete(record(0), ref(0))
    decided = Committed(-1, 10).apply(decision.apply(head()))
    assert decision.apply(decided) == decided
    with pytest.raises(IdentityError):
        Complete(record(0), ref(5)).apply(decided)


@pytest.mark.parametrize(("start", "end"), [(9, 20), (11, 20), (10, 5)])
def test_each_split_goes_on_where_it_ended(start: int, end: int) -> None:
    before = head(completed=0, positions={"orders": {"orders/0": 10}})
    with pytest.raises(IdentityError, match="the one before it ended at 10"):
        Complete(record(1, start, end), ref(1)).apply(before)


@pytest.mark.parametrize("attempt", [1, 2])
def test_a_try_that_was_aborted_cannot_be_decided_any_more(attempt: int) -> None:
    aborted = Abort(0, 2).apply(head())
    with pytest.raises(PermitRevokedError, match=f"try {attempt} of epoch 1, was aborted meanwhile") as caught:
        Complete(record(0, attempt=attempt), ref(0)).apply(aborted)
    assert caught.value.retriable
    assert Complete(record(0, attempt=3), ref(0)).apply(aborted).completed == 0


def test_a_decision_of_another_epoch_is_none() -> None:
    with pytest.raises(PermitRevokedError):
        Complete(record(0, epoch=1), ref(0)).apply(head(epoch=2))


def test_an_abort_counts_the_try() -> None:
    aborted = Abort(3, 1).apply(head(completed=2))
    assert aborted.next_attempt(3) == 2
    assert aborted.next_attempt(4) == 1
    assert Abort(3, 2).apply(aborted).next_attempt(3) == 3


def test_what_is_completed_cannot_be_aborted() -> None:
    with pytest.raises(IdentityError, match="checkpoint 2 is completed: it can only be committed"):
        Abort(2, 1).apply(head(completed=2))


def test_committed_never_goes_back() -> None:
    assert Committed(1, 10).apply(head(completed=4, committed=3)).committed == 3


@given(
    retained=st.integers(1, 5),
    committed=st.integers(-1, 30),
    ahead=st.integers(0, 4),
    kept=st.integers(1, 12),
)
def test_records_are_let_go_of_only_below_what_is_committed(
    retained: int, committed: int, ahead: int, kept: int
) -> None:
    completed = committed + ahead
    first = max(0, min(completed - kept + 1, committed))
    records = tuple(ref(n) for n in range(first, completed + 1))
    before = head(completed=completed, committed=committed, records=records)
    after = Committed(committed, retained).apply(before)
    assert all(each in after.records for each in records if each.checkpoint_id >= committed)
    assert after.records == records[len(records) - len(after.records) :]
    assert len(after.records) >= min(retained, len(records))
    assert completed < 0 or after.record_of(completed) is not None
    assert len(after.records) <= retained + max(retained, ahead)


@pytest.mark.parametrize("waiting", [0, 3, 10, 50])
def test_pruning_is_rare_however_many_wait(waiting: int) -> None:
    """Each drop costs a delete of every record and a call of every sink."""
    retained, value, drops = 5, head(), 0
    for number in range(100 + waiting):
        value = Complete(record(number, 10 * number, 10 * number + 10), ref(number)).apply(value)
        committed = number - waiting
        before = value.records
        value = Committed(committed, retained).apply(value) if committed >= 0 else value
        drops += value.records != before
        assert value.record_of(max(committed, 0)) is not None
        assert len(value.records) < 2 * retained + waiting
    assert 100 // retained - 3 <= drops <= 100 // retained


@pytest.mark.parametrize("retained", [1, 2, 5])
def test_a_long_run_keeps_between_one_and_two_times_retained(retained: int) -> None:
    value: HeadValue = head()
    lengths = set()
    for number in range(40):
        value = Complete(record(number, 10 * number, 10 * number + 10), ref(number)).apply(value)
        value = Committed(number, retained).apply(value)
        assert value.record_of(number) is not None
        lengths.add(len(value.records))
    assert max(lengths) < 2 * retained or retained == 1
    assert value.records[-1] == ref(39)


def test_h31_a_repair_takes_back_that_checkpoints_are_committed() -> None:
    value = head(epoch=1, completed=4, committed=4)
    assert NotCommitted(2).apply(value) == replace(value, committed=2)
    assert NotCommitted(5).apply(value) == value


@pytest.mark.parametrize("retained", [1, 3])
def test_h34_the_newest_record_that_sinks_have_counted_stays(retained: int) -> None:
    """However many at-least-once checkpoints follow it; until the next one that they count."""
    value = head()
    for number in range(20):
        direct = number not in (2, 3, 15)
        decision = replace(record(number, 10 * number, 10 * number + 10), direct=direct)
        value = CompleteDirect(Complete(decision, replace(ref(number), direct=direct)), retained).apply(value)
        counted = max((each for each in (2, 3, 15) if each <= number), default=None)
        assert counted is None or value.record_of(counted) == ref(counted)
        assert value.record_of(number) is not None
        assert len(value.records) <= 2 * retained + 1
    assert [each.checkpoint_id for each in value.records if not each.direct] == [15]
