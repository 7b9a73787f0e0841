"""`eos reset`: what it ends, what it refuses to give up, and that it says what it gives up before it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from eos.errors import (
    FencedError,
    HeadFormatError,
    IdentityError,
    LostCommittableError,
    SetBackError,
    TargetError,
)
from tests.twophase_values import INCARNATION, committable, drive, head, record, ref, scope
from twophase import messages
from twophase.abandoned import Abandoned, enclosing_ranges
from twophase.head_value import HeadValue
from twophase.ids import TransactionId, sink_key
from twophase.messages import HeadSnapshot, Inspected
from twophase.participants import Prepared
from twophase.reset import reset
from twophase.values import CommitOutcome, OffsetRange, SinkState, SparkState, StartingPoint

HEAD = head(
    epoch=7,
    query_id="query",
    completed=4,
    committed=3,
    initial={"orders": {"orders/0": 0}},
    positions={"orders": {"orders/0": 20}},
    records=(ref(3), ref(4)),
)
RECORDS = {3: record(3, 0, 10), 4: record(4, 10, 20)}
DAMAGED = HeadFormatError("the record of checkpoint 4 cannot be read: it is damaged")
SPARK = SparkState("query", 4, 3, {4: "v1 4"})
OLD = Prepared(TransactionId(scope(4, epoch=7), sink_key("warehouse"), 0, 1), "old")
CHANGES = {"Claim", "AbortPrepared", "Prune", "Sweep", "Abandon"}

Answers = dict[str, Any]
"""Functions that answer actions, by the name of the action's class."""


def run(
    seen: HeadSnapshot | None,
    sinks: tuple[str, ...] = ("warehouse",),
    *,
    abandon: bool = False,
    begins: dict[str, StartingPoint] | None = None,
    expected: HeadValue | str | None = "as it is",
    moves: HeadValue | None = None,
    **answers: Any,
) -> Any:
    """(what it answers or raises, actions). `moves`: another driver swaps this into head just before the claim."""
    actions: list[Any] = []
    register = [seen]
    if isinstance(expected, str):
        expected = seen.head if seen is not None else None

    def swap(action: messages.Swap) -> bool:
        if moves is not None and len(register) == 1:
            register.append(HeadSnapshot(action.version + 1, moves))
            return False
        register.append(HeadSnapshot(action.version + 1, action.value))
        return True

    def noting(reply: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def note(action: Any) -> Any:
            actions.append(action)
            return reply(action)

        return note

    given: dict[str, Any] = {
        "ReadHead": lambda _: register[-1],
        "Inspect": lambda _: Inspected(SPARK, {"warehouse": SinkState(INCARNATION, 7, 4, counted=3)}),
        "LoadRecord": lambda action: RECORDS[action.ref.checkpoint_id],
        "Swap": swap,
        "Commit": lambda action: {s: [CommitOutcome.COMMITTED] * len(g) for s, g in action.committables.items()},
        "ListPrepared": lambda _: {"warehouse": (OLD,)},
        **{name: lambda _: None for name in {*CHANGES, "Count"}},
        **answers,
    }
    steps = reset("orders", sinks, "run", "n" * 20, expected=expected, abandon_lost=abandon, begins=begins)
    try:
        begun, _ = drive(steps, {name: noting(reply) for name, reply in given.items()})
    except (LostCommittableError, IdentityError) as error:
        return error, actions
    return begun, actions


def names(actions: list[Any]) -> list[str]:
    return [type(each).__name__ for each in actions]


def changes(actions: list[Any]) -> list[str]:
    return [name for name in names(actions) if name in CHANGES]


def test_one_life_is_brought_to_its_end_and_swept_away_before_the_next_is_used() -> None:
    begun, actions = run(HeadSnapshot(9, HEAD))
    assert names(actions) == [
        *("ReadHead", "Swap", "Inspect", "LoadRecord", "LoadRecord", "Commit", "Count", "ListPrepared"),
        *("Claim", "ListPrepared", "LoadRecord", "AbortPrepared", "Swap", "Claim", "Prune", "Sweep"),
    ]
    first, second = (each for each in actions if isinstance(each, messages.Claim))
    assert (first.incarnation, second.incarnation) == (INCARNATION, "n" * 20)
    assert actions[-2] == messages.Prune(INCARNATION, HEAD.records, below=5)
    assert actions[-1] == messages.Sweep(begun.head)
    assert (begun.head.incarnation, begun.head.epoch, begun.head.completed) == ("n" * 20, 8, -1)
    assert (begun.ended, begun.abandoned) == (INCARNATION, ())


def test_a_reset_of_what_never_ran() -> None:
    begun, actions = run(None)
    assert names(actions) == ["ReadHead", "Swap", "Inspect", "Claim"]
    assert (begun.head.incarnation, begun.ended) == ("n" * 20, None)


def test_r1_of_two_that_write_the_first_head_one_is_fenced() -> None:
    """The other driver was faster; what this one sent has not landed, and no sink is claimed by it."""
    heads = [None, HeadSnapshot(1, head(nonces=("other.1",)))]
    with pytest.raises(FencedError, match="has started at the same moment"):
        run(None, Swap=lambda _: False, ReadHead=lambda _: heads.pop(0), Claim=lambda _: pytest.fail("claimed"))


BEGINS = {"orders": StartingPoint({"orders/0": 12}, {"orders": "id"})}


@pytest.mark.parametrize("seen", [None, HeadSnapshot(9, HEAD)])
def test_a_beginning_is_born_with_the_new_life(seen: HeadSnapshot | None) -> None:
    """R6: in the very swap that makes the life, so that no crash leaves it with another beginning."""
    begun, actions = run(seen, begins=BEGINS)
    born = [each.value for each in actions if isinstance(each, messages.Swap) and each.value.incarnation == "n" * 20]
    assert [(each.initial, each.positions) for each in born] == [({"orders": {"orders/0": 12}},) * 2]
    assert begun.head.identities == {"orders": {"orders": "id"}}
    assert begun.before == (None if seen is None else replace(HEAD, epoch=8, nonces=begun.before.nonces))


LATER = (*HEAD.nonces, "driver.2")
BEYOND = replace(HEAD, completed=5, committed=5, nonces=LATER)
ANOTHER = replace(HEAD, incarnation="o" * 20, nonces=LATER)


@pytest.mark.parametrize(("begins", "now"), [(BEGINS, BEYOND), (BEGINS, ANOTHER), (None, ANOTHER)])
def test_h30_a_head_that_has_changed_is_refused_before_the_claim(begins: Any, now: HeadValue) -> None:
    """Before the reset reads head, or between its read and its claim: no swap lands and no sink is touched."""
    for error, actions in (
        run(HeadSnapshot(10, now), expected=HEAD, begins=begins),
        run(HeadSnapshot(9, HEAD), moves=now, begins=begins),
    ):
        assert isinstance(error, IdentityError)
        assert f"checkpoint {HEAD.completed} of incarnation {INCARNATION}" in error.message
        assert f"now checkpoint {now.completed} of incarnation {now.incarnation}" in error.message
        assert ("nothing was changed" in error.remedy, "`eos stop`" in error.remedy) == (True, True)
        assert set(names(actions)) <= {"ReadHead", "Swap"}
        assert len(names(actions)) <= 3, "a refused claim was sent again"


def test_h30_a_pipeline_that_has_started_meanwhile_is_not_ended() -> None:
    error, actions = run(HeadSnapshot(9, HEAD), expected=None)
    assert isinstance(error, IdentityError)
    assert "then it had never run here" in error.message
    assert names(actions) == ["ReadHead"]
    error, actions = run(None, expected=HEAD)
    assert isinstance(error, IdentityError)
    assert names(actions) == ["ReadHead"]


def test_h30_without_positions_further_checkpoints_are_accepted() -> None:
    """The user agreed to leave all positions behind; the new incarnation stores none of the old ones."""
    begun, _ = run(HeadSnapshot(9, HEAD), moves=BEYOND)
    assert (begun.before.completed, begun.head.completed, begun.head.positions) == (5, -1, {})


LOST: Answers = {"Commit": lambda action: {s: [CommitOutcome.LOST] * len(g) for s, g in action.committables.items()}}
UNREADABLE: Answers = {"LoadRecord": lambda action: DAMAGED if action.ref.checkpoint_id == 4 else RECORDS[3]}
MINE = committable(scope(4)).transaction
CASES: dict[str, tuple[Answers, tuple[str, ...], Abandoned]] = {
    "the sink has lost it": (
        LOST,
        ("warehouse",),
        Abandoned(4, ("warehouse",), "the sink neither holds nor shows them", (MINE,), RECORDS[4].ranges),
    ),
    "its record cannot be read": (
        UNREADABLE,
        ("warehouse",),
        Abandoned(
            4,
            ("warehouse",),
            f"{DAMAGED.message}; its prepared transactions are rolled back, committed rows stay",
            (OLD.transaction,) if OLD.transaction else (),
            {"orders": (OffsetRange("orders/0", 10, 20),)},
            is_exact=False,
        ),
    ),
    "its sink is not in the spec": (
        {},
        ("another",),
        Abandoned(
            4,
            ("warehouse",),
            "the sink is no longer in the spec: its prepared transactions remain, with their locks",
            (MINE,),
            RECORDS[4].ranges,
        ),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_cannot_become_visible_is_named_and_refused(case: str) -> None:
    answers, sinks, expected = CASES[case]
    error, actions = run(HeadSnapshot(9, HEAD), sinks, **answers)
    assert isinstance(error, LostCommittableError)
    assert str(expected) in error.message
    for part in ("checkpoint 4", "orders/0[10, 20)", str(expected.transactions[0])):
        assert part in error.message
    assert "eos reset --abandon-lost" in error.remedy
    assert changes(actions) == [], "a refusal has ended something"


@pytest.mark.parametrize("case", CASES)
def test_what_is_given_up_on_purpose_is_said_first(case: str) -> None:
    answers, sinks, expected = CASES[case]
    begun, actions = run(HeadSnapshot(9, HEAD), sinks, abandon=True, **answers)
    assert begun.abandoned == (expected,)
    assert changes(actions)[0] == "Abandon"
    assert next(each for each in actions if isinstance(each, messages.Abandon)).abandoned == (expected,)
    assert begun.head.incarnation == "n" * 20


UNDECIDED = HeadSnapshot(9, replace(HEAD, committed=4, sinks=("gone", "warehouse")))


def test_a_sink_that_left_the_spec_and_may_hold_something_is_named() -> None:
    planned: Answers = {"Inspect": lambda _: Inspected(replace(SPARK, newest_planned=5), {})}
    error, actions = run(UNDECIDED, **planned)
    assert isinstance(error, LostCommittableError)
    for part in ("checkpoint 5 in gone", "their locks", f"ids begin with {INCARNATION}", "(none known)"):
        assert part in error.message
    assert changes(actions) == []
    begun, _ = run(UNDECIDED, abandon=True, **planned)
    assert [(each.checkpoint_id, each.sinks) for each in begun.abandoned] == [(5, ("gone",))]
    assert begun.head.sinks == ("warehouse",)


def test_a_sink_that_left_the_spec_with_nothing_is_not_mentioned() -> None:
    begun, _ = run(UNDECIDED)
    assert begun.abandoned == ()


def test_an_unfinished_reset_does_not_forget_a_sink() -> None:
    _, actions = run(UNDECIDED)
    claim = next(each for each in actions if isinstance(each, messages.Swap))
    assert claim.value.sinks == ("gone", "warehouse")


def test_a_fenced_reset_does_not_take_a_pruned_record_for_a_damaged_one() -> None:
    register = [HeadSnapshot(9, HEAD), HeadSnapshot(11, replace(HEAD, epoch=9))]
    with pytest.raises(FencedError):
        run(None, expected=HEAD, ReadHead=lambda _: register.pop(0), **UNREADABLE)


def test_the_ranges_of_an_unreadable_record_are_bounded_by_its_neighbours() -> None:
    value = replace(HEAD, completed=6, positions={"orders": {"orders/0": 50, "orders/1": 7}, "idle": {}})
    others = [record(2, 0, 5), record(3, 5, 10), record(5, 30, 40), record(6, 40, 50)]
    assert enclosing_ranges(value, 4, others) == {
        "orders": (OffsetRange("orders/0", 10, 30), OffsetRange("orders/1", 0, 7)),
        "idle": (),
    }
    assert enclosing_ranges(value, 4, ())["orders"][0] == OffsetRange("orders/0", 0, 50)


WENT_BACK: Answers = {"Inspect": lambda _: Inspected(SPARK, {"warehouse": SinkState(INCARNATION, 7, 4, counted=2)})}


def test_h27_what_a_sink_lacks_and_holds_prepared_is_committed_and_counted() -> None:
    """Head calls checkpoint 3 committed and 4 completed; the sink counts 2."""
    begun, actions = run(HeadSnapshot(9, HEAD), **WENT_BACK)
    done = [each.checkpoint_id for each in actions if isinstance(each, messages.Commit | messages.Count)]
    assert done == [3, 3, 4, 4]
    claim = next(each for each in actions if isinstance(each, messages.Claim))
    assert (claim.begins, claim.counted) == (3, {"warehouse": 4})
    assert begun.abandoned == ()


def test_h27_rows_that_a_sink_has_lost_are_named_and_the_reset_goes_on() -> None:
    """Whoever resets may have no newer copy of the sink, and has chosen where to read again."""
    begun, actions = run(HeadSnapshot(9, replace(HEAD, committed=4)), **WENT_BACK, **LOST)
    assert [(each.checkpoint_id, each.sinks) for each in begun.abandoned] == [(3, ("warehouse",)), (4, ("warehouse",))]
    assert [each.ranges for each in begun.abandoned] == [RECORDS[3].ranges, RECORDS[4].ranges]
    assert [each.abandoned for each in actions if isinstance(each, messages.Abandon)] == [begun.abandoned]
    assert "Count" not in names(actions), "the sink lacks it"


def test_h27_a_sink_from_before_its_first_claim_does_not_count_what_it_lacks() -> None:
    """It knows nothing of this pipeline: the reset claims it, and counts no checkpoint there."""
    unknown: Answers = {"Inspect": lambda _: Inspected(SPARK, {"warehouse": SinkState()})}
    begun, actions = run(HeadSnapshot(9, replace(HEAD, committed=4)), **unknown, **LOST)
    claim = next(each for each in actions if isinstance(each, messages.Claim))
    assert (claim.begins, claim.counted) == (-1, {})
    assert [each.checkpoint_id for each in begun.abandoned] == [0, 3, 4]
    assert "no record names its missing rows of checkpoints before 3" in begun.abandoned[0].why


def test_h27_what_no_record_can_judge_is_given_up_on_purpose_alone() -> None:
    """Checkpoint 1 is committed, its record is gone, and the sink lists a transaction of it as prepared."""
    unknown = Prepared(TransactionId(scope(1, epoch=7), sink_key("warehouse"), 0, 1), "unknown")
    listed: Answers = {"ListPrepared": lambda _: {"warehouse": (unknown,)}}
    error, actions = run(HeadSnapshot(9, HEAD), **listed)
    assert isinstance(error, LostCommittableError)
    assert "head has no record of the checkpoint" in error.message
    assert changes(actions) == []
    begun, actions = run(HeadSnapshot(9, HEAD), abandon=True, **listed)
    assert [(each.checkpoint_id, each.transactions) for each in begun.abandoned] == [(1, (unknown.transaction,))]
    assert changes(actions)[:3] == ["Abandon", "Claim", "AbortPrepared"]


def test_h27_a_sink_that_goes_back_under_a_reset_stops_it_before_anything_is_rolled_back() -> None:
    """What is listed after the claim is decided, and was committed by this reset."""
    decided = Prepared(RECORDS[4].committables["warehouse"][0].transaction, "decided")
    answers = iter([{"warehouse": ()}, {"warehouse": (decided,)}])
    with pytest.raises(SetBackError, match="counts checkpoints up to 3, and had counted up to 4"):
        run(HeadSnapshot(9, HEAD), ListPrepared=lambda _: next(answers))


def committed(*, counted: int | None, claimed_by: str = INCARNATION) -> Answers:
    """Of a pipeline that has committed checkpoint 4: what its sink says."""
    return {"Inspect": lambda _: Inspected(SPARK, {"warehouse": SinkState(claimed_by, 7, 4, counted=counted)})}


COMMITTED = HeadSnapshot(9, replace(HEAD, committed=4, sinks=("warehouse",)))
HELD = Prepared(RECORDS[3].committables["warehouse"][0].transaction, "decided for checkpoint 3")


def test_h27_a_sink_that_another_incarnation_has_taken_over_lacks_nothing() -> None:
    """Its rows are there, and its count of this incarnation is no longer the claim row's."""
    begun, actions = run(COMMITTED, **committed(counted=4, claimed_by="o" * 20))
    assert begun.abandoned == ()
    claim = next(each for each in actions if isinstance(each, messages.Claim))
    assert (claim.take_over, claim.counted) == (True, {})


def test_h27_a_pipeline_that_was_written_at_least_once_lacks_nothing() -> None:
    """Its sinks count nothing since the start, and head keeps the newest records alone."""
    direct = {n: replace(record(n, n * 10, n * 10 + 10), direct=True) for n in (29, 30)}
    seen = HeadSnapshot(9, replace(HEAD, completed=30, committed=30, records=(ref(29), ref(30))))
    answers: Answers = {"LoadRecord": lambda action: direct[action.ref.checkpoint_id], "ListPrepared": lambda _: {}}
    begun, _ = run(seen, **committed(counted=-1), **answers)
    assert begun.abandoned == ()


def test_h27_what_was_written_at_least_once_into_a_sink_that_went_back_is_named() -> None:
    records = {3: replace(RECORDS[3], direct=True), 4: RECORDS[4]}
    begun, _ = run(COMMITTED, **committed(counted=2), LoadRecord=lambda action: records[action.ref.checkpoint_id])
    assert [(each.checkpoint_id, each.ranges) for each in begun.abandoned] == [(3, RECORDS[3].ranges)]
    assert "written at-least-once" in begun.abandoned[0].why


def test_h34_what_is_left_of_an_aborted_try_is_rolled_back_where_at_least_once_came_after() -> None:
    """Checkpoint 20 was written at-least-once, and its record is gone: all after the newest exactly-once one were."""
    records = {4: RECORDS[4], 30: replace(record(30, 300, 310), direct=True)}
    refs = (ref(4), replace(ref(30), direct=True))
    left = Prepared(TransactionId(scope(20, epoch=6), sink_key("warehouse"), 0, 1), "left")
    begun, actions = run(
        HeadSnapshot(9, replace(HEAD, completed=30, committed=30, records=refs)),
        **committed(counted=4),
        LoadRecord=lambda action: records[action.ref.checkpoint_id],
        ListPrepared=lambda _: {"warehouse": (left,)},
    )
    assert begun.abandoned == ()
    assert [each.prepared for each in actions if isinstance(each, messages.AbortPrepared)] == [{"warehouse": (left,)}]


@pytest.mark.parametrize("counted", [30, 5])
def test_h27_a_sink_that_no_record_names_lacks_nothing(counted: int) -> None:
    """A dead-letter sink that is about to join, or had left at checkpoint 5."""
    states = {"warehouse": SinkState(INCARNATION, 7, 4, counted=4), "letters": SinkState(INCARNATION, 2, 5, counted=5)}
    if counted == 30:
        states["letters"] = SinkState()
    begun, _ = run(
        HeadSnapshot(9, replace(HEAD, committed=4, sinks=("letters", "warehouse"))),
        ("warehouse", "letters"),
        Inspect=lambda _: Inspected(SPARK, states),
        ListPrepared=lambda _: {"warehouse": (), "letters": ()},
    )
    assert begun.abandoned == ()


@pytest.mark.parametrize("trouble", ["its record is damaged", "the sink refuses it"])
def test_h27_what_is_held_and_cannot_be_committed_is_given_up_on_purpose_alone(trouble: str) -> None:
    """Checkpoint 3 is committed, and the sink, which went back, holds it prepared."""

    def load(action: Any) -> Any:
        return DAMAGED if action.ref.checkpoint_id == 3 and "damaged" in trouble else RECORDS[action.ref.checkpoint_id]

    def commit(action: Any) -> Any:
        refused = action.checkpoint_id == 3
        return {s: TargetError("read-only") if refused else [CommitOutcome.COMMITTED] for s in action.committables}

    answers: Answers = {"LoadRecord": load, "Commit": commit, "ListPrepared": lambda _: {"warehouse": (HELD,)}}
    error, actions = run(COMMITTED, **committed(counted=2), **answers)
    assert isinstance(error, LostCommittableError)
    assert "checkpoint 3 in warehouse" in error.message
    assert changes(actions) == []
    begun, actions = run(COMMITTED, abandon=True, **committed(counted=2), **answers)
    assert [(each.checkpoint_id, each.transactions) for each in begun.abandoned] == [(3, (HELD.transaction,))]
    assert changes(actions)[:3] == ["Abandon", "Claim", "AbortPrepared"]


def test_h27_a_sink_that_a_version_without_counts_claimed_is_asked_once_more() -> None:
    begun, actions = run(COMMITTED, **committed(counted=None), ListPrepared=lambda _: {"warehouse": ()})
    assert [each.checkpoint_id for each in actions if isinstance(each, messages.Commit)] == [3, 4]
    assert begun.abandoned == ()
    claim = next(each for each in actions if isinstance(each, messages.Claim))
    assert (claim.begins, claim.counted) == (4, {})


@pytest.mark.parametrize("swaps", [2, 8, 20])
def test_h30_a_driver_that_has_gone_on_by_many_swaps_is_no_head_that_went_back(swaps: int) -> None:
    beyond = replace(BEYOND, nonces=tuple(f"run.0.{number}" for number in range(swaps + 8))[-8:])
    seen = HeadSnapshot(9, replace(HEAD, nonces=tuple(f"run.0.{number}" for number in range(8))))
    register = [seen]

    def swap(action: messages.Swap) -> bool:
        if len(register) == 1:
            register.append(HeadSnapshot(9 + swaps, beyond))
            return False
        register.append(HeadSnapshot(action.version + 1, action.value))
        return True

    read: Answers = {"Swap": swap, "ReadHead": lambda _: register[-1]}
    assert run(seen, **read)[0].before.completed == 5
    del register[1:]
    error, _ = run(seen, begins=BEGINS, **read)
    assert "has changed since this command read its head" in error.message
