"""One statement under way at a time, on a thread of its own: the next batch is encoded meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait


class Sender:
    """Used by one thread. Two batches are in memory at the most: the one under way and the one being encoded."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "eos-sender")
        self._under_way: Future[None] | None = None

    def submit(self, send: Callable[[], None]) -> None:
        """Begin `send` when the one before it has ended. Raises what that one raised."""
        self.wait()
        self._under_way = self._thread.submit(send)

    def wait(self) -> None:
        """Return when nothing is under way. Raises what `send` raised, once."""
        under_way = self._under_way
        if under_way is not None:
            wait([under_way])  # interrupted here, it is still under way
            self._under_way = None
            under_way.result()

    def settle(self) -> None:
        """Return when nothing is under way, however it has ended."""
        if self._under_way is not None:
            self._under_way.exception()

    def close(self) -> None:
        """Let the thread go, when nothing is under way any more."""
        self._thread.shutdown()
