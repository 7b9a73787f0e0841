"""What follows a try of a batch that has failed: another one, which does something otherwise, or the batch's end."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from eos.errors import BadRowError, ConnectorError, RowLockedError
from spark_jobs.batch.sifting_period import RejectionPeriod
from twophase.messages import Failed

_log = logging.getLogger("eos.runner")


@dataclass(slots=True)
class BatchAttempts:
    """The tries of one batch; for its thread. A batch is sifted once and looked through once."""

    checkpoint_id: int
    stateful: bool  # then a batch runs once in a query
    most_letters: int | None  # rows that may become dead letters; None: each that is refused is an error
    may_meet: bool  # rows that may be equal stand in different tasks (Branch.meeting)
    period: RejectionPeriod = field(default_factory=RejectionPeriod)
    bisector: int | None = field(default=None, init=False)  # of this try, see WriteTask
    locked: RowLockedError | None = field(default=None, init=False)  # why this try only looks for equal rows
    _has_looked: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        """In a period of sifting, the first try is sifted."""
        if self.period.covers(self.checkpoint_id):
            self.bisector = self.most_letters

    def looked(self, locked: RowLockedError) -> Failed:
        """No rows are equal, and whoever held the lock is gone. A try that looks is never decided, so that every
        checkpoint has its rows in the same tasks, whenever they are made again."""
        self.locked = None
        return Failed(locked, again=True)

    def failed(self, reason: ConnectorError, *, direct: bool) -> Failed:
        """At-least-once (`direct`) nothing was aborted, so that only what no sink would take is left out in another."""
        self.locked = None
        if direct:
            return Failed(reason, again=self._sifts(reason, direct=True))
        return Failed(reason, again=self._sifts(reason) or self._looks(reason))

    def refused(self) -> None:
        """Rows of the try that came through were put aside."""
        if self.period.covers(self.checkpoint_id):
            self.period.refused(self.checkpoint_id)

    def _sifts(self, reason: ConnectorError, *, direct: bool = False) -> bool:
        """Whether the next try puts aside the rows that sinks refuse. With state, the next query does that."""
        if not isinstance(reason, BadRowError) or self.most_letters is None or self.bisector is not None:
            return False
        if self.stateful:
            self.period.end_query(self.checkpoint_id, reason)
            return False
        if direct:
            self.period.refused(self.checkpoint_id)
        self.bisector = self.most_letters
        told = "checkpoint %d is written again, without the rows that are refused: %s"
        _log.warning(told, self.checkpoint_id, reason.message)
        return True

    def _looks(self, reason: ConnectorError) -> bool:
        """Whether the next try brings together rows that may be equal, to say which are: one task waits for the lock of
        another (H15), where nobody else holds one."""
        if not isinstance(reason, RowLockedError) or self._has_looked or not self.may_meet:
            return False
        self.locked, self._has_looked = reason, True
        told = "checkpoint %d is written again, in other tasks, to find rows with one key: %s"
        _log.warning(told, self.checkpoint_id, reason.message)
        return True
