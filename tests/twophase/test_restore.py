"""R2: a life that begins from a savepoint: in what order, what it refuses, and what head knows then."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from eos.errors import IdentityError
from tests.twophase_values import INCARNATION, drive, head, record, ref
from twophase import messages
from twophase.codec import decode_head, encode_head
from twophase.head_value import HeadValue, Origin
from twophase.messages import HeadSnapshot, Inspected
from twophase.restore import Seed, foreign_claims, restore
from twophase.values import SinkState, SparkState, StartingPoint
from twophase.verify import verify

NEW = "n" * 20
BEGINS = {"orders": StartingPoint({"orders/0": 0}, {"orders": "topic"})}
SEED = Seed("saved", 4, "query", "v1 4", BEGINS, {"orders": {"orders/0": 20}}, 2.0)
HEAD = head(epoch=7, query_id="query", completed=6, committed=6, records=(ref(6),))
CLAIMED = SinkState(INCARNATION, 7, 6, counted=6)


def run(
    seen: HeadSnapshot | None,
    sink: SinkState = CLAIMED,
    *,
    expected: HeadValue | None,
    take_over: bool = False,
    moves: HeadValue | None = None,
) -> Any:
    """(what it answers or raises, names of the actions, swaps). `moves`: head goes there before it is claimed."""
    actions: list[Any] = []
    register = [seen]

    def swap(action: messages.Swap) -> bool:
        actions.append(action)
        if moves is not None and len(register) == 1:
            register.append(HeadSnapshot(action.version + 1, moves))
            return False
        register.append(HeadSnapshot(action.version + 1, action.value))
        return True

    def noted(action: Any) -> None:
        actions.append(action)

    answers: dict[str, Any] = {
        "ReadHead": lambda _: register[-1],
        "Inspect": lambda _: Inspected(SparkState("query", 6, 6), {"warehouse": sink}),
        "Swap": swap,
        "ListPrepared": lambda _: {"warehouse": ()},
        "LoadRecord": lambda action: record(action.ref.checkpoint_id),
        **dict.fromkeys(("PutRecord", "Claim", "Prune", "Sweep"), noted),
    }
    steps = restore("orders", ("warehouse",), "run", NEW, SEED, expected=expected, take_over=take_over)
    try:
        result, _ = drive(steps, answers)
    except IdentityError as error:
        result = error
    swaps = [each for each in actions if isinstance(each, messages.Swap)]
    return result, [type(each).__name__ for each in actions], swaps


def test_the_old_life_is_ended_before_the_new_one_is_born_whole() -> None:
    begun, names, swaps = run(HeadSnapshot(9, HEAD), expected=HEAD)
    assert names == ["PutRecord", "Swap", "Claim", "Swap", "Claim", "Prune", "Sweep"]
    assert [each.point for each in swaps] == ["claim", "restore"]
    born = begun.head
    assert (born.incarnation, born.epoch, born.completed, born.committed) == (NEW, 8, 4, 4)
    assert (born.query_id, born.positions) == ("query", {"orders": {"orders/0": 20}})
    assert born.origin == Origin("saved", 4, INCARNATION)
    assert [each.checkpoint_id for each in born.records] == [4]
    assert decode_head(encode_head(born)) == born


def test_where_there_is_no_head_it_is_born_with_one_swap() -> None:
    begun, names, _ = run(None, SinkState(), expected=None)
    assert names == ["PutRecord", "Swap", "Claim"]
    assert (begun.head.epoch, begun.head.completed, begun.head.origin) == (1, 4, Origin("saved", 4, None))


def test_a_sink_of_another_life_is_left_alone_unless_that_is_meant() -> None:
    error, names, _ = run(None, expected=None)
    assert (isinstance(error, IdentityError), names) == (True, [])
    assert "--take-over" in error.remedy
    begun, _, _ = run(None, expected=None, take_over=True)
    assert begun.head.incarnation == NEW


def test_a_driver_that_has_gone_on_meanwhile() -> None:
    beyond = replace(HEAD, completed=7, nonces=(*HEAD.nonces, "driver.2"))
    error, names, _ = run(HeadSnapshot(9, beyond), expected=HEAD)
    assert (isinstance(error, IdentityError), names) == (True, [])
    error, names, _ = run(HeadSnapshot(9, HEAD), expected=HEAD, moves=beyond)
    assert isinstance(error, IdentityError)
    assert names == ["PutRecord", "Swap"], "the claim was refused and not sent again"
    assert "nothing was changed" in error.remedy


def test_the_life_before_is_known_until_every_sink_is_claimed_anew() -> None:
    born = head(incarnation=NEW, completed=4, origin=Origin("saved", 4, INCARNATION))
    sinks = {"a": SinkState(INCARNATION, 7), "b": SinkState(NEW, 8), "c": SinkState("x" * 20, 1), "d": SinkState()}
    assert foreign_claims(born, sinks) == {"c": "x" * 20}
    assert set(foreign_claims(None, sinks)) == {"a", "b", "c"}


@pytest.mark.parametrize("sink", [SinkState(INCARNATION, 7), SinkState()])
def test_a_start_without_the_savepoint_says_that_one_with_it_was_cut_short(sink: SinkState) -> None:
    born = head(incarnation=NEW, completed=4, committed=4, origin=Origin("saved", 4, INCARNATION))
    with pytest.raises(IdentityError) as caught:
        verify("orders", born, None, SparkState(None, 4, 4), {"warehouse": sink})
    assert "savepoint saved was cut short" in caught.value.remedy
    later = replace(born, completed=5, committed=5)
    with pytest.raises(IdentityError) as caught:
        verify("orders", later, None, SparkState(None, 5, 5), {"warehouse": sink})
    assert "cut short" not in caught.value.remedy
