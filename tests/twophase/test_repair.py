"""The steps of a repair, one action after another: what comes before what, and what it refuses before it changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from eos.errors import (
    ConnectorError,
    HeadFormatError,
    IdentityError,
    LostCommittableError,
    PrepareError,
    ReplayMismatchError,
    TargetError,
)
from tests.twophase_values import INCARNATION, committable, drive, head, record, ref, scope
from twophase import messages
from twophase.codec import decode_committable, decode_record, encode_committable, encode_record
from twophase.head_value import HeadValue
from twophase.ids import Scope
from twophase.messages import Acknowledged, Failed, HeadSnapshot, Inspected
from twophase.repair import Loss, rebuild_record, repair
from twophase.transitions import Repair
from twophase.values import INSTEAD_OF, CheckpointRecord, CommitOutcome, Committable, SinkState, SparkState, origin

THEN = scope(4, epoch=7)
NOW = scope(4, epoch=8)
HEAD = head(
    epoch=7,
    query_id="query",
    completed=4,
    committed=3,
    positions={"orders": {"orders/0": 20}},
    records=(ref(3), ref(4)),
    sinks=("warehouse", "lake"),
)
FIRST, SECOND = committable(THEN, task=0), committable(THEN, task=1)
OTHER = (committable(THEN, task=0, sink="lake"), committable(THEN, task=1, sink="lake"))
RECORD = replace(record(4, 10, 20, epoch=7), committables={"warehouse": (FIRST, SECOND), "lake": OTHER})
SPARK = SparkState("query", 4, 3, {4: RECORD.offsets_log})
LOSS = Loss(RECORD, {"warehouse": (SECOND,)})
AGAIN = {
    "warehouse": (committable(NOW, task=1), committable(NOW, task=0)),
    "lake": (committable(NOW, task=0, sink="lake"), committable(NOW, task=1, sink="lake")),
}
NOTHING_LOST: dict[str, Any] = {
    "Commit": lambda action: {s: [CommitOutcome.COMMITTED] * len(g) for s, g in action.committables.items()}
}


def run(seen: HeadValue = HEAD, preparing: tuple[str, ...] = ("warehouse",), **answers: Any) -> tuple[Any, list[Any]]:
    """What it returns or raises, and its actions. SECOND is lost until head names another in its place."""
    actions: list[Any] = []
    register = [HeadSnapshot(9, seen)]
    shelf = {3: record(3, 0, 10), 4: RECORD}

    def swap(action: messages.Swap) -> bool:
        register.append(HeadSnapshot(action.version + 1, action.value))
        return True

    def put(action: messages.PutRecord) -> None:
        shelf[action.ref.checkpoint_id] = decode_record(action.content)

    def commit(action: messages.Commit) -> Any:
        lost, committed = CommitOutcome.LOST, CommitOutcome.COMMITTED
        return {s: [lost if c == SECOND else committed for c in g] for s, g in action.committables.items()}

    def noting(reply: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def note(action: Any) -> Any:
            actions.append(action)
            return reply(action)

        return note

    given = {
        "ReadHead": lambda _: register[-1],
        "Inspect": lambda _: Inspected(SPARK, {name: SinkState(INCARNATION, 7, 4) for name in ("warehouse", "lake")}),
        "LoadRecord": lambda action: shelf[action.ref.checkpoint_id],
        "Swap": swap,
        "PutRecord": put,
        "Commit": commit,
        "FindMissing": lambda action: {s: [c for c in g if c == SECOND] for s, g in action.committables.items()},
        "RewriteMissing": lambda _: Acknowledged(AGAIN, at=0.0),
        "ListPrepared": lambda _: {"warehouse": (), "lake": ()},
        **{name: lambda _: None for name in ("Claim", "Count", "PermitRewrite", "Revoke", "Sweep", "AbortPrepared")},
        **answers,
    }
    steps = repair("orders", ("warehouse", "lake"), preparing, "run.0", "n" * 20, 10)
    try:
        result, _ = drive(steps, {name: noting(reply) for name, reply in given.items()})
    except ConnectorError as error:
        return error, actions
    return result, actions


def names(actions: list[Any]) -> list[str]:
    """Without what is only read."""
    return [f"{a.point} swap" if isinstance(a, messages.Swap) else type(a).__name__ for a in actions if _changes(a)]


def _changes(action: Any) -> bool:
    return not isinstance(action, messages.ReadHead | messages.Inspect | messages.LoadRecord)


def test_it_is_prepared_decided_committed_and_closed() -> None:
    repaired, actions = run()
    assert names(actions) == [
        *("claim swap", "Commit", "Claim"),
        *("Commit", "FindMissing", "PermitRewrite", "RewriteMissing", "FindMissing", "PutRecord", "repair swap"),
        *("Commit", "Count", "Revoke", "ListPrepared"),
        *("Commit", "Count", "Claim", "ListPrepared", "committed swap", "Sweep"),
    ]
    assert repaired.losses == (LOSS,)
    assert (repaired.head.completed, repaired.head.committed, repaired.head.epoch) == (4, 4, 8)
    (put,) = (each for each in actions if isinstance(each, messages.PutRecord))
    assert repaired.head.records == (ref(3), put.ref)
    assert put.ref.name.startswith(str(NOW)), "a sweep of an older epoch's would take it away"
    repaired_record = decode_record(put.content)
    first, second = repaired_record.committables["warehouse"]
    assert (first, repaired_record.committables["lake"]) == (FIRST, OTHER)
    assert (second.transaction, second.data) == (
        AGAIN["warehouse"][0].transaction,
        {INSTEAD_OF: str(SECOND.transaction)},
    )
    (permit,) = (each for each in actions if isinstance(each, messages.PermitRewrite))
    assert (permit.scope, permit.sinks) == (NOW, ("warehouse",))


def test_what_is_lost_once_more_keeps_its_origin() -> None:
    again = replace(AGAIN["warehouse"][0], data={INSTEAD_OF: str(SECOND.transaction)})
    loss = Loss(replace(RECORD, committables={"warehouse": (FIRST, again), "lake": OTHER}), {"warehouse": (again,)})
    made = rebuild_record(NOW, loss, AGAIN)
    assert not isinstance(made, ConnectorError)
    assert [origin(each) for each in made.committables["warehouse"]] == [FIRST.transaction, SECOND.transaction]
    assert made.repaired == 1


def test_r4_rows_that_this_version_cannot_compare_are_not_written_again() -> None:
    lost = replace(SECOND, digest=255)
    committables = {"warehouse": (FIRST, lost), "lake": OTHER}
    decided = replace(RECORD, committables=committables, digest_method=99, written_by="7.1.0")
    sinks = {name: SinkState(INCARNATION, 7, 4) for name in ("warehouse", "lake")}
    error, actions = run(
        LoadRecord=lambda action: decided if action.ref == ref(4) else record(3, 0, 10),
        Inspect=lambda _: Inspected(replace(SPARK, newest_committed=4), sinks),  # the sinks alone are behind
        Commit=lambda a: {
            s: [CommitOutcome.LOST if c == lost else CommitOutcome.COMMITTED for c in g]
            for s, g in a.committables.items()
        },
        FindMissing=lambda _: {"warehouse": [lost]},
    )
    assert isinstance(error, HeadFormatError)
    assert "finish it with eos 7.1.0" in error.remedy
    assert "PermitRewrite" not in names(actions)


def test_nothing_lost() -> None:
    repaired, actions = run(**NOTHING_LOST)
    assert repaired.losses == ()
    assert "RewriteMissing" not in names(actions)
    assert repaired.head.committed == 4
    repaired, actions = run(replace(HEAD, committed=4))
    assert (repaired.losses, "Commit" in names(actions)) == ((), False)


def test_a_sink_that_cannot_take_what_it_holds_is_not_claimed() -> None:
    """R3: a claim would roll back what is decided and prepared there."""

    def commit(action: messages.Commit) -> Any:
        error = TargetError("no such table")
        if "lake" in action.committables and not action.tell_refusals:
            raise error
        committed = [CommitOutcome.COMMITTED] * 2
        return {sink: error if sink == "lake" else committed for sink in action.committables}

    error, actions = run(preparing=("warehouse", "lake"), Commit=commit)
    assert isinstance(error, TargetError)
    assert names(actions) == ["claim swap", "Commit"]
    error, actions = run(Commit=commit)  # a log keeps what it holds
    assert isinstance(error, TargetError)
    assert names(actions) == ["claim swap", "Commit", "Claim", "Commit"]


def test_what_later_checkpoints_have_prepared_is_committed_before_a_claim() -> None:
    """A sink that is behind: it would be rolled back, although it is decided."""
    behind = replace(HEAD, committed=2)
    _, actions = run(behind)
    before = [a.checkpoint_id for a in actions[: names_of(actions).index("Claim")] if isinstance(a, messages.Commit)]
    assert before == [3, 4]
    after = [each for each in names_of(actions) if each in ("Claim", "Commit", "RewriteMissing")]
    assert after == [
        "Commit",
        "Commit",
        "Claim",
        "Commit",
        "Commit",
        "RewriteMissing",
        "Commit",
        "Commit",
        "Commit",
        "Claim",
    ]


def names_of(actions: list[Any]) -> list[str]:
    return [type(each).__name__ for each in actions]


def test_what_a_sink_only_takes_for_lost_stays_lost() -> None:
    """It cannot show it, and does not say which: nothing is written again."""
    error, actions = run(FindMissing=lambda action: {name: [] for name in action.committables})
    assert isinstance(error, LostCommittableError)
    assert names(actions) == ["claim swap", "Commit", "Claim", "Commit", "FindMissing", "Commit"]


_OTHER_ROWS = {**AGAIN, "lake": (AGAIN["lake"][0], committable(NOW, task=1, sink="lake", rows=4))}
_OTHER_VALUES = {**AGAIN, "lake": (AGAIN["lake"][0], replace(AGAIN["lake"][1], digest=255))}
_ONE_TASK_LESS = {name: (committable(NOW, task=0, sink=name),) for name in AGAIN}
_OF_ANOTHER_RUN = {name: (committable(THEN, sink=name), committable(THEN, 1, sink=name)) for name in AGAIN}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Acknowledged(_OTHER_ROWS, 0.0), "sink lake has other rows in 1 of 2 tasks (now 4 in task 1, then 3)"),
        (Acknowledged(_OTHER_VALUES, 0.0), "in 1 of 2 tasks (now 3 with the digest ff in task 1, then 3)"),
        (Acknowledged(_ONE_TASK_LESS, 0.0), "other rows in 1 of 2 tasks (now no in task 1, then 3)"),
        (Acknowledged(_OF_ANOTHER_RUN, 0.0), "acknowledged another run's transaction"),
        (Failed(PrepareError("a task failed")), "a task failed"),
    ],
)
def test_what_is_not_the_same_is_ended_before_it_is_decided(answer: Acknowledged | Failed, said: str) -> None:
    error, actions = run(RewriteMissing=lambda _: answer)
    assert isinstance(error, ReplayMismatchError if isinstance(answer, Acknowledged) else PrepareError)
    assert said in error.message
    assert names(actions)[-3:] == ["RewriteMissing", "Revoke", "ListPrepared"]


def test_h35_what_is_decoded_with_another_schema_is_not_written_again() -> None:
    again = Acknowledged(AGAIN, 0.0, schemas={"orders": frozenset({("schema 1", "b")})})
    schemas = {"orders": {"schema 1": "a"}}
    error, actions = run(replace(HEAD, schemas=schemas), RewriteMissing=lambda _: again)
    assert isinstance(error, IdentityError)
    assert names(actions)[-3:] == ["RewriteMissing", "Revoke", "ListPrepared"]


LETTERS = (committable(THEN, task=2, sink="letters", rows=4), committable(THEN, task=3, sink="letters", rows=2))
REFUSED = replace(SECOND, refused=2, refused_digest=11)  # 3 rows were written, of 5
WITH_LETTERS = Loss(
    replace(RECORD, committables={"warehouse": (FIRST, REFUSED), "lake": OTHER, "letters": LETTERS}),
    {"warehouse": (REFUSED,)},
)


def _with_letters(again: Committable, **counted: int) -> CheckpointRecord | ConnectorError:
    given = {"warehouse": (committable(NOW, task=0), again), "lake": AGAIN["lake"]}
    return rebuild_record(NOW, WITH_LETTERS, given, counted)


def test_what_a_sink_refused_is_refused_again_beside_its_dead_letters() -> None:
    again = replace(committable(NOW, task=1), refused=2, refused_digest=11)
    made = _with_letters(again, letters=6)
    assert isinstance(made, CheckpointRecord)
    assert made.committables["letters"] == LETTERS
    first, second = made.committables["warehouse"]
    assert (first, second.transaction, second.refused, second.refused_digest) == (FIRST, again.transaction, 2, 11)
    assert decode_record(encode_record(made)) == made


@pytest.mark.parametrize(
    ("again", "letters", "said"),
    [
        ({"refused": 2, "refused_digest": 11}, 5, "sink letters would have 5 rows, and had 6 then"),
        ({"rows": 4, "refused": 1, "refused_digest": 11}, 6, "sink warehouse refuses 1 rows in task 1, and refused 2"),
        ({"rows": 5, "refused": 0}, 6, "sink warehouse refuses 0 rows in task 1, and refused 2 then"),
        ({"refused": 2, "refused_digest": 12}, 6, "refuses 2 rows in task 1 that are not known to be those of then"),
        ({"rows": 3, "refused": 1}, 6, "sink warehouse has other rows in 1 of 2 tasks (now 4 in task 1, then 5)"),
    ],
)
def test_what_does_not_fit_the_dead_letters_is_not_decided(again: dict[str, Any], letters: int, said: str) -> None:
    error = _with_letters(replace(committable(NOW, task=1), **again), letters=letters)
    assert isinstance(error, ReplayMismatchError)
    assert said in error.message
    assert error.remedy.startswith("nothing was written. ")
    assert ("Change the table back" in error.remedy) == ("refuse" in said)


def test_refused_rows_of_a_record_without_their_digest_are_not_taken_for_those_of_then() -> None:
    """An earlier version decided it, and the dead letters are there."""
    unknown = decode_committable(encode_committable(replace(REFUSED, refused_digest=0)))
    assert b"refused_digest" not in encode_committable(unknown)
    record = replace(
        WITH_LETTERS.record, committables={"warehouse": (FIRST, unknown), "lake": OTHER, "letters": LETTERS}
    )
    again = replace(committable(NOW, task=1), refused=2, refused_digest=11)
    given = {"warehouse": (committable(NOW, task=0), again), "lake": AGAIN["lake"]}
    error = rebuild_record(NOW, Loss(record, {"warehouse": (unknown,)}), given, {"letters": 6})
    assert isinstance(error, ReplayMismatchError)
    assert "are not known to be those of then" in error.message


def test_a_sink_of_dead_letters_is_counted_or_written_and_never_left_out() -> None:
    again = replace(committable(NOW, task=1), refused=2, refused_digest=11)
    for counted, lost in (({}, {}), ({"letters": 6}, {"letters": LETTERS[:1]})):
        loss = Loss(WITH_LETTERS.record, {**WITH_LETTERS.lost, **lost})
        given = {"warehouse": (committable(NOW, task=0), again), "lake": AGAIN["lake"]}
        assert isinstance(rebuild_record(NOW, loss, given, counted), ReplayMismatchError)


def test_dead_letters_that_are_lost_with_their_rows_are_of_the_rows_that_are_refused_now() -> None:
    loss = Loss(WITH_LETTERS.record, {"warehouse": (REFUSED,), "letters": LETTERS})
    letters = tuple(committable(NOW, each.transaction.task, "letters", each.rows) for each in LETTERS)
    again = replace(committable(NOW, task=1), refused=2, refused_digest=12)
    given = {"warehouse": (committable(NOW, task=0), again), "lake": AGAIN["lake"], "letters": letters}
    made = rebuild_record(NOW, loss, given)
    assert isinstance(made, CheckpointRecord)
    assert [each.transaction for each in made.committables["letters"]] == [each.transaction for each in letters]
    more = {**given, "letters": (letters[0], replace(letters[1], rows=3))}
    error = rebuild_record(NOW, loss, more)
    assert isinstance(error, ReplayMismatchError)
    assert "sink letters has other rows in 1 of 2 tasks (now 3 in task 3, then 2)" in error.message


@pytest.mark.parametrize("method", [None, 2])
def test_r4_a_record_without_a_method_is_repaired_by_the_version_that_decided_it(method: int | None) -> None:
    lake = tuple(replace(each, digest=7) for each in OTHER)
    loss = Loss(replace(RECORD, committables={**RECORD.committables, "lake": lake}, digest_method=method), LOSS.lost)
    error = rebuild_record(NOW, loss, AGAIN)
    assert isinstance(error, ReplayMismatchError)
    way = "Repair it with the version of eos that decided it"
    assert (way in error.remedy) == (method is None)
    assert method or error.remedy.index(way) < error.remedy.index("--abandon-lost")


def test_what_was_written_again_and_is_gone_is_not_decided() -> None:
    error, actions = run(FindMissing=lambda action: {"warehouse": [action.committables["warehouse"][1]]})
    assert isinstance(error, LostCommittableError)
    assert "repair swap" not in names(actions)


@pytest.mark.parametrize(
    "changed",
    [{"epoch": 9}, {"committed": 4}, {"records": (ref(3),)}, {"incarnation": "another"}],
    ids=["another epoch", "committed", "another record", "another life"],
)
def test_a_decision_is_mended_only_between_decided_and_committed(changed: dict[str, Any]) -> None:
    made = replace(RECORD, scope=NOW)
    mine = replace(HEAD, epoch=8)
    assert Repair(made, replace(ref(4), name="new"), ref(4)).apply(mine).records[1].name == "new"
    with pytest.raises(IdentityError):
        Repair(made, replace(ref(4), name="new"), ref(4)).apply(replace(mine, **changed))


def test_an_id_of_nothing_is_its_own_origin() -> None:
    assert origin(Committable(FIRST.transaction, 1)) == FIRST.transaction
    assert origin(Committable(FIRST.transaction, 1, data={INSTEAD_OF: str(Scope.parse(""))})) == FIRST.transaction


def test_h31_what_a_sink_that_went_back_lacks_is_no_longer_committed_and_then_repaired() -> None:
    """The warehouse counts checkpoint 3, head calls 4 committed, and the lake shows all of it."""
    states = {name: SinkState(INCARNATION, 7, 4, counted=count) for name, count in (("warehouse", 3), ("lake", 4))}
    repaired, actions = run(
        replace(HEAD, committed=4), Inspect=lambda _: Inspected(SPARK, states), Count=lambda _: None
    )
    assert names(actions) == [
        *("claim swap", "not committed swap", "Commit", "Claim"),
        *("Commit", "FindMissing", "PermitRewrite", "RewriteMissing", "FindMissing", "PutRecord", "repair swap"),
        *("Commit", "Count", "Revoke", "ListPrepared"),
        *("Commit", "Count", "Claim", "ListPrepared", "committed swap", "Sweep"),
    ]
    swaps = [each.value.committed for each in actions if isinstance(each, messages.Swap)]
    assert swaps == [4, 3, 3, 4]
    first, second = (each for each in actions if isinstance(each, messages.Claim))
    assert (first.counted, second.counted) == ({"warehouse": 3, "lake": 4}, {"warehouse": 4, "lake": 4})
    assert (repaired.losses, repaired.head.committed) == ((LOSS,), 4)


def test_h31_a_sink_that_went_back_and_holds_all_of_it_needs_no_job() -> None:
    states = {name: SinkState(INCARNATION, 7, 4, counted=count) for name, count in (("warehouse", 3), ("lake", 4))}
    repaired, actions = run(
        replace(HEAD, committed=4), Inspect=lambda _: Inspected(SPARK, states), Count=lambda _: None, **NOTHING_LOST
    )
    counts = [each for each in actions if isinstance(each, messages.Count)]
    assert counts[0].committables.keys() == {"warehouse"}
    assert "RewriteMissing" not in names(actions)
    assert (repaired.losses, repaired.head.committed) == ((), 4)


def test_h34_nothing_of_an_at_least_once_checkpoint_is_committed_or_written_again() -> None:
    """A repair that has died took back that it is committed, with an older one. Behind a log it has no segments."""
    records = {3: record(3, 0, 10), 4: replace(RECORD, direct=True)}
    repaired, actions = run(LoadRecord=lambda action: records[action.ref.checkpoint_id])
    assert (repaired.losses, repaired.head.committed) == ((), 4)
    assert {"Commit", "Count", "RewriteMissing"}.isdisjoint(names(actions))
