"""Decided checkpoints that are not committed everywhere yet: each sink commits them in a thread of its own, in order,
while Spark writes the next ones (R7, R10).

How many there may be, each sink's limit says. A start commits whatever a crash has left of them (R3).
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from eos.errors import PrepareError, SinkUnavailableError
from twophase.checkpoint import forget, say, show
from twophase.joining import join, settle
from twophase.messages import Steps
from twophase.ownership import Ownership
from twophase.values import CheckpointRecord

_log: Final = logging.getLogger("eos.backlog")

_POLL_S: Final = 0.1
_SAY_AFTER_S: Final = 5.0
_AGAIN_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Limit:
    """How far one sink may be behind."""

    checkpoints: int = 0  # decided and not committed there, while Spark writes the next one
    max_bytes: int | None = None  # that these have prepared; one checkpoint may have more
    outlasts_outages: bool = False  # while the sink is away it is tried again without end

    def allows(self, waiting: int, waiting_bytes: int) -> bool:
        """Whether so many checkpoints may wait, which have prepared so much."""
        if waiting > self.checkpoints:
            return False
        return self.max_bytes is None or waiting_bytes <= self.max_bytes or waiting <= 1


NO_LIMITS: Final[Mapping[str, Limit]] = {}
"""Every checkpoint is committed before the next one is written."""

CarryOut = Callable[[Steps[None], str], None]
"""Run a part of the protocol at one sink, or at none of them (""), from any thread."""


class _Follower(threading.Thread):
    """Commits in one sink."""

    def __init__(self, backlog: Backlog, sink: str, limit: Limit, *, away: bool) -> None:
        super().__init__(name=f"eos-commit-{sink}", daemon=True)
        self.sink = sink
        self.limit = limit
        self.waiting: deque[CheckpointRecord] = deque()  # the first is being committed
        self.waiting_bytes = 0  # that these have prepared there
        self.pruned = 0  # its witnesses below this checkpoint are gone
        self.is_away = away  # it was not claimed by the start: that comes first (H32)
        self.older: int | None = None  # the newest checkpoint that was decided before this epoch; None: is settled
        self._backlog = backlog

    @property
    def is_in_time(self) -> bool:
        """Whether no more waits than may."""
        return self.limit.allows(len(self.waiting), self.waiting_bytes)

    def add(self, record: CheckpointRecord) -> None:
        """It waits. Summed here, and not when it is asked for: thousands of checkpoints may wait."""
        self.waiting.append(record)
        self.waiting_bytes += self._bytes_of(record)

    def done(self) -> None:
        """The first is committed."""
        self.waiting_bytes -= self._bytes_of(self.waiting.popleft())

    def _bytes_of(self, record: CheckpointRecord) -> int:
        return sum(each.bytes for each in record.committables.get(self.sink, ()))

    def run(self) -> None:
        while True:
            try:
                if not self._step():
                    return
            except SinkUnavailableError as error:
                if self._backlog.is_closed:
                    return
                if not self.limit.outlasts_outages:
                    self._backlog.fail(self.sink, error)
                    return
                _log.warning("sink %s: %s; its rows wait, %d checkpoints", self.sink, error.message, len(self.waiting))
                self._backlog.pause(_AGAIN_S)
            except BaseException as error:  # noqa: BLE001  the thread that writes raises it
                self._backlog.fail(self.sink, error)
                return

    def _step(self) -> bool:
        """Whether there is more to do."""
        if self.is_away:
            self._backlog.join(self)
            return True
        if self.older is not None and (not self.waiting or self.waiting[0].checkpoint_id > self.older):
            self._backlog.settle(self)
            return True
        record = self._backlog.next_of(self)
        if record is not None:
            self._backlog.commit(self, record)
        return record is not None


class Backlog:
    """Of one epoch. Used by the thread that decides checkpoints; its own threads commit them."""

    def __init__(
        self, owned: Ownership, limits: Mapping[str, Limit], carry_out: CarryOut, retained: int, over: threading.Event
    ) -> None:
        """`limits`: by sink, of all sinks. `carry_out` is called from several threads at once. `over`: set by `close`;
        it ends every wait for a sink that is away. What waits for sinks that were away at the start counts (H32)."""
        self._owned = owned
        self._carry_out = carry_out
        self._retained = retained
        self._changed = threading.Condition()
        self._saying = threading.Lock()
        self._over = over
        self._error: BaseException | None = None
        self._records: dict[int, CheckpointRecord] = {}  # that head does not call committed
        self._followers = [_Follower(self, sink, limit, away=sink in owned.away) for sink, limit in limits.items()]
        for record in owned.waiting:
            self._records[record.checkpoint_id] = record
        for each in self._followers:
            if each.is_away:
                each.older = owned.head.completed
                for record in owned.waiting:
                    each.add(record)
        for each in self._followers:
            each.start()

    @property
    def error(self) -> BaseException | None:
        """What ended a thread: nothing is committed there any more, and no further checkpoint may begin."""
        return self._error

    @property
    def is_closed(self) -> bool:
        """Nobody waits for its threads any more: what is left, the next start commits."""
        return self._over.is_set()

    def admit(self, is_stopping: Callable[[], bool]) -> None:
        """Before a checkpoint is written: block until no sink is further behind than it may be.

        Only the first one of an epoch finds a sink so: what waited before the start counts (H32). Raises what a thread
        has raised, and PrepareError where the pipeline stops meanwhile.
        """
        self._wait(self._is_in_time, is_stopping)
        if not self._is_in_time():
            behind = ", ".join(each.sink for each in self._followers if not each.is_in_time)
            message = f"stopped before the next checkpoint was written: as much waits for sink {behind} as may"
            raise PrepareError(message, remedy="nothing is lost: the next start goes on")

    def add(self, record: CheckpointRecord, is_stopping: Callable[[], bool]) -> None:
        """A decided checkpoint. Blocks until no sink is further behind than it may be, or the pipeline stops.

        Raises what a thread has raised.
        """
        with self._changed:
            self._records[record.checkpoint_id] = record
            for each in self._followers:
                each.add(record)
            self._changed.notify_all()
        self._wait(self._is_in_time, is_stopping)

    def _is_in_time(self) -> bool:
        return all(each.is_in_time for each in self._followers)

    def drain(self, is_stopping: Callable[[], bool], stop_s: float) -> None:
        """Block until everything is committed; while the pipeline stops, for no longer than `stop_s`.

        Raises what a thread has raised.
        """
        left_at = 0.0

        def is_over() -> bool:
            nonlocal left_at
            if is_stopping():
                left_at = left_at or time.monotonic() + stop_s
            return left_at > 0.0 and time.monotonic() > left_at

        self._wait(lambda: not self._records, is_over)
        for each in self._followers:
            if each.waiting:
                _log.warning(
                    "sink %s: %d checkpoints are decided and not committed: the next start does that",
                    each.sink,
                    len(each.waiting),
                )

    def close(self) -> None:
        """End the threads, each after what it is doing."""
        with self._changed:
            self._over.set()
            self._changed.notify_all()
        for each in self._followers:
            each.join()

    def next_of(self, follower: _Follower) -> CheckpointRecord | None:
        """For its thread: what it commits next; None: nothing ever again."""
        with self._changed:
            self._changed.wait_for(lambda: self._over.is_set() or follower.waiting)
            return None if self._over.is_set() else follower.waiting[0]

    def join(self, follower: _Follower) -> None:
        """For its thread: compare and claim its sink, which was away at the start (H32)."""
        self._carry_out(join(self._owned, follower.sink), follower.sink)
        follower.is_away = False
        _log.info("sink %s is back: it commits %d checkpoints that waited", follower.sink, len(follower.waiting))

    def settle(self, follower: _Follower) -> None:
        """For its thread, once everything is committed that older epochs have decided: roll back the rest of theirs."""
        self._carry_out(settle(self._owned, follower.sink), follower.sink)
        follower.older = None

    def commit(self, follower: _Follower, record: CheckpointRecord) -> None:
        """For its thread: commit and close at its sink; the last sink to do so says it in head."""
        sink = follower.sink
        alone = replace(record, committables={sink: record.committables.get(sink, ())})
        own = follower.older is None or record.checkpoint_id > follower.older
        self._carry_out(show(self._owned, alone, own=own), sink)
        with self._changed:
            follower.done()
            self._changed.notify_all()
        with self._saying:
            everywhere = self._everywhere()
            if everywhere in self._records:
                self._carry_out(say(self._owned, self._records[everywhere], self._retained), "")
                self._forget(everywhere)
        below = self._owned.head.records[0].checkpoint_id
        if below > follower.pruned:
            self._carry_out(forget(self._owned, below), sink)
            follower.pruned = below

    def fail(self, sink: str, error: BaseException) -> None:
        """For a thread that ends. Said at once: the thread that writes may be idle for long, and hears of it then."""
        message = getattr(error, "message", error)
        _log.error("sink %s: nothing more is committed: %s", sink, message)
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    def pause(self, wait_s: float) -> None:
        """For a thread that waits for its sink."""
        with self._changed:
            self._changed.wait_for(lambda: self._over.is_set(), wait_s)

    def _everywhere(self) -> int:
        """The newest checkpoint that every sink has committed; -1: it was said."""
        with self._changed:
            waiting = [each.waiting[0].checkpoint_id for each in self._followers if each.waiting]
            return min(waiting) - 1 if waiting else max(self._records, default=-1)

    def _forget(self, everywhere: int) -> None:
        with self._changed:
            self._records = {n: record for n, record in self._records.items() if n > everywhere}
            self._changed.notify_all()

    def _wait(self, is_enough: Callable[[], bool], is_over: Callable[[], bool]) -> None:
        began, told = time.monotonic(), False
        with self._changed:
            while self._error is None and not is_over():
                if is_enough():
                    return
                if not told and time.monotonic() - began > _SAY_AFTER_S:
                    told = True
                    behind = (f"sink {e.sink}: {len(e.waiting)} checkpoints" for e in self._followers if e.waiting)
                    _log.warning("waiting for %s", ", ".join(behind))
                if self._over.is_set():
                    message = "the driver was closed while sinks were behind"
                    raise SinkUnavailableError(message, remedy="nothing is lost: the next start commits there")
                self._changed.wait(_POLL_S)
            if self._error is not None:
                raise self._error
