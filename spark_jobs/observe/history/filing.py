"""The thread that writes a history, so that a slow or full disk holds up nobody."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from contextvars import copy_context
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final

from connectors.registry import refuse_network_location
from eos.errors import ConnectorError, HistoryError
from spark_jobs.observe.history.entries import Completed, Entry
from spark_jobs.observe.history.model import Event
from spark_jobs.observe.history.retention import Retention
from spark_jobs.observe.history.writer import HistoryWriter
from wal.private import make_private

_log = logging.getLogger("eos.history")

_KEPT: Final = 500
"""Entries that wait while the file cannot be written. Older ones are lost: head knows the newest checkpoints anyway."""

_AGAIN_S: Final = 10.0
_SAID_S: Final = 600.0  # least time between two warnings: a disk that is nearly full comes and goes
_CLOSE_S: Final = 5.0


class WriterThread:
    """Of one process. `add` may be called from any thread, and returns at once."""

    def __init__(self, path: Path, retention: Retention, again_s: float = _AGAIN_S) -> None:
        """Touches nothing; the thread makes file and folder where there are none."""
        self._path = path
        self._retention = retention
        self._again_s = again_s
        self._queue: SimpleQueue[Sequence[Entry] | None] = SimpleQueue()
        self._waiting: deque[Entry] = deque()
        self._lost = 0  # checkpoints
        self._lost_since: float | None = None
        self._writer: HistoryWriter | None = None
        self._is_away = False
        self._said_at_s: float | None = None
        self._try_at_s = 0.0
        self._thread = threading.Thread(target=copy_context().run, args=(self._work,), name="eos-history", daemon=True)
        self._thread.start()

    def add(self, *entries: Entry) -> None:
        """They are written in this order, together."""
        self._queue.put(entries)

    def close(self) -> None:
        """Blocks until everything is written, or for some seconds where that does not go on. Says what is not."""
        self._queue.put(None)
        self._thread.join(_CLOSE_S)
        if self._thread.is_alive() or self._waiting:
            _log.warning("what was told last is not in the history %s, which could not be written", self._path)

    def _work(self) -> None:
        is_open = True
        while is_open:
            is_open = self._take(self._again_s if self._waiting else None)
            if not is_open or time.monotonic() >= self._try_at_s:
                self._flush()
        if self._writer is not None:
            with suppress(HistoryError):  # it stays as it is, and is read as it is
                self._writer.close()

    def _take(self, wait_s: float | None) -> bool:
        """Whatever has come meanwhile; blocks until something has, or for `wait_s`. False: nothing more comes."""
        with suppress(Empty):
            entries = self._queue.get(timeout=wait_s)
            while entries is not None:
                self._keep(entries)
                entries = self._queue.get_nowait()
            return False
        return True

    def _keep(self, entries: Sequence[Entry]) -> None:
        self._waiting.extend(entries)
        while len(self._waiting) > _KEPT and self._is_away:
            self._lost += isinstance(self._waiting.popleft(), Completed)
            self._lost_since = self._lost_since or time.time()

    def _flush(self) -> None:
        now = time.time()
        try:
            if self._writer is not None and not self._writer.is_in_place():
                self._close_writer()
                _log.warning("the history %s was taken away: another one is begun", self._path)
            if self._writer is None:
                refuse_network_location(self._path.parent)  # SQLite's log wants memory that processes share
                make_private(self._path.parent)
                self._writer = HistoryWriter(self._path, self._retention, now)
            self._writer.write([*self._gap(now), *self._waiting], now)
        except (ConnectorError, OSError) as error:
            self._fail(error)
            return
        self._waiting.clear()
        self._lost, self._lost_since = 0, None
        if self._is_away:
            self._is_away = False
            _log.info("the history %s is written again", self._path)

    def _gap(self, now: float) -> list[Event]:
        if self._lost_since is None:
            return []
        message = f"the history could not be written: it lacks the events of this time, {self._lost} checkpoints"
        facts = {"since": self._lost_since, "until": now, "checkpoints": self._lost}
        return [Event(now, "gap", message, facts=facts)]

    def _fail(self, error: ConnectorError | OSError) -> None:
        """The pipeline does not depend on it."""
        now_s = time.monotonic()
        if self._said_at_s is None or (not self._is_away and now_s > self._said_at_s + _SAID_S):
            self._said_at_s = now_s
            message = f"{error.message} ({error.remedy})" if isinstance(error, ConnectorError) else str(error)
            _log.warning("%s. The pipeline goes on; it is tried again every %g s", message, self._again_s)
        self._is_away = True
        self._try_at_s = now_s + self._again_s
        self._close_writer()

    def _close_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            with suppress(HistoryError):
                writer.close()
