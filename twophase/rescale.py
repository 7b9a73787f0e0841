"""R2: Spark's state is divided into another number of partitions, and head takes it for a checkpoint without rows.

Pure; read top to bottom. Spark does it while the pipeline stands still, by a batch that reads nothing: a plan with
another number (`offsets/N`), the state, and `commits/N`. Head decides that batch as checkpoint N once Spark knows it:
until then every start is refused, so that nothing is planned on what may still be taken back.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from eos.errors import IdentityError, SpecError
from twophase import messages
from twophase.checkpoint import put_record_of, say, show, tell
from twophase.head_value import HeadValue
from twophase.ids import Scope
from twophase.messages import Failed, StateRescaled, Steps
from twophase.ownership import Ownership, check_owned
from twophase.startup import claim_head, recover
from twophase.transitions import Complete, CompleteDirect
from twophase.values import CheckpointRecord, SparkState


@dataclass(frozen=True, slots=True)
class Rescaled:
    """What a rescale has done."""

    head: HeadValue
    before: int  # state partitions
    now: int
    record: CheckpointRecord | None = None  # None: it had that number, or one that had not ended was taken back


def rescale(
    pipeline: str,
    sinks: Sequence[str],
    session: str,
    incarnation: str,
    retained: int,
    partitions: int,
    late: Collection[str] = (),
    *,
    direct: bool = False,
) -> Steps[Rescaled]:
    """Take the pipeline over as a start does, then divide its state into `partitions`.

    Killed at any point, it is run again with the same number, which goes on where it was. With the number of before,
    what Spark has not finished is taken back.

    Raises what a start raises; IdentityError where a batch is under way that must come to its end first, or another
    rescale; SpecError where there is no state; what Spark failed with, after which all is as before.
    """
    owned, compared = yield from claim_head(pipeline, sinks, session, incarnation, late=late, rescales=True)
    yield from recover(owned, retained, compared)
    inspected = yield from messages.Inspect(owned.head.incarnation, {})
    before = _check_at_rest(owned.head, inspected.spark)
    number, spark = owned.head.completed + 1, inspected.spark
    if spark.newest_planned == number and spark.rescaled_to != partitions:
        _check_taken_back(spark, before, partitions)
        yield from messages.DropPlan(owned.head.incarnation, number)
        return Rescaled(owned.head, before, before)
    if before == partitions:
        return Rescaled(owned.head, before, before)
    answer = yield from messages.RescaleState(owned.head, number, partitions)
    if isinstance(answer, Failed):
        yield from _take_back(owned, number)
        raise answer.error
    record = yield from _decide(owned, sinks, retained, answer, partitions, direct=direct)
    return Rescaled(owned.head, before, partitions, record)


def is_at_rest(head: HeadValue, spark: SparkState) -> bool:
    """Whether Spark has no batch under way: none that is planned and not decided, nor one that it is to run again."""
    is_planned = spark.newest_planned > head.completed and spark.rescaled_to is None
    return not is_planned and spark.newest_committed >= head.completed


def _check_at_rest(head: HeadValue, spark: SparkState) -> int:
    """How many state partitions there are. Nothing may be planned or replayed but a rescale."""
    before = spark.state_partitions.get(head.completed)
    if head.completed < 0 or before is None:
        message = f"pipeline {head.pipeline} has completed no checkpoint yet, so that it has no state"
        remedy = "give `spark.sql.shuffle.partitions` in the spec's `spark.conf`: the first run takes that number"
        raise SpecError(message, remedy=remedy)
    if not is_at_rest(head, spark):
        message = f"batch {max(spark.newest_planned, head.completed)} of pipeline {head.pipeline} has not ended"
        raise IdentityError(message, remedy="another driver has started meanwhile: stop that driver, and retry")
    return before


def _check_taken_back(spark: SparkState, before: int, partitions: int) -> None:
    done = spark.newest_committed == spark.newest_planned
    if done or partitions != before:
        message = f"a rescale to {spark.rescaled_to} state partitions has not ended"
        remedy = f"bring it to its end first, by `--state-partitions {spark.rescaled_to}`"
        raise IdentityError(message, remedy=remedy if done else f"{remedy}; or take it back, by {before}")


def _take_back(owned: Ownership, number: int) -> Steps[None]:
    """Who has come after may be at it again: then the plan is theirs."""
    yield from check_owned(owned)
    yield from messages.DropPlan(owned.head.incarnation, number)


def _decide(
    owned: Ownership, sinks: Sequence[str], retained: int, done: StateRescaled, partitions: int, *, direct: bool
) -> Steps[CheckpointRecord]:
    """As R5 to R9 for a checkpoint of no tasks: no split moves, and slots count it."""
    head, before = owned.head, owned.head.records
    number = head.completed + 1
    scope = Scope(head.incarnation, head.epoch, number, head.next_attempt(number))
    if not direct:
        yield from messages.Permit(scope, owned.counted)  # another number of slots begins here
    record = CheckpointRecord(
        scope=scope,
        ranges=dict.fromkeys(head.positions, ()),
        offsets_log=done.offsets_log,
        committables=dict.fromkeys(sinks, ()),
        started_at=done.started_at,
        decided_at=done.at,
        direct=direct,
        state_partitions=partitions,
    )
    put = put_record_of(record)
    yield from put
    if direct:
        yield from owned.swap(CompleteDirect(Complete(record, put.ref), retained), "note")
        yield from tell(owned, record, before)
    else:
        yield from owned.swap(Complete(record, put.ref), "decide")
        yield from show(owned, record)
        yield from say(owned, record, retained)
    return record
