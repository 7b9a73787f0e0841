"""The newest dead letters of a pipeline, read by one request at a time and kept for some seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from connectors.dead_letters import DeadLetter
from connectors.spec import Spec
from spark_jobs.operations import dead_letters
from spark_jobs.page.errors import BusyError

MOST: Final = 200
"""Dead letters of a reading. Their bytes are bounded by the connector: see `connectors.dead_letters.newest`."""
_KEPT_S: Final = 10.0


@dataclass(slots=True)
class LetterBox:
    """The newest dead letters of one pipeline, as they were read last."""

    read_at: float = 0.0
    letters: Sequence[DeadLetter] = ()
    _reading: threading.Lock = field(default_factory=threading.Lock)

    def newest(self, spec: Spec, *, fresh: bool = False) -> Sequence[DeadLetter]:
        """Return them, newest first. `fresh`: not from an earlier reading. Raises BusyError, ConnectorError."""
        if not fresh and time.time() - self.read_at < _KEPT_S:
            return self.letters
        with self.alone():
            self.letters = dead_letters.read_newest(spec, MOST)
            self.read_at = time.time()
            return self.letters

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Let no other request read or resend during this block. Raises BusyError if one does."""
        if not self._reading.acquire(blocking=False):
            raise BusyError("dead letters are being read or resent", remedy="retry in some seconds")
        try:
            yield
        finally:
            self._reading.release()
