"""R1-R3: the start of a driver, and how it meets others that start or live at the same time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from eos.errors import FencedError, HeadFormatError, HeadUnknownError, IdentityError
from tests.twophase_values import INCARNATION, committable, drive, head, record, ref, scope
from twophase import messages
from twophase.ids import TransactionId, sink_key
from twophase.messages import HeadSnapshot, Inspected
from twophase.participants import Prepared
from twophase.startup import start
from twophase.values import CommitOutcome, SinkState, SparkState

DECIDED = record(4, 0, 10)
UNREADABLE = HeadFormatError("the record of checkpoint 4 cannot be read")
HEAD = head(epoch=7, query_id="query", completed=4, committed=4, records=(ref(4),))
SPARK = SparkState("query", 4, 4, {4: "v1 4"})
FITTING = Inspected(SPARK, {"warehouse": SinkState(INCARNATION, 6, 4)})


def run(seen: Any, follows: HeadSnapshot | None = None, session: str = "run.1", **answers: Any) -> Any:
    reads = list(seen) if isinstance(seen, list) else None
    given = {
        "ReadHead": (lambda _: reads.pop(0) if len(reads) > 1 else reads[0]) if reads else (lambda _: seen),
        "Inspect": lambda _: FITTING,
        "LoadRecord": lambda _: DECIDED,
        "Swap": lambda _: True,
        "Commit": lambda action: {s: [CommitOutcome.COMMITTED] * len(g) for s, g in action.committables.items()},
        "ListPrepared": lambda _: {"warehouse": ()},
        **answers,
    }
    return drive(start("orders", ("warehouse",), session, "n" * 20, 10, follows), given)


def names(actions: list[Any]) -> list[str]:
    return [type(each).__name__ for each in actions]


def test_the_first_start_of_a_pipeline() -> None:
    owned, actions = run(None, Inspect=lambda _: Inspected(SparkState(), {"warehouse": SinkState()}))
    assert owned.head.sinks == ("warehouse",)
    assert names(actions) == ["ReadHead", "Inspect", "Swap", "Claim", "ListPrepared", "Inspect", "Sweep"]
    assert (owned.version, owned.head.epoch, owned.head.incarnation) == (1, 1, "n" * 20)
    assert actions[2].version == 0


def test_what_is_decided_is_committed_before_anything_is_aborted() -> None:
    old = Prepared(TransactionId(scope(5, epoch=7), sink_key("warehouse"), 0, 1), "old")
    foreign = Prepared(None, "somebody else's")
    owned, actions = run(
        HeadSnapshot(9, replace(HEAD, committed=3)), ListPrepared=lambda _: {"warehouse": (old, foreign)}
    )
    rest = names(actions)[names(actions).index("Swap") :]
    assert rest == [
        "Swap",
        "LoadRecord",
        "Commit",
        "Count",
        "Claim",
        "ListPrepared",
        "AbortPrepared",
        "Inspect",
        "Swap",
        "Sweep",
    ]
    assert actions[-4].prepared == {"warehouse": (old,)}
    assert actions[-6] == messages.Claim(INCARNATION, 8, begins=4, counted={"warehouse": 4})
    assert (owned.head.epoch, owned.head.committed) == (8, 4)


def _behind() -> dict[str, Any]:
    """Answers where checkpoints 5 and 6 are decided, and 4 is the newest that is committed."""
    records = {number: record(number, 0, 10) for number in (4, 5, 6)}
    spark = SparkState("query", 6, 5, {6: "v1 6"})
    return {
        "seen": HeadSnapshot(9, replace(HEAD, completed=6, records=tuple(map(ref, records)))),
        "LoadRecord": lambda action: records[action.ref.checkpoint_id],
        "Inspect": lambda _: Inspected(spark, FITTING.sinks),
    }


def test_r3_what_is_decided_is_committed_in_the_order_of_the_checkpoints() -> None:
    """A sink counts one after the other (H26), and of two rows of one key the later one has to win (H16)."""
    owned, actions = run(**_behind())
    done = [each for each in actions if isinstance(each, messages.Commit | messages.Count)]
    assert [(type(each).__name__, each.checkpoint_id) for each in done] == [
        ("Commit", 5),
        ("Count", 5),
        ("Commit", 6),
        ("Count", 6),
    ]
    assert owned.head.committed == 6


def test_r2_rows_that_are_decided_and_not_committed_are_not_asked_for() -> None:
    """They are not there yet: a start that missed them would refuse what it has to commit."""
    _, actions = run(**_behind())
    inspect = next(each for each in actions if isinstance(each, messages.Inspect))
    assert inspect.expected == {"warehouse": (committable(scope(4)),)}


def test_a_claim_names_the_sinks_of_its_own_spec() -> None:
    owned, _ = run(HeadSnapshot(9, replace(HEAD, sinks=("gone", "warehouse"))))
    assert owned.head.sinks == ("warehouse",)
    with pytest.raises(IdentityError, match="sink gone, which the spec no longer names"):
        run(
            HeadSnapshot(9, replace(HEAD, sinks=("gone", "warehouse"))),
            Inspect=lambda _: Inspected(replace(SPARK, newest_planned=5), FITTING.sinks),
        )


def test_transactions_of_a_newer_epoch_fence() -> None:
    newer = Prepared(TransactionId(scope(5, epoch=9), sink_key("warehouse"), 0, 1), "newer")
    with pytest.raises(FencedError, match="newer"):
        run(HeadSnapshot(9, HEAD), ListPrepared=lambda _: {"warehouse": (newer,)})


def test_h27_what_no_record_can_judge_is_not_rolled_back() -> None:
    """A sink that went back in time holds it, of a checkpoint whose record head has let go of."""
    old = Prepared(TransactionId(scope(1, epoch=3), sink_key("warehouse"), 0, 1), "old")
    actions: list[Any] = []
    with pytest.raises(IdentityError, match="holds old prepared, and head keeps no record of checkpoint 1"):
        run(HeadSnapshot(9, HEAD), ListPrepared=lambda _: {"warehouse": (old,)}, AbortPrepared=actions.append)
    assert actions == []


def test_h29_transactions_of_ones_own_epoch_at_its_start_are_another_drivers() -> None:
    """Head went back over that driver's claim, so that both have claimed the same epoch."""
    twin = Prepared(TransactionId(scope(5, epoch=8), sink_key("warehouse"), 0, 1), "twin")
    with pytest.raises(IdentityError, match="head of pipeline orders was set back: a sink holds twin") as caught:
        run(HeadSnapshot(9, HEAD), ListPrepared=lambda _: {"warehouse": (twin,)})
    assert "restore the newest head" in caught.value.remedy


@pytest.mark.parametrize(("epoch", "error"), [(8, IdentityError), (9, FencedError)])
def test_h29_rows_of_a_decision_that_head_lacks_are_found_after_the_claim(epoch: int, error: type[Exception]) -> None:
    """A driver that lives has committed them after the first look; or they are a successor's."""
    states = [FITTING, Inspected(SPARK, {"warehouse": SinkState(INCARNATION, 8, 5)})]
    reads = [HeadSnapshot(9, HEAD), HeadSnapshot(10, replace(HEAD, epoch=epoch, nonces=("run.1.1-drawn",)))]
    with pytest.raises(error, match=r"holds rows of checkpoint 5, the newest completed is 4|is at epoch 9"):
        run(reads, Inspect=lambda _: states.pop(0))


@pytest.mark.parametrize(
    ("version", "epoch", "nonces", "goes_on"),
    [
        (9, 6, ("run.0.4", "run.0.5"), True),
        (10, 6, ("run.0.4", "run.0.5", "run.0.6"), True),  # a swap of this run that landed late
        (8, 6, ("run.0.4",), False),  # the newest swap of this run is gone
        (9, 6, ("run.0.4", "other.0.1"), False),  # and another driver has claimed the same epoch
        (9, 5, ("run.0.5",), False),  # the claim is gone
        (17, 6, tuple(f"run.0.{n}" for n in range(6, 14)), True),  # so many swaps of this run that landed late
        (8, 6, tuple(f"run.0.{n}" for n in range(-3, 5)), False),  # they are all of this run, and older
    ],
)
def test_h29_a_restart_goes_on_only_from_what_its_run_has_written(
    version: int, epoch: int, nonces: tuple[str, ...], *, goes_on: bool
) -> None:
    follows = HeadSnapshot(9, replace(HEAD, epoch=6, nonces=("run.0.4", "run.0.5")))
    seen = HeadSnapshot(version, replace(HEAD, epoch=epoch, nonces=nonces))
    if goes_on:
        assert run(seen, follows)[0].head.epoch == epoch + 1
    else:
        with pytest.raises(IdentityError, match=f"head is at version {version}, epoch {epoch}"):
            run(seen, follows)


def test_what_the_newest_committed_checkpoint_wrote_is_asked_for() -> None:
    _, actions = run(HeadSnapshot(9, HEAD))
    inspect = next(a for a in actions if isinstance(a, messages.Inspect))
    assert inspect == messages.Inspect(INCARNATION, {"warehouse": (committable(scope(4)),)})


def test_a_checkpoint_without_tasks_leaves_no_witness_so_that_the_one_before_is_asked_for() -> None:
    empty = replace(record(5, 10, 10), committables={"warehouse": ()})
    value = replace(HEAD, completed=5, committed=5, records=(ref(4), ref(5)))
    spark = replace(SPARK, newest_planned=5, newest_committed=5, offsets_log={5: "v1 5"})
    _, actions = run(
        HeadSnapshot(9, value),
        LoadRecord=lambda action: {4: DECIDED, 5: empty}[action.ref.checkpoint_id],
        Inspect=lambda _: Inspected(spark, FITTING.sinks),
    )
    inspect = next(a for a in actions if isinstance(a, messages.Inspect))
    assert inspect.expected == {"warehouse": (committable(scope(4)),)}


def test_a_refusal_changes_nothing() -> None:
    actions: list[Any] = []

    def note(action: Any) -> Any:
        actions.append(action)
        return Inspected(replace(SPARK, newest_planned=9), FITTING.sinks)

    with pytest.raises(IdentityError, match="planned batch 9"):
        run(HeadSnapshot(9, HEAD), Inspect=note, Swap=lambda _: pytest.fail("claimed"))
    assert len(actions) == 1


def test_a_comparison_of_two_moments_is_made_again() -> None:
    """A driver that still lives has gone on between the read of head and that of the sinks."""
    states = [Inspected(SPARK, {"warehouse": SinkState(INCARNATION, 7, 5)}), FITTING, FITTING]
    later = HeadSnapshot(11, replace(HEAD, nonces=("b.1",)))
    owned, _ = run([HeadSnapshot(9, HEAD), later], Inspect=lambda _: states.pop(0))
    assert owned.version == 12


def test_a_record_that_was_pruned_meanwhile_is_no_damage() -> None:
    records = [UNREADABLE, DECIDED, DECIDED]
    later = HeadSnapshot(11, replace(HEAD, nonces=("b.1",)))
    owned, _ = run([HeadSnapshot(9, HEAD), later], LoadRecord=lambda _: records.pop(0))
    assert owned.version == 12


def test_a_record_that_is_missing_is_damage() -> None:
    with pytest.raises(HeadFormatError, match="checkpoint 4"):
        run(HeadSnapshot(9, HEAD), LoadRecord=lambda _: UNREADABLE)


def test_a_claim_that_is_refused_begins_again() -> None:
    answers = [False, True]
    later = HeadSnapshot(10, replace(HEAD, epoch=8, nonces=("b.1",)))
    owned, actions = run([HeadSnapshot(9, HEAD), later], Swap=lambda _: answers.pop(0))
    assert (owned.version, owned.head.epoch) == (11, 9)
    assert names(actions).count("Inspect") == 3  # the last one after the claim


@pytest.mark.parametrize("answer", [False, None])
def test_a_head_that_takes_no_claim_is_given_up(answer: bool | None) -> None:
    with pytest.raises(HeadUnknownError, match="did not take or answer a claim in 100 rounds"):
        run(HeadSnapshot(9, HEAD), Swap=lambda _: answer)


def test_an_earlier_claim_that_landed_late_does_not_pass_for_the_one_just_sent() -> None:
    register = [HeadSnapshot(9, HEAD)]
    sent: list[messages.Swap] = []

    def swap(action: messages.Swap) -> bool | None:
        sent.append(action)
        if len(sent) == 3:
            return True
        return None  # neither is answered, and the second never lands

    def read(_: Any) -> HeadSnapshot:
        if len(sent) == 1 and len(reads) == 1:  # the first lands after it was looked for
            register.append(HeadSnapshot(10, sent[0].value))
        reads.append(1)
        return register[0] if len(reads) <= 2 else register[-1]

    reads: list[int] = []
    owned, _ = run(None, ReadHead=read, Swap=swap)
    assert len({each.value.nonces[-1] for each in sent}) == 3
    assert (owned.version, owned.head.epoch) == (11, 9)
    assert [each.value.epoch for each in sent] == [8, 9, 9]


@pytest.mark.parametrize(
    ("nonce", "epoch", "goes_on"),
    [
        ("run.0.5", 6, True),  # nobody has claimed since
        ("other.0.1", 7, False),  # somebody has
        ("run.0.9", 7, True),  # a start of this run, which failed later on
        ("run2.0.1", 7, False),  # another run, whose name begins like this one's
    ],
)
def test_a_restart_goes_on_only_while_nobody_else_has_claimed(nonce: str, epoch: int, *, goes_on: bool) -> None:
    follows = HeadSnapshot(8, replace(HEAD, epoch=6))
    seen = HeadSnapshot(9, replace(HEAD, epoch=epoch, nonces=(*HEAD.nonces, nonce)))
    if goes_on:
        assert run(seen, follows)[0].head.epoch == epoch + 1
    else:
        with pytest.raises(FencedError, match="is at epoch 7, this driver is epoch 6"):
            run(seen, follows)


@pytest.mark.parametrize(("counts", "known"), [(3, 4), (4, 4), (None, 3)])
@pytest.mark.parametrize("direct", [True, False])
def test_h26_a_start_knows_the_count_that_it_had_a_sink_catch_up_to(
    counts: int | None, known: int, *, direct: bool
) -> None:
    """Its first permit compares that count: else nothing notices a sink that goes back right after the start.

    The sink had no part in checkpoint 4: tasks committed there themselves, or the pipeline ran without the sink.
    """
    newest = replace(DECIDED, direct=True) if direct else replace(DECIDED, committables={})
    owned, actions = run(
        HeadSnapshot(9, replace(HEAD, records=(ref(3), ref(4)))),
        LoadRecord=lambda action: {3: record(3, 0, 5), 4: newest}[action.ref.checkpoint_id],
        Inspect=lambda _: Inspected(SPARK, {"warehouse": SinkState(INCARNATION, 6, 3, counted=counts)}),
    )
    (catch_up,) = (each for each in actions if isinstance(each, messages.FastForward))
    assert (catch_up.epoch, catch_up.checkpoint_id, catch_up.sinks) == (8, 4, ("warehouse",))
    assert owned.counted == {"warehouse": known}


def test_h34_a_start_says_in_the_head_of_an_earlier_version_which_records_are_direct() -> None:
    """Only while one is there that sinks have counted: else it may have been let go of, and nobody could judge."""
    direct = {each: replace(record(each, 0, 10), direct=True) for each in (3, 4)}
    for found, labelled in ((direct, []), ({2: record(2, 0, 10), **direct}, [3, 4])):
        owned, _ = run(
            HeadSnapshot(9, replace(HEAD, records=tuple(map(ref, found)))),
            Inspect=lambda _: Inspected(SPARK, {"warehouse": SinkState(INCARNATION, 6, 4, counted=4)}),
            LoadRecord=lambda action, found=found: found[action.ref.checkpoint_id],
        )
        assert [each.checkpoint_id for each in owned.head.records] == [*found]
        assert [each.checkpoint_id for each in owned.head.records if each.direct] == labelled


def test_h34_where_no_record_tells_a_count_moves_by_one() -> None:
    """A repair that died has taken back what head has no record of; then nothing says what was at-least-once."""
    records = {each: record(each, 0, 10) for each in (3, 4)}
    direct = {2: replace(record(2, 0, 10), direct=True), **records}
    for found, known in ((records, [{}, {}]), (direct, [{"warehouse": -1}, {}])):
        refs = tuple(replace(ref(each.checkpoint_id), direct=each.direct) for each in found.values())
        _, actions = run(
            HeadSnapshot(9, replace(HEAD, committed=2, records=refs)),
            Inspect=lambda _: Inspected(SPARK, {"warehouse": SinkState(INCARNATION, 6, 1, counted=1)}),
            LoadRecord=lambda action, found=found: found[action.ref.checkpoint_id],
        )
        asked = [each for each in actions if isinstance(each, messages.Commit | messages.Count)]
        assert [each.checkpoint_id for each in asked] == [3, 3, 4, 4]
        assert [each.known for each in asked[::2]] == [each.known for each in asked[1::2]] == known
