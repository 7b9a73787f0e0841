"""Checkpoints that are sifted from their first attempt, because a recent one has met a row that a sink refused.

A checkpoint is sifted where its tasks write by `write_atomic`, and leave out the rows that a sink refuses (`sifting`).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Final

from eos.errors import ConnectorError

_log = logging.getLogger("eos.runner")

_CHECKPOINTS: Final = 100
"""Length of the period after the newest refused row. Later checkpoints are written without savepoints again."""


@dataclass(slots=True)
class RejectionPeriod:
    """Of one run, over all its queries. Used by the thread that runs checkpoints, or between two queries.

    Only pipelines that cannot leave a refused row out at no price use it: at-least-once a second attempt repeats rows
    that tasks have committed, and with state a batch runs once in a query.
    """

    _last: int = field(default=-1, init=False)  # checkpoint of the period
    _ended_by: ConnectorError | None = field(default=None, init=False)

    def covers(self, checkpoint_id: int) -> bool:
        """Whether this checkpoint is sifted from its first attempt."""
        return checkpoint_id <= self._last

    def refused(self, checkpoint_id: int) -> None:
        """Begin the period, or extend it: a sink has refused a row of this checkpoint."""
        self._last = checkpoint_id + _CHECKPOINTS

    def end_query(self, checkpoint_id: int, reason: ConnectorError) -> None:
        """Begin the period at a checkpoint that only another query can write, whose error `reason` ends this one."""
        self.refused(checkpoint_id)
        self._ended_by = reason

    def resumes(self, error: ConnectorError) -> bool:
        """Whether the query has ended by this error only for its checkpoint to be sifted in the next query."""
        if self._ended_by is not error:
            return False
        self._ended_by = None
        _log.warning("the query begins again, without the rows that are refused: %s", error.message)
        return True
