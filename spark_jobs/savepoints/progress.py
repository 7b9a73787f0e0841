"""How far a long transfer of a savepoint is, as log lines."""

from __future__ import annotations

import logging
import time
from typing import Final

_log: Final = logging.getLogger("eos.savepoint")

_INTERVAL_S: Final = 5.0


class Progress:
    """Bytes that were transferred. For one thread. A transfer that is short logs nothing."""

    def __init__(self, doing: str, total: int) -> None:
        """
        Args:
            doing: names the transfer in the log.
            total: bytes that it will transfer.
        """
        self._doing = doing
        self._total = total
        self._done = 0
        self._next_s = time.monotonic() + _INTERVAL_S

    def add(self, size: int) -> None:
        """Count these bytes, and log the sum if the last line is old enough."""
        self._done += size
        if (now_s := time.monotonic()) >= self._next_s:
            self._next_s = now_s + _INTERVAL_S
            _log.info("%s: %s of %s bytes", self._doing, f"{self._done:,}", f"{self._total:,}")
