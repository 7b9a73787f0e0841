"""One pipeline as the page sees it: its spec, its history, its head, and whoever runs it. Reads only.

May be used from any thread; every method may block for as long as a file, or the database that head is in.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from connectors.spec import Spec
from spark_jobs.observe.activity import Activity
from spark_jobs.observe.head_reader import read_head
from spark_jobs.observe.history.store import History
from spark_jobs.observe.run_lock import RunLock, running
from spark_jobs.page.errors import BusyError
from spark_jobs.page.letter_box import LetterBox
from spark_jobs.page.live_view import Live
from twophase.head_value import HeadValue
from twophase.in_doubt import InDoubtTransaction

AskSinks = Callable[[Spec], Sequence[InDoubtTransaction]]
"""What sinks hold prepared. Connects to every sink."""

_ASKED_EVERY_S: Final = 10.0
_SEEN_EVERY_S: Final = 1.0
_NO_PATH: Final = re.compile(r"[^A-Za-z0-9._~-]+")


@dataclass(slots=True)
class PipelineView:
    """`live`: in the process that runs it."""

    spec: Spec
    key: str  # in paths
    ask_sinks: AskSinks
    live: Live | None = None
    letters: LetterBox = field(default_factory=LetterBox)
    _asked: tuple[float, Sequence[InDoubtTransaction]] | None = None
    _asking: threading.Lock = field(default_factory=threading.Lock)
    _seen: tuple[float, Activity | None] = (float("-inf"), None)
    _watching: threading.Lock = field(default_factory=threading.Lock)

    @property
    def history(self) -> History:
        """What it has done."""
        return History.at(self.spec.checkpoint.folder)

    @property
    def name(self) -> str:
        """For people."""
        return self.spec.mask(self.spec.pipeline)

    def head(self) -> HeadValue | None:
        """What is decided; None for a pipeline that never ran, of which looking makes nothing. Raises HeadError."""
        return read_head(self.spec)

    def presence(self) -> RunLock | None:
        """Who runs it on this machine."""
        return running(self.spec)

    def activity(self) -> Activity | None:
        """Return the activity of the run in the last second; None if another process runs the pipeline.

        One request counts tasks in the driver's JVM, once a second. Others take its last answer and never wait.
        """
        seen_s, found = self._seen
        if self.live is None or time.monotonic() - seen_s < _SEEN_EVERY_S or not self._watching.acquire(blocking=False):
            return found
        try:
            found = self.live.activity()
            self._seen = time.monotonic(), found
            return found
        finally:
            self._watching.release()

    def prepared(self) -> tuple[float, Sequence[InDoubtTransaction]]:
        """What sinks hold prepared, and when they said so: an answer holds for 10 s, and one asks at a time.

        Raises BusyError where nobody has heard of them yet; SinkUnavailableError and what else keeps one from
        answering.
        """
        if self._asked is not None and time.time() - self._asked[0] < _ASKED_EVERY_S:
            return self._asked
        if not self._asking.acquire(blocking=False):
            if self._asked is not None:
                return self._asked
            message = "the sinks are being asked just now"
            raise BusyError(message, remedy="ask again in some seconds")
        try:
            self._asked = time.time(), self.ask_sinks(self.spec)
            return self._asked
        finally:
            self._asking.release()


def watch(specs: Iterable[Spec], ask_sinks: AskSinks, lives: Iterable[Live | None]) -> tuple[PipelineView, ...]:
    """One for each, under a key of its own that any path can carry."""
    found: dict[str, PipelineView] = {}
    for spec, live in zip(specs, lives, strict=True):
        plain = _NO_PATH.sub("-", spec.mask(spec.pipeline)).strip(".-~") or "pipeline"
        key = next(each for n in range(len(found) + 1) if (each := f"{plain}-{n + 1}" if n else plain) not in found)
        found[key] = PipelineView(spec, key, ask_sinks, live)
    return tuple(found.values())
