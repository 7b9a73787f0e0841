"""R2: what a start, and a rescale, make of a rescale that has begun; and the record of one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.twophase_values import head, record, ref
from twophase.codec import decode_record, encode_record
from twophase.errors import IdentityError
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
