"""The user's listener: it gets each checkpoint at least once, after every sink shows the rows.

The number of the newest checkpoint that the listener has handled is stored at the checkpoint location, after its call
has returned. A start continues behind it, or at the first checkpoint of another incarnation. So a process that is
killed between the commit and the call, or in the call, makes the next start call the listener for that checkpoint.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, Final, Protocol

from connectors.registry import open_documents
from connectors.spec import Spec
from spark_jobs.observe.head_reader import read_head
from spark_jobs.observe.report import Listener
from twophase import faults
from twophase.documents import Documents
from twophase.news import CommittedUpTo, Decided, DriverEvent
from twophase.status import Status
from twophase.values import CheckpointRecord, OffsetRange

_log = logging.getLogger("eos.listener")

NAME: Final = "listener.json"
"""Below `checkpoint.location`."""

_KEPT: Final = 10_000  # records of checkpoints that wait for their call
_CLOSE_S: Final = 30.0
_AGAIN_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class CompletedCheckpoint:
    """A checkpoint whose rows every sink shows.

    Created by: `run`. Read by: its listener. `decided_at`, `rows` and `ranges` lack a value only for a checkpoint that
    head no longer retains: the listener was further behind than `checkpoint.retained` when the process
    was killed, or runs had no listener.
    """

    pipeline: str
    incarnation: str
    """Random name, another one after each reset. Checkpoints of an incarnation count from 0."""
    checkpoint_id: int
    decided_at: float | None = None
    """Seconds since 1970, UTC."""
    records: int | None = None
    """Offsets covered, over all sources; None if a source does not count."""
    rows: Mapping[str, int] | None = None
    """Rows by sink."""
    ranges: Mapping[str, tuple[OffsetRange, ...]] | None = None
    """Records that the checkpoint covers, by source."""


class CheckpointListener(Protocol):
    """A listener for checkpoints that every sink shows.

    Implemented by: your program, which passes it to `run`. Its class needs no base. Called by: a thread of each
    pipeline of `run`.

    Call order: one checkpoint at a time, in their order. Blocking: a slow call delays later calls, and no checkpoint.
    Raises: anything; the error is logged, and the call is repeated.

    Rule: each checkpoint is handled at least once, also after a kill.
    """

    def on_checkpoint_completed(self, checkpoint: CompletedCheckpoint) -> None:
        """Handle a checkpoint that every sink shows: at least once, so a repeated call must do no harm.

        If it raises, the error is logged, and it is called again for the same checkpoint after a pause.
        """


@dataclass(frozen=True, slots=True)
class _Cursor:
    incarnation: str  # empty: the pipeline had never run
    handled: int  # newest checkpoint whose call has returned


class Deliveries(Listener):
    """The calls of the listener in one run. Each method may run in any thread, and does not block."""

    def __init__(self, spec: Spec, listener: CheckpointListener, again_s: float = _AGAIN_S) -> None:
        """Read the cursor, or begin behind the newest checkpoint. Raises HeadError."""
        self._pipeline = spec.pipeline
        self._listener = listener
        self._again_s = again_s
        self._documents = open_documents(spec)
        self._records: dict[tuple[str, int], CheckpointRecord] = {}
        self._first: dict[str, int] = {}  # first checkpoint by incarnation, of the incarnations that head named
        self._visible: _Cursor | None = None  # the newest checkpoint that every sink shows
        self._more = threading.Condition()
        self._is_over = False
        self._cursor = _read(self._documents)
        if self._cursor is None:  # durable before the first checkpoint, which must not be taken for an old one
            head = read_head(spec)
            self._cursor = _Cursor(head.incarnation, head.committed) if head is not None else _Cursor("", -1)
            _write(self._documents, self._cursor)
        run = copy_context().run
        self._thread = threading.Thread(target=run, args=(self._work,), name="eos-listener", daemon=True)
        self._thread.start()

    def on_status(self, status: Status) -> None:
        origin = status.head.origin
        with self._more:
            self._first[status.head.incarnation] = origin.checkpoint_id + 1 if origin is not None else 0
        for record in status.checkpoints:
            self._keep(record)
        self._show(status.head.incarnation, status.head.committed)

    def on_driver_event(self, news: DriverEvent) -> None:
        match news:
            case Decided(record):
                self._keep(record)
            case CommittedUpTo(incarnation, checkpoint_id):
                self._show(incarnation, checkpoint_id)

    def close(self) -> None:
        """Call the listener for every visible checkpoint, and end. Blocks for half a minute at most."""
        with self._more:
            self._is_over = True
            self._more.notify()
        self._thread.join(_CLOSE_S)
        if self._thread.is_alive():
            _log.warning("the listener still runs; the next start calls it for the checkpoints that are left")

    def _keep(self, record: CheckpointRecord) -> None:
        with self._more:
            self._records[record.scope.incarnation, record.checkpoint_id] = record
            while len(self._records) > _KEPT:
                del self._records[next(iter(self._records))]

    def _show(self, incarnation: str, checkpoint_id: int) -> None:
        with self._more:
            known = self._visible
            if known is None or known.incarnation != incarnation or known.handled < checkpoint_id:
                self._visible = _Cursor(incarnation, checkpoint_id)
                self._more.notify()

    def _work(self) -> None:
        while (found := self._next()) is not None:
            try:
                self._enter(found)
                faults.point("listening", found.checkpoint_id)
                self._listener.on_checkpoint_completed(found)
                cursor = _Cursor(found.incarnation, found.checkpoint_id)
                _write(self._documents, cursor)
            except BaseException:  # noqa: BLE001 of the user's code: SystemExit would end the thread, and its calls
                _log.exception("the listener failed at checkpoint %d; it is called again", found.checkpoint_id)
                with self._more:
                    if self._is_over or self._more.wait_for(lambda: self._is_over, self._again_s):
                        return  # the next start calls it
            else:
                with self._more:
                    self._cursor = cursor
                    self._records.pop((found.incarnation, found.checkpoint_id), None)

    def _enter(self, first: CompletedCheckpoint) -> None:
        """Store that the calls of another incarnation begin here, so a start misses none of them."""
        if self._cursor is not None and self._cursor.incarnation != first.incarnation:
            if (number := first.checkpoint_id) and first.incarnation not in self._first:
                _log.warning("the listener is not called for up to %d checkpoints before checkpoint %d", number, number)
            _write(self._documents, _Cursor(first.incarnation, first.checkpoint_id - 1))

    def _next(self) -> CompletedCheckpoint | None:
        """Block until a checkpoint is visible and not handled; None: it is over."""
        with self._more:
            while (number := self._following()) is None:
                if self._is_over:
                    return None
                self._more.wait()
            assert self._visible is not None
            incarnation = self._visible.incarnation
            return _completed(self._pipeline, incarnation, number, self._records.get((incarnation, number)))

    def _following(self) -> int | None:
        visible, cursor = self._visible, self._cursor
        assert cursor is not None
        if visible is None:
            return None
        if cursor.incarnation == visible.incarnation:
            return cursor.handled + 1 if cursor.handled < visible.handled else None
        # Another incarnation: from a savepoint it keeps counting. Head could not be read if its first one is unknown.
        known = [number for name, number in self._records if name == visible.incarnation]
        first = self._first.get(visible.incarnation, min(known, default=None))
        return first if first is not None and first <= visible.handled else None


def _completed(pipeline: str, incarnation: str, number: int, record: CheckpointRecord | None) -> CompletedCheckpoint:
    if record is None:
        return CompletedCheckpoint(pipeline, incarnation, number)
    rows = {sink: sum(each.rows for each in group) for sink, group in record.committables.items()}
    return CompletedCheckpoint(pipeline, incarnation, number, record.decided_at, record.records, rows, record.ranges)


def _read(documents: Documents) -> _Cursor | None:
    """Return the stored cursor; None if it is missing, or damaged, which is logged. Raises HeadError."""
    content = documents.read(NAME)
    if content is None:
        return None
    try:
        found: dict[str, Any] = json.loads(content)
        if found["format"] == 1 and type(found["handled"]) is int:
            return _Cursor(str(found["incarnation"]), found["handled"])
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    _log.warning("%s is damaged: the listener is called for the checkpoints from now on", documents.place(NAME))
    return None


def _write(documents: Documents, cursor: _Cursor) -> None:
    document = {"format": 1, "incarnation": cursor.incarnation, "handled": cursor.handled}
    documents.replace(NAME, json.dumps(document).encode())


@contextmanager
def listened(spec: Spec, listener: CheckpointListener | None) -> Iterator[tuple[Listener, ...]]:
    """Listen to a run for the user's listener, if there is one."""
    if listener is None:
        yield ()
        return
    deliveries = Deliveries(spec, listener)
    try:
        yield (deliveries,)
    finally:
        deliveries.close()
