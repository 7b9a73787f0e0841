"""The attempts of one batch: the next one after a failure works differently, or the batch fails."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from eos.errors import BadRowError, ConnectorError, RowLockedError
from spark_jobs.batch.sifting_period import RejectionPeriod
from twophase.messages import Failed

_log = logging.getLogger("eos.runner")


@dataclass(slots=True)
class BatchAttempts:
    """The attempts of one batch, for one thread. Refused rows and equal rows are searched in one attempt each."""

    checkpoint_id: int
    stateful: bool  # if so, a query runs each batch once
    most_letters: int | None  # limit of rows that become dead letters; None: a refused row fails
    may_meet: bool  # rows that may be equal are in different tasks (Branch.meeting)
    period: RejectionPeriod = field(default_factory=RejectionPeriod)
    bisector: int | None = field(default=None, init=False)  # of this attempt, see WriteTask
    locked: RowLockedError | None = field(
        default=None, init=False
    )  # the reason why this attempt only looks for equal rows
    _has_looked: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        """Reject refused rows in the first attempt during a rejection period."""
        if self.period.covers(self.checkpoint_id):
            self.bisector = self.most_letters

    def looked(self, locked: RowLockedError) -> Failed:
        """End an attempt that found no equal rows: the connection that held the lock is gone.

        Such an attempt is never decided, so each checkpoint has its rows in the same tasks in every replay.
        """
        self.locked = None
        return Failed(locked, again=True)

    def failed(self, reason: ConnectorError, *, direct: bool) -> Failed:
        """Return the failure, with `again` if another attempt can succeed.

        `direct` (at-least-once): nothing was aborted, so another attempt may only leave out refused rows.
        """
        self.locked = None
        if direct:
            return Failed(reason, again=self._sifts(reason, direct=True))
        return Failed(reason, again=self._sifts(reason) or self._looks(reason))

    def refused(self) -> None:
        """Extend the rejection period: the attempt that succeeded has rejected rows."""
        if self.period.covers(self.checkpoint_id):
            self.period.refused(self.checkpoint_id)

    def _sifts(self, reason: ConnectorError, *, direct: bool = False) -> bool:
        """Return whether the next attempt rejects the rows that sinks refuse. With state, the next query does."""
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
        """Return whether the next attempt puts rows that may be equal into one task, to name the equal ones.

        A task has waited for the lock of another task (H15), or of another connection.
        """
        if not isinstance(reason, RowLockedError) or self._has_looked or not self.may_meet:
            return False
        self.locked, self._has_looked = reason, True
        told = "checkpoint %d is written again, in other tasks, to find rows with one key: %s"
        _log.warning(told, self.checkpoint_id, reason.message)
        return True
