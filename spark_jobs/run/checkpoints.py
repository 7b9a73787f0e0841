"""From a batch of Spark's to a checkpoint of the protocol: what `foreachBatch` does, whoever started the query."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

from connectors.api.contracts import Source
from eos.errors import IdentityError, OffsetOutOfRangeError
from spark_jobs.batch.dead_letters import Ranges
from spark_jobs.observe.history.model import Acknowledgement, RuleCount
from spark_jobs.observe.lag import Lag
from spark_jobs.observe.report import CheckpointReport, Listener
from spark_jobs.query.spark_log import check_ends, planned
from spark_jobs.query.stored_spark_log import QueryLog
from twophase import faults
from twophase.driver import Driver
from twophase.effects import Batch
from twophase.messages import BatchStart
from twophase.values import CheckpointRecord, OffsetRange
from twophase.verify import WITHOUT_SPARK

_log = logging.getLogger("eos.runner")

_STATE_LOST = "`eos reset` continues behind these records with an empty state"


class NumberedBatch(Batch, Protocol):
    """One of Spark's batches."""

    stateful: bool
    """Whether it runs again for its state after it was decided (R4)."""

    @property
    def checkpoint_id(self) -> int:
        """Spark's number of it."""

    @property
    def ends_held(self) -> Sequence[int] | None:
        """See query.EndsHeld; None where nobody can say."""

    @property
    def acknowledgements(self) -> tuple[Acknowledgement, ...]:
        """Where the time of its tasks went, once they have run; empty where nobody measured."""

    @property
    def skipped(self) -> Mapping[str, int]:
        """How many records each source has left out of it, once its tasks have run."""

    @property
    def rules(self) -> tuple[RuleCount, ...]:
        """The counts of the steps' rules, once its tasks have run."""

    ranges: Ranges
    """What the batch reads of each source of ours. Set before `run_writers`; empty where the sources are Spark's."""


def _warn_of(left_out: Ranges) -> None:
    for each in chain.from_iterable(left_out.values()):
        _log.warning("left out, retention has deleted it: %s, offsets [%s, %s)", each.split, each.start, each.end)


@dataclass(slots=True)
class Checkpoints:
    """The checkpoints of one query under one epoch. Used by Spark's thread, one batch at a time."""

    driver: Driver
    log: QueryLog
    listener: Listener
    sources: Sequence[Source] = ()  # ours, in the spec's order; empty: Spark's own, whose offsets we cannot read
    newest_lag: Callable[[], Lag] = Lag  # returns at once; called once per checkpoint
    permitted: bool = False  # see Begin

    def complete(self, batch: NumberedBatch) -> CheckpointReport:
        """Blocks until the checkpoint is committed everywhere. Raising: Spark must not mark the batch done (R8)."""
        number = batch.checkpoint_id
        try:
            offsets_log, source_lists = self._sync_plan(batch)
        except FileNotFoundError as error:
            self.driver.check_owned()  # a reset deletes the folder of the incarnation that it ends
            message = f"Spark's checkpoint was deleted while the pipeline runs: {error}"
            raise IdentityError(message, remedy=WITHOUT_SPARK) from error
        plan = planned(offsets_log, [source.name for source in self.sources]) if self.sources else {}
        ends, began = {s: p.ends for s, p in plan.items()}, {s: p.began for s, p in plan.items()}
        replayed = number <= self.driver.owned.completed
        if not replayed and self.sources:
            positions = self.driver.owned.positions
            batch.ranges = {name: each.ranges(positions.get(name, {})) for name, each in plan.items()}
        left_out = self._lost(batch.ranges) if not replayed else {}
        _warn_of(left_out)
        before_s = time.monotonic()
        record = self.driver.checkpoint(
            BatchStart(number, ends, offsets_log, time.time(), began, self.permitted, left_out, source_lists), batch
        )
        if replayed and batch.stateful:  # after its tasks: records that exist now existed when they read
            self._check_read_again(record)
        now, head, lag = time.time(), self.driver.owned, self.newest_lag()
        report = CheckpointReport(
            record=record,
            waiting=head.waiting,
            epoch=head.epoch,
            replayed=replayed,
            duration_s=time.monotonic() - before_s,
            durations_s=dict(self.driver.durations_s),
            splits=None if lag.unknown(now) else lag.splits,
            at=now,
            lag_age_s=lag.age_s(now),
            acknowledgements=batch.acknowledgements,
            skipped=batch.skipped,
            rules=() if replayed else batch.rules,
        )
        self.listener.on_checkpoint(report)
        return report

    def _lost(self, ranges: Ranges) -> dict[str, tuple[OffsetRange, ...]]:
        """Return what the service has deleted of these ranges, where the spec says that this is no error."""
        found = {each.name: tuple(each.lost_ranges(ranges.get(each.name, ()))) for each in self.sources}
        return {name: lost for name, lost in found.items() if lost}

    def _check_read_again(self, record: CheckpointRecord) -> None:
        """Raise OffsetOutOfRangeError where a batch that ran for its state lacked records that it had before (H39)."""
        for name, lost in self._lost(record.ranges).items():
            if gone := set(lost) - set(record.left_out.get(name, ())):
                ranges = ", ".join(sorted(f"{each.split}[{each.start}, {each.end})" for each in gone))
                message = f"Spark repeats checkpoint {record.checkpoint_id} for its state, and source {name} no longer "
                message += f"has all its records: {ranges} were deleted"
                raise OffsetOutOfRangeError(message, remedy=_STATE_LOST)

    def _sync_plan(self, batch: NumberedBatch) -> tuple[str, Mapping[str, str]]:
        """Return the content of `offsets/N` once it is on disk, and digests of the lists of files that it rests on.

        Raises FileNotFoundError where Spark's folder is gone, PlanOverwrittenError.

        Spark recreates a folder of `offsets` or `commits` that was deleted, but not the query's id.
        """
        number, incarnation = batch.checkpoint_id, self.driver.owned.incarnation
        query_id = self.log.query_id(incarnation)
        if query_id is None:  # Spark writes it before the first batch
            message = f"no id of the query in {self.log.folder(incarnation)}"
            raise FileNotFoundError(message)
        if self.driver.owned.query_id != query_id:
            self.log.sync_query(incarnation)
            self.driver.set_query(query_id)
        faults.point("planned", number)
        offsets_log = self.log.offsets_log(incarnation, number)
        if (held := batch.ends_held) is not None:
            check_ends(offsets_log, held)
        source_lists = self.log.source_lists(offsets_log)
        self.log.sync_offsets(incarnation, number)
        return offsets_log, source_lists
