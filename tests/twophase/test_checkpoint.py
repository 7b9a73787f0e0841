"""R4-R9 for one checkpoint: what is refused, in which order things happen, and what each outcome leads to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from eos.errors import (
    BadRowError,
    ConnectorError,
    FencedError,
    HeadFormatError,
    IdentityError,
    LostCommittableError,
    PrepareError,
    ReplayMismatchError,
    SetBackError,
)
from tests.twophase_values import INCARNATION, committable, drive, head, record, ref, scope
from twophase import messages
from twophase.acknowledged import mistake
from twophase.checkpoint import run_checkpoint
from twophase.commits import commit_and_count, commit_everywhere
from twophase.head_value import HeadValue
from twophase.ids import TransactionId, sink_key
from twophase.messages import Acknowledged, BatchStart, Discard, Failed, HeadSnapshot
from twophase.news import Aborted, CommittedUpTo, Decided
from twophase.ownership import Ownership
from twophase.participants import Prepared
from twophase.values import DIGEST_METHODS, CommitOutcome, Committable, OffsetRange
from twophase.version import installed_version

BEGIN = BatchStart(0, {"orders": {"orders/0": 10, "orders/1": 5}}, "v1 0", at=1.0)
START = head(positions={"orders": {"orders/0": 4, "orders/1": 5}})
OURS = committable(scope(0))


def run(
    begin: BatchStart = BEGIN, value: HeadValue = START, sinks: tuple[str, ...] = ("warehouse",), **answers: Any
) -> Any:
    given = {
        "Swap": lambda _: True,
        "RunWriters": lambda _: Acknowledged({"warehouse": (OURS,)}, at=2.0),
        "Commit": lambda action: {s: [CommitOutcome.COMMITTED] * len(g) for s, g in action.committables.items()},
        "ListPrepared": lambda _: {"warehouse": ()},
        **answers,
    }
    return drive(run_checkpoint(Ownership("me", 1, value), begin, sinks, retained=10), given)


def names(actions: list[Any]) -> list[str]:
    return [f"{type(a).__name__} {a.point}" if isinstance(a, messages.Swap) else type(a).__name__ for a in actions]


def test_the_order_of_r10() -> None:
    result, actions = run()
    assert names(actions) == [
        "Permit",
        "RunWriters",
        "AwaitState",
        "PutRecord",
        "Swap decide",
        "Commit",
        "Count",
        "Revoke",
        "ListPrepared",
        "Swap committed",
        "CommitBack",
    ]
    assert result.ranges == {"orders": (OffsetRange("orders/0", 4, 10),)}
    assert result.offsets_log == "v1 0"
    assert messages.ListPrepared(START.incarnation, 0, ("warehouse",)) in actions
    assert actions[-1].positions == {"orders": {"orders/0": 10, "orders/1": 5}}


def test_a_decision_rests_on_the_state_before_it() -> None:
    """Spark may have to run this batch once more, on another machine."""
    begin, value = replace(BEGIN, checkpoint_id=7), replace(START, completed=6, committed=6)
    _, actions = run(begin, value, RunWriters=lambda _: Acknowledged({"warehouse": ()}, at=2.0))
    assert [each for each in actions if isinstance(each, messages.AwaitState)] == [messages.AwaitState(6)]


def test_a_failed_job_is_aborted_by_a_swap_and_then_closed() -> None:
    error = PrepareError("a task failed")
    owned = Ownership("me", 1, START)
    actions: list[Any] = []

    def note(action: Any, answer: Any) -> Any:
        actions.append(action)
        return answer

    answers = {
        "RunWriters": lambda _: Failed(error),
        "Swap": lambda a: note(a, True),
        "Revoke": lambda a: note(a, None),
        "AbortPrepared": lambda a: note(a, None),
        "ListPrepared": lambda a: note(
            a, {"warehouse": (Prepared(OURS.transaction, "ours"), Prepared(None, "foreign"))}
        ),
    }
    with pytest.raises(PrepareError) as caught:
        drive(run_checkpoint(owned, BEGIN, ("warehouse",), 10), answers)
    assert caught.value is error
    assert names(actions) == ["Swap abort", "Revoke", "ListPrepared", "AbortPrepared"]
    assert [p.transaction for p in actions[-1].prepared["warehouse"]] == [OURS.transaction]
    assert owned.head.next_attempt(0) == 2


def test_a_job_that_can_do_otherwise_runs_again_under_the_next_try_when_the_first_is_ended() -> None:
    """What tasks of the first one have prepared holds locks that the second one would wait for."""
    second = committable(scope(0, attempt=2))
    answers = iter([Failed(BadRowError("too long"), again=True), Acknowledged({"warehouse": (second,)}, at=2.0)])
    left = Prepared(OURS.transaction, "of the first")
    listed = iter([(left,), ()])
    record, actions = run(RunWriters=lambda _: next(answers), ListPrepared=lambda _: {"warehouse": next(listed)})
    assert names(actions)[:8] == [
        "Permit",
        "RunWriters",
        "Swap abort",
        "Revoke",
        "ListPrepared",
        "AbortPrepared",
        "Permit",
        "RunWriters",
    ]
    assert [each.scope.attempt for each in actions if isinstance(each, messages.RunWriters)] == [1, 2]
    assert record.committables == {"warehouse": (second,)}
    assert record.scope == scope(0, attempt=2)


def test_it_does_so_as_often_as_the_batch_says() -> None:
    answers = iter([Failed(PrepareError("away"), again=True)] * 3 + [Failed(PrepareError("still away"))])
    with pytest.raises(PrepareError, match="still away"):
        run(RunWriters=lambda _: next(answers))
    assert next(answers, None) is None


def test_what_is_not_of_this_run_is_left_alone_by_the_close() -> None:
    others = [scope(0, epoch=2), scope(1), scope(0, attempt=2), replace(scope(0), incarnation="z" * 20)]
    listed = [Prepared(TransactionId(each, sink_key("warehouse"), 0, 1), str(each)) for each in others]
    sibling = Prepared(TransactionId(scope(0), sink_key("warehouse"), 0, 7), "another attempt")
    _, actions = run(ListPrepared=lambda _: {"warehouse": (*listed[:3], sibling)})
    aborted = next(a for a in actions if isinstance(a, messages.AbortPrepared))
    assert aborted.prepared["warehouse"] == (sibling,)


TWICE = (OURS, committable(scope(0)))
AFTER_A_GAP = replace(OURS, transaction=replace(OURS.transaction, task=OURS.transaction.task + 1))
OTHER_SINK = replace(OURS, transaction=replace(OURS.transaction, sink=sink_key("other")))


@pytest.mark.parametrize(
    ("acknowledged", "said"),
    [
        ({}, r"acknowledged by \[\], not \['warehouse'\]"),
        ({"warehouse": (OURS,), "other": ()}, "acknowledged by"),
        ({"warehouse": (committable(scope(0, epoch=2)),)}, "another run's transaction"),
        ({"warehouse": (committable(scope(1)),)}, "another run's transaction"),
        ({"warehouse": (committable(scope(0, attempt=2)),)}, "another run's transaction"),
        ({"warehouse": (OTHER_SINK,)}, "another run's transaction"),
        ({"warehouse": TWICE}, "not one acknowledgement of each task"),
        ({"warehouse": (AFTER_A_GAP,)}, "not one acknowledgement of each task"),
    ],
)
def test_acknowledgements_must_be_of_this_run(acknowledged: Any, said: str) -> None:
    with pytest.raises(PrepareError, match=said):
        run(RunWriters=lambda _: Acknowledged(acknowledged, 2.0))


def _of(sink: str, *tasks: int) -> tuple[Committable, ...]:
    return tuple(Committable(TransactionId(scope(0), sink_key(sink), task, 100 + task), rows=1) for task in tasks)


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        (((0, 1), (0, 1), (2,)), None),  # two sinks in one branch, and a branch of its own
        (((1, 2), (), (0,)), None),
        (((0, 1), (0,), (2,)), "sinks a and b share tasks, and not all of them"),
        (((0, 1), (0, 1), (3,)), "not one acknowledgement of each task, but 3 of 4 or more"),
        (((1,), (1,), (2,)), "not one acknowledgement of each task"),
    ],
)
def test_sinks_have_all_their_tasks_in_common_or_none(tasks: tuple[tuple[int, ...], ...], said: str | None) -> None:
    found = mistake(scope(0), "abc", {sink: _of(sink, *numbers) for sink, numbers in zip("abc", tasks, strict=True)})
    assert (found is None) if said is None else (found is not None and said in found.message)


@pytest.mark.parametrize(
    ("begin", "value", "said"),
    [
        (replace(BEGIN, checkpoint_id=2), START, "Spark runs batch 2, but the newest completed checkpoint is -1"),
        (BEGIN, head(completed=3, records=(ref(3),)), "Spark re-runs batch 0, but checkpoint 3 is completed"),
        (replace(BEGIN, checkpoint_id=3), head(completed=3), "Spark re-runs batch 3"),
        (replace(BEGIN, ends={"orders": {"orders/0": 3}}), START, "planned up to 3, but 4 is already completed"),
    ],
)
def test_what_spark_may_not_run(begin: BatchStart, value: HeadValue, said: str) -> None:
    with pytest.raises(IdentityError, match=said) as caught:
        run(begin, value)
    assert caught.value.remedy


DECIDED = record(3, 0, 10)
COMPLETED = head(completed=3, committed=3, records=(ref(3),), positions={"orders": {"orders/0": 10}})
WITH_STATE = replace(DECIDED, committables={"warehouse": (replace(committable(scope(3)), digest=255),)})
AGAIN = BatchStart(3, {"orders": {"orders/0": 10}}, "v1 3", at=5.0)


@pytest.mark.parametrize("rows", [None, [{"warehouse": (3, 0)}]])
def test_a_replay_prepares_and_commits_nothing(rows: Any) -> None:
    result, actions = run(AGAIN, COMPLETED, LoadRecord=lambda _: DECIDED, Discard=lambda _: rows)
    assert names(actions) == ["LoadRecord", "Discard"]
    assert result == DECIDED


@pytest.mark.parametrize("method", DIGEST_METHODS)
def test_r4_a_replay_computes_the_method_that_the_record_names(method: int) -> None:
    decided = replace(WITH_STATE, digest_method=method)
    _, actions = run(AGAIN, COMPLETED, LoadRecord=lambda _: decided, Discard=lambda _: [{"warehouse": (3, 255)}])
    assert [each.digest_methods for each in actions if isinstance(each, Discard)] == [(method,)]


@pytest.mark.parametrize("fits", [0, 1])
def test_r4_of_a_record_that_names_no_method_one_of_those_before_names_has_to_fit(fits: int) -> None:
    decided, rows = replace(WITH_STATE, digest_method=None), [{"warehouse": (3, 8)}, {"warehouse": (3, 9)}]
    with pytest.raises(ReplayMismatchError):
        run(AGAIN, COMPLETED, LoadRecord=lambda _: decided, Discard=lambda _: rows)
    rows[fits] = {"warehouse": (3, 255)}
    _, actions = run(AGAIN, COMPLETED, LoadRecord=lambda _: decided, Discard=lambda _: rows)
    assert [each.digest_methods for each in actions if isinstance(each, Discard)] == [(1, 2)]


def test_r4_rows_that_this_version_cannot_compare_are_not_run_again() -> None:
    decided = replace(WITH_STATE, digest_method=99, written_by="7.1.0")
    with pytest.raises(HeadFormatError, match="checkpoint 3 was decided with row digests of method 99") as caught:
        run(AGAIN, COMPLETED, LoadRecord=lambda _: decided, Discard=lambda _: pytest.fail("it runs again"))
    assert "finish it with eos 7.1.0" in caught.value.remedy


def test_r6_a_decision_names_the_method_of_its_tasks() -> None:
    for method in DIGEST_METHODS:
        acknowledged = Acknowledged({"warehouse": (OURS,)}, 2.0, digest_method=method)
        decided, _ = run(BEGIN, RunWriters=lambda _, each=acknowledged: each)
        assert (decided.digest_method, decided.written_by) == (method, installed_version())


def _met(**schemas: frozenset[tuple[str, str]]) -> Acknowledged:
    return Acknowledged({"warehouse": (OURS,)}, 2.0, schemas=schemas)


def test_h35_a_decision_keeps_the_schemas_of_its_records() -> None:
    known = {"orders": {"schema 1": "a"}, "other": {"schema 1": "z"}}
    met = _met(orders=frozenset({("schema 1", "a"), ("schema 2", "b")}), silent=frozenset())
    decided, actions = run(value=replace(START, schemas=known), RunWriters=lambda _: met)
    assert decided.schemas == {"orders": {"schema 1": "a", "schema 2": "b"}}
    swaps = [each.value for each in actions if isinstance(each, messages.Swap)]
    assert [each.schemas for each in swaps] == [{**known, **decided.schemas}] * 2


@pytest.mark.parametrize(
    "met",
    [
        frozenset({("schema 1", "b")}),
        frozenset({("schema 2", "a"), ("schema 2", "b")}),
    ],
    ids=["another than before", "two tasks"],
)
def test_h35_records_that_were_decoded_with_another_schema_are_not_decided(met: frozenset[tuple[str, str]]) -> None:
    points: list[str] = []

    def swap(action: messages.Swap) -> bool:
        points.append(action.point)
        return True

    known = replace(START, schemas={"orders": {"schema 1": "a"}})
    with pytest.raises(IdentityError, match=r"source orders: schema \d is now another schema") as caught:
        run(value=known, RunWriters=lambda _: _met(orders=met), Swap=swap)
    assert "restore its newest state" in caught.value.remedy
    assert points == ["abort"]


def test_r4_digests_of_tasks_add_up_modulo_2_to_the_64() -> None:
    """As those that a replay computes do: a sum beyond that is no other rows."""
    group = tuple(replace(committable(scope(0), task), digest=2**64 - 3) for task in range(2))
    assert replace(record(0), committables={"warehouse": group}).digest == {"warehouse": (6, 2**64 - 6)}


def test_a_replay_goes_on_with_what_was_not_finished() -> None:
    _, actions = run(AGAIN, replace(COMPLETED, committed=2), LoadRecord=lambda _: DECIDED)
    assert names(actions)[1:] == [
        "Discard",
        "Commit",
        "Count",
        "Revoke",
        "ListPrepared",
        "Swap committed",
        "CommitBack",
    ]


def test_a_replay_of_other_offsets_is_refused() -> None:
    with pytest.raises(ReplayMismatchError, match="batch 3 with other offsets"):
        run(replace(AGAIN, offsets_log="v1 other"), COMPLETED, LoadRecord=lambda _: DECIDED)


@pytest.mark.parametrize("rows", [{"warehouse": (2, 0)}, {"warehouse": (3, 1)}])
def test_a_replay_with_other_rows_is_refused(rows: Any) -> None:
    with pytest.raises(ReplayMismatchError, match=r"other rows than it was decided with: .*3, 0") as caught:
        run(AGAIN, COMPLETED, LoadRecord=lambda _: DECIDED, Discard=lambda _: [rows])
    assert "deterministic" in caught.value.remedy


def test_a_replay_is_compared_for_the_sinks_that_are_left() -> None:
    two = replace(DECIDED, committables={**DECIDED.committables, "gone": ()})
    run(AGAIN, COMPLETED, LoadRecord=lambda _: two, Discard=lambda _: [{"warehouse": (3, 0)}])


def test_pruning_comes_after_head_has_let_go() -> None:
    value = head(completed=2, committed=2, records=(ref(1), ref(2)), positions={"orders": {"orders/0": 4}})
    begin = replace(BEGIN, checkpoint_id=3, ends={"orders": {"orders/0": 10}})
    answers = {"RunWriters": lambda _: Acknowledged({"warehouse": (committable(scope(3)),)}, 2.0)}
    given = {
        "Swap": lambda _: True,
        "Commit": lambda action: {s: [CommitOutcome.COMMITTED] * len(g) for s, g in action.committables.items()},
        "ListPrepared": lambda _: {"warehouse": ()},
        **answers,
    }
    owned = Ownership("me", 1, value)
    _, actions = drive(run_checkpoint(owned, begin, ("warehouse",), retained=1), given)
    assert names(actions)[-2:] == ["CommitBack", "Prune"]
    assert actions[-1] == messages.Prune(INCARNATION, (ref(1), ref(2)), below=3)
    assert [each.checkpoint_id for each in owned.head.records] == [3]


TWO = (committable(scope(3), 0), committable(scope(3), 1))
DECISION = replace(DECIDED, committables={"warehouse": TWO, "empty": ()})
COMMITTED, ALREADY, LATER, LOST = (
    CommitOutcome.COMMITTED,
    CommitOutcome.ALREADY_COMMITTED,
    CommitOutcome.RETRY_LATER,
    CommitOutcome.LOST,
)


def commit(*rounds: list[CommitOutcome], seen: HeadSnapshot | None = None) -> list[messages.Commit]:
    left = list(rounds)
    answers = {
        "Commit": lambda action: {s: left.pop(0) if s == "warehouse" else [] for s in action.committables},
        "ReadHead": lambda _: seen,
    }
    actions = drive(commit_everywhere(Ownership("me", 1, COMPLETED), DECISION), answers)[1]
    return [a for a in actions if isinstance(a, messages.Commit)]


def test_only_what_is_late_is_committed_again() -> None:
    actions = commit([COMMITTED, LATER], [LATER], [ALREADY])
    assert [a.repeated for a in actions] == [0, 1, 2]
    assert actions[0].committables == {"warehouse": TWO, "empty": ()}, "a sink without rows is told as well"
    assert actions[1].committables == actions[2].committables == {"warehouse": TWO[1:]}


def test_lost_stops_the_pipeline_with_ids_and_ranges() -> None:
    with pytest.raises(LostCommittableError) as caught:
        commit([COMMITTED, LOST], seen=HeadSnapshot(1, COMPLETED))
    assert str(TWO[1].transaction) in caught.value.message
    assert "orders/0[0, 10)" in caught.value.message
    assert not caught.value.retriable


def test_lost_is_said_after_the_late_ones_are_committed() -> None:
    left = [[LOST, LATER], [COMMITTED]]
    answers = {"Commit": lambda _: {"warehouse": left.pop(0)}, "ReadHead": lambda _: HeadSnapshot(1, COMPLETED)}
    with pytest.raises(LostCommittableError, match="1 of its transactions"):
        drive(
            commit_everywhere(Ownership("me", 1, COMPLETED), replace(DECISION, committables={"warehouse": TWO})),
            answers,
        )
    assert left == []


@pytest.mark.parametrize("seen", [HeadSnapshot(9, replace(COMPLETED, epoch=2)), None])
def test_lost_is_fenced_when_a_newer_driver_pruned_the_witness(seen: HeadSnapshot | None) -> None:
    with pytest.raises(FencedError):
        commit([LOST, LOST], seen=seen)


@pytest.mark.parametrize(
    ("seen", "said"),
    [(HeadSnapshot(9, replace(COMPLETED, epoch=2)), FencedError), (HeadSnapshot(1, COMPLETED), SetBackError)],
)
def test_a_sink_went_back_unless_a_newer_driver_pruned_the_witness(
    seen: HeadSnapshot, said: type[ConnectorError]
) -> None:
    """The sink shows the same picture; a look at head tells them apart (H12)."""
    answers = {
        "Commit": lambda action: {s: [COMMITTED] * len(g) for s, g in action.committables.items()},
        "Count": lambda _: SetBackError.of("warehouse", 3, 4),
        "ReadHead": lambda _: seen,
    }
    with pytest.raises(said):
        drive(commit_and_count(Ownership("me", 1, COMPLETED), DECISION), answers)


def test_h34_a_count_goes_on_over_at_least_once_checkpoints() -> None:
    owned = Ownership("me", 1, COMPLETED)
    number = DECISION.checkpoint_id
    owned.note_counted({"warehouse": number - 3})
    answers = {"Commit": lambda action: {s: [COMMITTED] * len(g) for s, g in action.committables.items()}}
    _, actions = drive(commit_and_count(owned, DECISION), answers)
    assert actions[-1].known == {"warehouse": number - 3}, "the other sink is known to be at the checkpoint before"
    assert owned.counted == dict.fromkeys(DECISION.committables, number)


def test_errors_say_whether_a_restart_may_help() -> None:
    assert PrepareError("").retriable
    assert not any(kind("").retriable for kind in (FencedError, IdentityError, LostCommittableError, ConnectorError))


def test_whoever_watches_is_told_what_stands() -> None:
    """Each once it is true: an abort after its swap and its rollbacks, committed once head says so."""
    second, refused = committable(scope(0, attempt=2)), BadRowError("too long")
    answers = iter([Failed(refused, again=True), Acknowledged({"warehouse": (second,)}, at=2.0)])
    seen: list[Any] = []

    def note(action: Any) -> None:
        seen.append(action.news if isinstance(action, messages.Emit) else names([action])[0])

    def swap(action: Any) -> bool:
        note(action)
        return True

    record, _ = run(
        RunWriters=lambda _: next(answers),
        Swap=swap,
        Revoke=note,
        Emit=note,
    )
    assert seen == [
        "Swap abort",
        "Revoke",
        Aborted(scope(0), refused),
        "Swap decide",
        Decided(record),
        "Revoke",
        "Swap committed",
        CommittedUpTo(START.incarnation, 0),
    ]
