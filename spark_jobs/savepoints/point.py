"""Which checkpoint a savepoint is of: the newest one that head calls committed everywhere and Spark calls done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from connectors.spec import Spec
from eos.errors import SavepointError
from spark_jobs.observe.head_reader import read_history
from spark_jobs.observe.run_lock import running
from spark_jobs.query.spark_log import LocalSparkLog
from spark_jobs.savepoints import plan as plans
from twophase.head_value import HeadValue
from twophase.positions import Positions
from twophase.status import Status


@dataclass(frozen=True, slots=True)
class Point:
    """A checkpoint that can be taken."""

    head: HeadValue  # as it was when that checkpoint was the newest
    status: Status  # as it is
    spark: Path
    plan: plans.Plan | None
    is_running: bool  # another checkpoint may be done at any moment

    @property
    def number(self) -> int:
        """Number of the checkpoint."""
        return self.head.completed


def newest(spec: Spec) -> Point:
    """The newest checkpoint that is done everywhere. Raises SavepointError where there is none, HeadError."""
    if not spec.sources:
        message = f"{spec.pipeline} is written by a job of your own, whose Spark checkpoint is not known here"
        raise SavepointError(message, remedy="savepoints are of pipelines that `eos run` runs")
    status = read_history(spec)
    if status is None or status.head.committed < 0:
        message = f"{spec.pipeline} has not committed a checkpoint yet: there is nothing to keep"
        raise SavepointError(message, remedy="run it until `eos status` shows one that is committed")
    head, is_running = status.head, running(spec) is not None
    if head.completed > head.committed and not is_running:
        message = (
            f"{spec.pipeline} is stopped, and checkpoint {head.completed} is decided and not yet committed everywhere: "
            "what of it is in the sinks would not be in the savepoint"
        )
        raise SavepointError(message, remedy="`eos run --until-caught-up` brings it to its end; take one then")
    log = LocalSparkLog(spec.checkpoint.location)
    number = min(head.committed, log.state(head.incarnation).newest_committed)
    if number < 0:
        message = f"{log.folder(head.incarnation)} has no batch that is done, and head has checkpoint {head.committed}"
        raise SavepointError(message, remedy="where Spark's checkpoint is there, run the pipeline once until caught up")
    at = replace(
        head,
        nonces=(),
        completed=number,
        committed=number,
        aborted_checkpoint=-1,
        aborted_attempt=0,
        positions=positions_at(status, number),
        records=(),
    )
    plan = plans.kept(spec.checkpoint.location, head.incarnation)
    return Point(at, status, log.folder(head.incarnation), plan, is_running)


def positions_at(status: Status, number: int) -> Mapping[str, Positions]:
    """Where each split goes on after a checkpoint: before what later ones have read.

    Raises SavepointError if one of those has no record any more.
    """
    later = {each.checkpoint_id for each in status.checkpoints if each.checkpoint_id > number}
    if missing := set(range(number + 1, status.head.completed + 1)) - later:
        message = f"what checkpoint {min(missing)} has read is not known any more, and checkpoint {number} is before it"
        raise SavepointError(
            message, remedy="run the pipeline until Spark has done its newest checkpoint, and try again"
        )
    positions = {source: dict(splits) for source, splits in status.head.positions.items()}
    for record in status.checkpoints:  # newest first
        if record.checkpoint_id > number:
            for source, ranges in record.ranges.items():
                positions[source].update({each.split: each.start for each in ranges})
    return positions
