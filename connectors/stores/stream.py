"""Rows on their way from a writer, which is given them, to a store, which takes them from an iterator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from queue import Empty, Full, Queue
from threading import Thread
from typing import Final

import pyarrow as pa

from eos.errors import PrepareError

_IN_FLIGHT: Final = 2
"""Batches that wait for the store: memory is bounded by them."""

_LOOK_S: Final = 0.2

_GIVEN_UP: Final = object()


class RowStream:
    """One call of a store in a thread of its own, and the rows for it. `push` and the ends are for one thread."""

    def __init__(self, take: Callable[[Iterator[pa.RecordBatch]], None]) -> None:
        """Start the call. `take` is given the iterator; its error is raised by `push` or `finish`."""
        self._queue: Queue[object] = Queue(_IN_FLIGHT)
        self._failure: BaseException | None = None
        self._ended = False
        self._thread = Thread(target=self._run, args=(take,), name="eos-prepare", daemon=True)
        self._thread.start()

    def push(self, batch: pa.RecordBatch) -> None:
        """Hand over rows; waits while the store is slower. Raises the store's error."""
        self._put(batch)

    def finish(self) -> None:
        """End the rows and wait for the store. Raises its error."""
        self._put(None)
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        if not self._ended:
            raise _ended_early()

    def give_up(self) -> None:
        """End the rows by an error, and wait until the store has let go of them. Never raises."""
        while self._thread.is_alive():
            try:
                self._queue.put(_GIVEN_UP, timeout=_LOOK_S)
                break
            except Full:
                continue
        self._thread.join()

    def _put(self, item: object) -> None:
        while self._thread.is_alive():
            try:
                return self._queue.put(item, timeout=_LOOK_S)
            except Full:
                continue
        if self._failure is not None:
            raise self._failure
        raise _ended_early()

    def _run(self, take: Callable[[Iterator[pa.RecordBatch]], None]) -> None:
        try:
            take(self._rows())
        except BaseException as error:  # noqa: BLE001 raised by whoever pushes or finishes
            self._failure = error

    def _rows(self) -> Iterator[pa.RecordBatch]:
        while True:
            try:
                item = self._queue.get(timeout=_LOOK_S)
            except Empty:
                continue
            if item is None:
                self._ended = True
                return
            if item is _GIVEN_UP:
                raise PrepareError("the rows were given up", remedy="the checkpoint is run again")
            yield item


def _ended_early() -> PrepareError:
    message = "the store's `prepare` returned before it had read all rows"
    return PrepareError(message, remedy="correct the store: it has to read the iterator to its end")
