"""A time after which what runs is cancelled (R8)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def ended_after(timeout_s: float, cancel: Callable[[], None], again_s: float = 1.0) -> Iterator[None]:
    """Cancel what runs in this block after that time, and again until the block is left: between two stages of a job
    there may be nothing to cancel."""
    left = threading.Event()

    def watch() -> None:
        wait_s = timeout_s
        while not left.wait(wait_s):
            cancel()
            wait_s = again_s

    threading.Thread(target=watch, name="eos-timeout", daemon=True).start()
    try:
        yield
    finally:
        left.set()
