"""R2: head, Spark's checkpoint and the sinks must tell one story. A pure comparison, made at every start."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from eos.errors import HeadFormatError, IdentityError
from twophase.head_value import HeadValue
from twophase.values import DIGEST_METHODS, CheckpointRecord, SinkState, SparkState
from twophase.version import installed_version

_RESET = "`eos reset` restarts the pipeline on purpose, and reports what will be written twice"
WITHOUT_SPARK = (
    "restore it from a backup, or begin from a savepoint (`eos run --from-savepoint`); without either `eos reset --to "
    "completed` continues at head's positions, with empty state"
)
_RESTORE = "restore the checkpoint location and the sink to the same moment, or use `eos reset`"


def verify(
    pipeline: str,
    head: HeadValue | None,
    newest: CheckpointRecord | None,
    spark: SparkState,
    sinks: Mapping[str, SinkState],
    late: Collection[str] = (),
    *,
    rescales: bool = False,
    away: Collection[str] = (),
) -> None:
    """Compare the three stores.

    Raises IdentityError on the first thing that does not fit, and HeadFormatError where Spark re-runs the newest
    completed checkpoint and this version cannot compare its rows.

    Args:
        pipeline: name in the spec.
        head: as read; None for a pipeline that never ran here.
        newest: the record of head.completed, None if there is none.
        spark: Spark's checkpoint, of head's incarnation.
        sinks: by sink name, read with head's incarnation.
        late: sinks that miss nothing if they join a pipeline that has run, since what they take was never let pass.
        rescales: this is a rescale, which brings one that has died half way to its end.
        away: sinks of the spec that are not among `sinks`, since they do not answer: `joining` compares them later.
    """
    if head is None:
        _check_unclaimed(pipeline, sinks)
        return
    if head.pipeline != pipeline:
        message = f"the checkpoint location belongs to pipeline {head.pipeline!r}, the spec names {pipeline!r}"
        raise IdentityError(message, remedy="give this pipeline a checkpoint location of its own")
    _check_spark(head, newest, spark, rescales=rescales)
    if newest is not None and spark.newest_committed < newest.checkpoint_id:
        check_digest_method(newest)
    _check_removed(head, spark, {*sinks, *away})
    for name, sink in sinks.items():
        check_sink(head, name, sink, joins=name in late and newest is not None and name not in newest.committables)


def check_digest_method(record: CheckpointRecord) -> None:
    """Raise HeadFormatError for row digests of a method that this version does not compute (R4).

    Called before a batch runs again: at a start that finds it unfinished, at its replay, and by a repair.
    """
    if set(record.digest_methods) <= set(DIGEST_METHODS):
        return
    writer = f"eos {record.written_by}" if record.written_by[:1].isdigit() else "the version that wrote it"
    message = (
        f"checkpoint {record.checkpoint_id} was decided with row digests of method {record.digest_method}. Its batch "
        f"has to run again, and eos {installed_version()} cannot compare its rows: it computes methods "
        f"{', '.join(map(str, DIGEST_METHODS))}"
    )
    raise HeadFormatError(message, remedy=f"finish it with {writer}, by `eos run --until-caught-up`")


def _check_unclaimed(pipeline: str, sinks: Mapping[str, SinkState]) -> None:
    for name, sink in sinks.items():
        if sink.claim_incarnation is not None:
            message = (
                f"sink {name} belongs to another incarnation of pipeline {pipeline!r} ({sink.claim_incarnation}, "
                f"epoch {sink.claim_epoch}), whose checkpoint location is not this one"
            )
            raise IdentityError(
                message,
                remedy="run it with the checkpoint location it had, or give the copy another `pipeline:` name, "
                "or take the sink over on purpose with `eos reset`",
            )


def _check_spark(head: HeadValue, newest: CheckpointRecord | None, spark: SparkState, *, rescales: bool) -> None:
    last = head.completed
    if head.query_id is not None and spark.query_id != head.query_id:
        found = "is gone" if spark.query_id is None else f"is of query {spark.query_id}"
        message = f"Spark's checkpoint {found}; head belongs to query {head.query_id}, at checkpoint {last}"
        raise IdentityError(message, remedy=WITHOUT_SPARK)
    if spark.newest_planned not in (last, last + 1):
        message = f"Spark has planned batch {spark.newest_planned}, but the newest completed checkpoint is {last}"
        raise IdentityError(message, remedy=_RESTORE)
    unfinished = spark.rescaled_to if spark.newest_planned == last + 1 else None
    if unfinished is not None and not rescales:
        message = f"a rescale to {unfinished} state partitions has begun after checkpoint {last}, and has not ended"
        raise IdentityError(message, remedy=f"bring it to its end: `eos rescale --state-partitions {unfinished} --yes`")
    if spark.newest_committed > last and unfinished is None:
        message = f"Spark has committed batch {spark.newest_committed}, but the newest completed checkpoint is {last}"
        raise IdentityError(message, remedy=_RESTORE)
    if newest is not None and newest.state_partitions is not None and spark.newest_committed < last:
        message = f"Spark's checkpoint lacks the state that the rescale of checkpoint {last} has divided anew"
        raise IdentityError(message, remedy=_RESTORE)
    if newest is not None and spark.offsets_log.get(last) != newest.offsets_log:
        if last in spark.offsets_log and newest.offsets_log.startswith(spark.offsets_log[last].rstrip("\0")):
            message = f"Spark's offsets/{last} is empty or cut off, and checkpoint {last} was decided with it"
            raise IdentityError(message, remedy=WITHOUT_SPARK)
        message = f"Spark's offsets/{last} is not what checkpoint {last} was decided with"
        raise IdentityError(message, remedy=_RESTORE)
    if newest is not None:
        _check_source_lists(newest, spark)


def _check_source_lists(newest: CheckpointRecord, spark: SparkState) -> None:
    """Compare lists of files in a store. A checkpoint that was copied from or to a local disk has only one side."""
    last = newest.checkpoint_id
    found = spark.source_lists.get(last)
    if not newest.source_lists or found is None:
        return
    for folder in sorted({*newest.source_lists, *found}):
        if found.get(folder) != newest.source_lists.get(folder):
            message = f"Spark's list of files in {folder} is not what checkpoint {last} was decided with"
            remedy = "put the earlier version of its newest file back, as it was at the decision; or use `eos reset`"
            raise IdentityError(message, remedy=remedy)


def may_be_under_way(head: HeadValue, spark: SparkState) -> bool:
    """Whether sinks may hold something prepared for the checkpoint after the newest completed one.

    Spark's plan of a batch is on disk before the first permit for it, so that without a plan there is nothing. A driver
    that still lives may plan at any moment: it is to be stopped before a sink is taken out of the spec.
    """
    is_known = not spark.may_lack_plan and head.query_id in (None, spark.query_id)
    return spark.newest_planned != head.completed or not is_known


def _check_removed(head: HeadValue, spark: SparkState, sinks: Collection[str]) -> None:
    """Only a start that has the sink can commit or roll back there; nobody else would ever release its locks."""
    gone = ", ".join(sorted(set(head.sinks) - set(sinks)))
    if not gone:
        return
    if head.committed < head.completed:
        message = f"checkpoint {head.completed} is not yet committed to sink {gone}, which the spec no longer names"
    elif may_be_under_way(head, spark):
        message = (
            f"sink {gone}, which the spec no longer names, may hold prepared transactions of checkpoint "
            f"{head.completed + 1}, with their locks"
        )
    else:
        return
    raise IdentityError(
        message,
        remedy="put the sink back and run once to the end (`eos run --until-caught-up`), or end this "
        "incarnation of the pipeline with `eos reset`, which names what stays behind",
    )


def check_not_beyond(head: HeadValue, name: str, sink: SinkState) -> None:
    """Raise IdentityError if a sink shows or counts a checkpoint that head has not completed."""
    if sink.highest_witness > head.completed:
        message = (
            f"sink {name} holds rows of checkpoint {sink.highest_witness}, the newest completed is {head.completed}: "
            "head was set back"
        )
        raise IdentityError(message, remedy=_RESTORE)
    if sink.counted is not None and sink.counted > head.completed:  # checkpoints without rows have no witness (H33)
        message = (
            f"sink {name} counts checkpoints up to {sink.counted}, the newest completed is {head.completed}: head was "
            "set back"
        )
        raise IdentityError(message, remedy=_RESTORE)


def _cut_short(head: HeadValue) -> str:
    """What to do where a start from a savepoint may have died before it had claimed every sink; else empty."""
    if head.origin is None or head.completed != head.origin.checkpoint_id:
        return ""
    return (
        f"its start from savepoint {head.origin.savepoint} was cut short: start it from there again "
        "(`eos run --from-savepoint`, with the options that it had)"
    )


def check_sink(head: HeadValue, name: str, sink: SinkState, *, joins: bool = False) -> None:
    """Raise IdentityError if a sink does not tell head's story. `joins`: it is new to the pipeline, and may be."""
    if sink.claim_incarnation not in (None, head.incarnation):
        message = (
            f"sink {name} is claimed by incarnation {sink.claim_incarnation}, this pipeline is {head.incarnation}: the "
            "same pipeline has run, or runs, from another checkpoint location"
        )
        raise IdentityError(message, remedy=_cut_short(head) or _RESET)
    if joins and (head.committed == head.completed or name in head.sinks):
        return  # in head's sinks: it joined before, and a repair has taken back that checkpoints are committed (H31)
    if joins:
        message = f"sink {name} is new to this pipeline, whose checkpoint {head.completed} is not yet committed"
        raise IdentityError(message, remedy="run once to the end without it (`eos run --until-caught-up`)")
    if name not in head.sinks and head.completed >= 0:
        message = (
            f"sink {name} is new to this pipeline: what was written up to checkpoint {head.completed} is not in it, "
            "and would never be"
        )
        remedy = "begin a new incarnation with it at offsets of your choice: `eos reset --to`; or use another pipeline"
        raise IdentityError(message, remedy=remedy)
    if sink.claim_incarnation is None and head.completed >= 0:
        message = f"sink {name} knows nothing of this pipeline, which has completed checkpoint {head.completed}"
        raise IdentityError(message, remedy=_cut_short(head) or _RESTORE)
    if sink.claim_epoch > head.epoch:
        message = f"sink {name} has seen epoch {sink.claim_epoch}, head is at {head.epoch}: head was set back"
        raise IdentityError(message, remedy=_RESTORE)
    check_not_beyond(head, name, sink)
    if sink.missing and sink.counted is None:  # else the count tells more (set_back)
        message = f"sink {name} lacks what head calls committed: {', '.join(map(str, sink.missing[:3]))}"
        raise IdentityError(message, remedy=_RESTORE)
