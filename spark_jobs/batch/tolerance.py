"""Failures of checkpoints that are no failure of the pipeline: `checkpoint.tolerable_failures`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from connectors.spec.settings import CheckpointSettings
from spark_jobs.run.control import pause
from twophase.errors import ConnectorError

_log = logging.getLogger("eos.runner")

_PAUSE_S: Final = (1.0, 60.0)
"""Before a checkpoint is run again: its interval, within these bounds."""


@dataclass(slots=True)
class Tolerance:
    """Of one run, over all its queries. Used by the thread that runs checkpoints, or between two queries."""

    most: int = 0  # failures in a row
    pause_s: float = 0.0
    is_stopping: Callable[[], bool] = lambda: False
    _in_a_row: int = field(default=0, init=False)
    _aborted: BaseException | None = field(default=None, init=False)

    @classmethod
    def of(cls, settings: CheckpointSettings, is_stopping: Callable[[], bool]) -> Tolerance:
        """As the spec says."""
        least, most = _PAUSE_S
        return cls(settings.tolerable_failures, min(max(settings.interval_s, least), most), is_stopping)

    def failed(self, error: ConnectorError) -> bool:
        """A checkpoint was aborted for this. Whether it is to be run again, after `pause`, as if nothing had been."""
        self._aborted = None
        if not self.most or not error.retriable or self.is_stopping():
            return False
        self._in_a_row += 1
        if self._in_a_row > self.most:
            return False
        told = "%s; tolerated, failure %d of %d in a row; it is run again in %.1f s"
        _log.warning(told, error.message, self._in_a_row, self.most, self.pause_s)
        return True

    def aborted(self, error: BaseException) -> None:
        """A query has ended by this error of a checkpoint, which was aborted."""
        self._aborted = error

    def forgives(self, error: ConnectorError) -> bool:
        """A query has ended by this: whether another one is to begin, as `failed` says of a checkpoint."""
        return self._aborted is error and self.failed(error)

    def succeeded(self) -> None:
        """A checkpoint has come through: the next failure is the first one again."""
        self._in_a_row = 0

    def pause(self) -> bool:
        """Block until it is time to try again. False: the pipeline is being stopped."""
        return pause(self.pause_s, self.is_stopping)
