"""The lag monitor of a run: measures each source at an interval, independently of plans and checkpoints."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from connectors.api.contracts import Source
from eos.errors import ConnectorError
from spark_jobs.observe.lag import DOES_NOT_KNOW, EVERY_S, NAME, NOT_BEGUN, Lag, SourceLag, measure, write_lag
from spark_jobs.observe.report import Listener
from spark_jobs.observe.withheld import Poll
from twophase.head_value import HeadValue

_log: Final = logging.getLogger("eos.runner")

_SHARE: Final = 20
"""A slow measurement takes at most this fraction (1/20) of the time."""
_LAST_S: Final = 2.0
"""Longest wait for the measurement at the end of a run."""

ReadHead = Callable[[], HeadValue | None]
"""Return head as it is now; None: the pipeline never ran. May block, and raise HeadError."""


class LagMonitor:
    """The newest lag of one run, over all its queries.

    Each source has its own thread and instance. A thread blocks on its source and takes no lock that a
    checkpoint waits for. While a source does not answer, its lag is unknown and the pipeline continues.

    `newest`, `polls` and `follow` may be called from any thread, and return at once.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        read_head: ReadHead,
        location: Path,
        listener: Listener,
        mask: Callable[[str], str] = str,
    ) -> None:
        """`sources`: instances that nothing else uses. `read_head`: until `follow` names another one."""
        self._sources = sources
        self._read_head = read_head
        self._location = location
        self._listener = listener
        self._mask = mask
        self._found = {source.name: SourceLag(source.name) for source in sources}  # guarded by _lock
        self._lock = threading.Lock()
        self._publishing = threading.Lock()  # one number after another, also where the disk is slow
        self._is_ending = threading.Event()
        self._is_closed = False  # guarded by _publishing: a thread that hangs publishes nothing after the run
        self._is_unwritable = False

    def follow(self, read_head: ReadHead) -> None:
        """Take the positions from here from now on."""
        self._read_head = read_head

    def newest(self) -> Lag:
        """Return the newest measurement of each source."""
        with self._lock:
            return Lag(tuple(self._found.values()))

    def polls(self) -> list[Poll]:
        """Return the newest successes as polls: they contain the records that cannot be read yet."""
        reasons = {source.name: source.withheld_by for source in self._sources}
        found = self.newest().sources
        return [Poll(each.source, each.at, reasons[each.source], each.withheld) for each in found if each.at]

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Measure during the block, which is the run, and once more at its end."""
        threads = [
            # Each thread has a copy of the context: the lines that it logs belong to this pipeline.
            threading.Thread(
                target=partial(copy_context().run, self._work, source), name=f"eos-lag-{source.name}", daemon=True
            )
            for source in self._sources
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._is_ending.set()
            until_s = time.monotonic() + _LAST_S
            for thread in threads:
                thread.join(max(until_s - time.monotonic(), 0.0))
            with self._publishing:
                self._is_closed = True

    def _work(self, source: Source) -> None:
        is_last = False
        while True:
            every_s = self._measure(source)
            if is_last:
                return
            is_last = self._is_ending.wait(every_s)

    def _measure(self, source: Source) -> float:
        """Measure once, and return the time until the next measurement."""
        before, began_s = self._found[source.name], time.monotonic()
        try:
            head = self._read_head()
        except ConnectorError as error:
            found = before.failed(error.message)
        else:
            found = measure(source, head, before)
        every_s = max(EVERY_S, _SHARE * (time.monotonic() - began_s))
        self._publish(replace(found, failure=self._mask(found.failure), every_s=every_s))
        self._log_change(before, found)
        return every_s

    def _publish(self, found: SourceLag) -> None:
        with self._publishing:
            if self._is_closed:
                return
            with self._lock:
                self._found[found.source] = found
            lag = self.newest()
            try:
                write_lag(self._location, lag)
                self._is_unwritable = False
            except OSError as error:
                if not self._is_unwritable:
                    _log.warning("%s is not written: %s", self._location / NAME, error.strerror)
                self._is_unwritable = True
            self._listener.on_lag(lag)

    def _log_change(self, before: SourceLag, now: SourceLag) -> None:
        if now.failure and now.failure not in {NOT_BEGUN, DOES_NOT_KNOW} and not before.failure:
            _log.warning("the lag of source %s is unknown: %s", now.source, now.failure)
        elif before.failure and not now.failure:
            _log.info("the lag of source %s is known: %s records", now.source, now.measured)
