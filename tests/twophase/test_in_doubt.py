"""What becomes of what a sink holds prepared."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eos.errors import IdentityError
from spark_jobs.cli.in_doubt import chosen_of
from tests.twophase_values import head, record, scope
from twophase.ids import TransactionId, sink_key
from twophase.in_doubt import Resolution, in_doubt_transaction
from twophase.participants import Prepared

DECIDED = record(4)
(OURS,) = DECIDED.committables["warehouse"]
HEAD = head(epoch=5, completed=4, committed=3)


def _prepared(transaction: TransactionId | None) -> Prepared:
    return Prepared(transaction, "as listed")


@pytest.mark.parametrize(
    ("transaction", "resolution", "why"),
    [
        (None, Resolution.FOREIGN, "another program's"),
        (TransactionId(replace(scope(4), incarnation="z" * 20), "s", 0, 1), Resolution.FOREIGN, "another incarnation"),
        (OURS.transaction, Resolution.COMMIT, "checkpoint 4 was decided with it"),
        (replace(OURS.transaction, task_attempt=99), Resolution.ROLL_BACK, "decided without it"),
        (TransactionId(scope(2), sink_key("warehouse"), 0, 1), Resolution.ROLL_BACK, "decided without it"),
        (TransactionId(scope(5, epoch=4), sink_key("warehouse"), 0, 1), Resolution.ROLL_BACK, "was replaced"),
        (TransactionId(scope(5, epoch=5), sink_key("warehouse"), 0, 1), Resolution.OPEN, "if it still runs"),
    ],
)
def test_resolutions(transaction: TransactionId | None, resolution: Resolution, why: str) -> None:
    found = in_doubt_transaction(HEAD, {4: DECIDED}, "warehouse", _prepared(transaction))
    assert found.resolution is resolution
    assert why in found.why


def test_a_decided_one_brings_all_of_its_checkpoint_along() -> None:
    found = in_doubt_transaction(HEAD, {4: DECIDED}, "warehouse", _prepared(OURS.transaction))
    assert (found.decided, found.decided_at) == (DECIDED.committables["warehouse"], DECIDED.decided_at)


def test_a_try_that_was_aborted_is_rolled_back_and_the_next_one_is_open() -> None:
    aborted = replace(HEAD, aborted_checkpoint=5, aborted_attempt=2)
    for attempt, resolution in ((1, Resolution.ROLL_BACK), (2, Resolution.ROLL_BACK), (3, Resolution.OPEN)):
        transaction = TransactionId(scope(5, epoch=5, attempt=attempt), sink_key("warehouse"), 0, 1)
        assert in_doubt_transaction(aborted, {}, "warehouse", _prepared(transaction)).resolution is resolution


def test_what_another_life_left_is_ended_by_force_and_what_another_program_left_never() -> None:
    lost = _prepared(TransactionId(replace(scope(4), incarnation="z" * 20), "s", 0, 1))
    foreign = _prepared(None)
    found = [in_doubt_transaction(HEAD, {}, "warehouse", each) for each in (lost, foreign)]
    assert chosen_of(found, None, Resolution.ROLL_BACK, force=False) == []
    with pytest.raises(IdentityError, match="only that pipeline's head knows") as refused:
        chosen_of(found, [str(lost.transaction)], Resolution.ROLL_BACK, force=False)
    assert "if that head is lost" in refused.value.remedy
    assert chosen_of(found, [str(lost.transaction)], Resolution.ROLL_BACK, force=True) == found[:1]
    with pytest.raises(IdentityError, match="it belongs to another program"):
        chosen_of(found, ["as listed"], Resolution.ROLL_BACK, force=True)
