"""R1: a run that was superseded does not take the pipeline back by its own restart."""

from __future__ import annotations

from typing import Any

import pytest

from eos.errors import FencedError, IdentityError
from twophase import messages
from twophase.head_value import HeadValue
from twophase.messages import Action, HeadSnapshot
from twophase.startup import start

_INCARNATION = "a" * 20


def _head(epoch: int, nonce: str) -> HeadValue:
    return HeadValue("orders", _INCARNATION, epoch, (nonce,))


def _after_reading(found: HeadValue, follows: HeadValue | None, version: int = 7) -> Action[Any]:
    """What a start does next when it has found this head."""
    held = HeadSnapshot(7, follows) if follows is not None else None
    steps = start("orders", ("warehouse",), "run.2", _INCARNATION, 10, held)
    assert isinstance(next(steps), messages.ReadHead)
    return steps.send(HeadSnapshot(version, found))


def test_a_restart_ends_as_fenced_where_another_run_has_claimed_meanwhile() -> None:
    with pytest.raises(FencedError, match="is at epoch 4, this driver is epoch 3"):
        _after_reading(_head(4, "other.0.1"), follows=_head(3, "run.1.5"))


def test_a_restart_goes_on_under_its_own_epoch_and_after_its_own_failed_start() -> None:
    mine = _head(3, "run.0.5")
    assert isinstance(_after_reading(mine, follows=mine), messages.Inspect)
    assert isinstance(_after_reading(_head(4, "run.1.1"), follows=mine), messages.Inspect)


def test_the_first_start_of_a_run_takes_over_from_anybody() -> None:
    assert isinstance(_after_reading(_head(4, "other.0.1"), follows=None), messages.Inspect)


@pytest.mark.parametrize("lost", [1, 7, 8, 30])
def test_h29_a_restart_does_not_go_on_where_head_has_lost_swaps_of_its_own_epoch(lost: int) -> None:
    """Each of the older heads names swaps of this run alone."""

    def after(swaps: int) -> HeadValue:
        return HeadValue("orders", _INCARNATION, 3, tuple(f"run.0.{each}" for each in range(swaps - 7, swaps + 1)))

    with pytest.raises(IdentityError, match="head of pipeline orders was set back"):
        _after_reading(after(40 - lost), follows=after(40), version=7 - lost)
    for further in (0, 1, 8, 30):  # what another thread of it, or a swap without an answer, has written since
        assert isinstance(_after_reading(after(40 + further), after(40), 7 + further), messages.Inspect)
