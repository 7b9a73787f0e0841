"""R2: what a start makes of a rescale that has begun, which batches a rescale waits for, and the record of one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from eos.errors import FencedError, IdentityError, PrepareError
from tests.twophase_values import drive, head, record, ref
from twophase.codec import decode_record, encode_record
from twophase.messages import Failed, HeadSnapshot, Inspected
from twophase.rescale import rescale
from twophase.values import CheckpointRecord, SinkState, SparkState
from twophase.verify import verify

RESCALED = CheckpointRecord(replace(record(1).scope), {"orders": ()}, "v1 1", {"warehouse": ()}, 1.0, 2.0)
HEAD = head(query_id="q", completed=0, committed=0, records=(ref(0),))
SINKS = {"warehouse": SinkState(claim_incarnation=HEAD.incarnation, claim_epoch=1, highest_witness=0)}


def spark(committed: int, now: int = 8) -> SparkState:
    return SparkState("q", 1, committed, {0: "v1 0", 1: "v1 1"}, {0: 4, 1: now})


@pytest.mark.parametrize("committed", [0, 1])
def test_a_start_is_refused_while_a_rescale_has_not_ended_and_a_rescale_is_not(committed: int) -> None:
    with pytest.raises(IdentityError, match="a rescale to 8 state partitions has begun after checkpoint 0") as caught:
        verify("orders", HEAD, record(0), spark(committed), SINKS)
    assert "eos rescale --state-partitions 8 --yes" in caught.value.remedy
    verify("orders", HEAD, record(0), spark(committed), SINKS, rescales=True)


def test_a_plan_with_the_same_number_is_no_rescale() -> None:
    verify("orders", HEAD, record(0), spark(0, now=4), SINKS)
    with pytest.raises(IdentityError, match="Spark has committed batch 1"):
        verify("orders", HEAD, record(0), spark(1, now=4), SINKS, rescales=True)


def test_a_rescale_whose_state_is_gone_is_refused() -> None:
    """Spark's checkpoint was put back from before the end of it: state is of another number than its plan says."""
    decided = replace(HEAD, completed=1, committed=1, records=(ref(0), ref(1)))
    done = replace(RESCALED, state_partitions=8)
    with pytest.raises(IdentityError, match="lacks the state that the rescale of checkpoint 1 has divided anew"):
        verify("orders", decided, done, spark(0), SINKS)
    verify("orders", decided, done, spark(1), SINKS)


def test_the_record_of_a_rescale_says_so() -> None:
    done = replace(RESCALED, state_partitions=8)
    assert decode_record(encode_record(done)) == done
    assert b"state_partitions" not in encode_record(RESCALED)


def _rescale(partitions: int, found: SparkState, **answers: Any) -> Any:
    """A rescale of a pipeline whose checkpoint 0 is committed, and which has 4 state partitions."""
    given = {
        "ReadHead": lambda _: HeadSnapshot(3, HEAD),
        "Inspect": lambda _: Inspected(found, SINKS),
        "LoadRecord": lambda _: record(0),
        "Swap": lambda _: True,
        "ListPrepared": lambda _: {"warehouse": ()},
        "RescaleState": lambda _: pytest.fail("Spark was asked to divide the state"),
        "DropPlan": lambda _: pytest.fail("a plan was taken back"),
        **answers,
    }
    return drive(rescale("orders", ("warehouse",), "run.1", "n" * 20, 10, partitions), given)


AT_REST = SparkState("q", 0, 0, {0: "v1 0"}, {0: 4})


@pytest.mark.parametrize("busy", [spark(0, now=4), replace(AT_REST, newest_committed=-1)])
def test_a_rescale_begins_only_where_no_batch_is_planned_or_to_be_run_again(busy: SparkState) -> None:
    with pytest.raises(IdentityError, match=r"batch \d of pipeline orders has not ended"):
        _rescale(8, busy)


def test_a_rescale_that_failed_takes_back_nothing_of_a_driver_that_has_come_after_it() -> None:
    heads = [HeadSnapshot(3, HEAD), HeadSnapshot(5, replace(HEAD, epoch=9))]
    failed = Failed(PrepareError("Spark has failed"))
    with pytest.raises(FencedError):
        _rescale(8, AT_REST, ReadHead=lambda _: heads.pop(0), RescaleState=lambda _: failed)
    dropped: list[Any] = []
    heads = [HeadSnapshot(3, HEAD), HeadSnapshot(4, replace(HEAD, epoch=2, nonces=("a.1", "run.1.1-drawn")))]
    with pytest.raises(PrepareError):
        _rescale(8, AT_REST, ReadHead=lambda _: heads.pop(0), RescaleState=lambda _: failed, DropPlan=dropped.append)
    assert [each.checkpoint_id for each in dropped] == [1]


def test_a_rescale_that_has_begun_is_taken_back_by_the_number_of_before_alone() -> None:
    dropped: list[Any] = []
    done, _ = _rescale(4, spark(0, now=8), DropPlan=dropped.append)
    assert ((done.before, done.now, done.record), [each.checkpoint_id for each in dropped]) == ((4, 4, None), [1])
    with pytest.raises(IdentityError, match="a rescale to 8 state partitions has not ended"):
        _rescale(16, spark(0, now=8))
    with pytest.raises(IdentityError, match="a rescale to 8 state partitions has not ended"):
        _rescale(4, spark(1, now=8))  # Spark has committed it: it can only be brought to its end
