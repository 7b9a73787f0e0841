"""From a batch of Spark's to a checkpoint of the protocol: what `foreachBatch` does, whoever started the query."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from eos.errors import IdentityError
from spark_jobs.history.model import Acknowledgement, SplitLag
from spark_jobs.report import CheckpointReport, Listener
from spark_jobs.source_offset import SourceOffset
from spark_jobs.spark_log import LocalSparkLog, check_ends
from twophase import faults
from twophase.driver import Driver
from twophase.effects import Batch
from twophase.messages import Begin
from twophase.verify import WITHOUT_SPARK


class NumberedBatch(Batch, Protocol):
    """One of Spark's batches."""

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


@dataclass(slots=True)
class Checkpoints:
    """The checkpoints of one query under one epoch. Used by Spark's thread, one batch at a time."""

    driver: Driver
    log: LocalSparkLog
    listener: Listener
    # Of the content of `offsets/N`; empty where sources are not ours, of which nothing more is known:
    plan: Callable[[str], Mapping[str, SourceOffset]] = lambda _log: {}
    tell_lost: Callable[[Mapping[str, SourceOffset]], None] = lambda _plan: None  # before a batch is read
    lag: Callable[[], tuple[SplitLag, ...] | None] = lambda: None
    permitted: bool = False  # see Begin

    def complete(self, batch: NumberedBatch) -> CheckpointReport:
        """Blocks until the checkpoint is committed everywhere. Raising: Spark must not mark the batch done (R8)."""
        number = batch.checkpoint_id
        try:
            offsets_log = self._sync_plan(batch)
        except FileNotFoundError as error:
            self.driver.check_owned()  # a reset deletes the folder of the incarnation that it ends
            message = f"Spark's checkpoint was deleted while the pipeline runs: {error}"
            raise IdentityError(message, remedy=WITHOUT_SPARK) from error
        plan = self.plan(offsets_log)
        ends, began = {s: p.ends for s, p in plan.items()}, {s: p.began for s, p in plan.items()}
        replayed = number <= self.driver.owned.completed
        if not replayed:
            self.tell_lost(plan)
        before_s = time.monotonic()
        record = self.driver.checkpoint(Begin(number, ends, offsets_log, time.time(), began, self.permitted), batch)
        now, head = time.time(), self.driver.owned
        report = CheckpointReport(
            record=record,
            waiting=head.waiting,
            epoch=head.epoch,
            replayed=replayed,
            duration_s=time.monotonic() - before_s,
            durations_s=dict(self.driver.durations_s),
            splits=self.lag(),
            at=now,
            acknowledgements=batch.acknowledgements,
            skipped=batch.skipped,
        )
        self.listener.checkpoint(report)
        return report

    def _sync_plan(self, batch: NumberedBatch) -> str:
        """Return the content of `offsets/N` once it is on disk. Raises FileNotFoundError where Spark's folder is gone.

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
        self.log.sync_offsets(incarnation, number)
        return offsets_log
