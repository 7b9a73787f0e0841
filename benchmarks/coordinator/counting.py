"""What a call costs, counted and not timed: the same on every machine, however busy."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from wal.local import OsFiles


def steps(call: Callable[[], object]) -> int:
    """Lines of Python that the call runs in this thread, each as often as it is run; whatever C does in one counts as
    one."""
    counted = 0

    def line(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal counted
        counted += event == "line"
        return line

    before = sys.gettrace()
    sys.settrace(lambda _frame, _event, _argument: line)
    try:
        call()
    finally:
        sys.settrace(before)
    return counted


@contextmanager
def listings() -> Iterator[list[int]]:
    """How many entries each listing of a log's folder has gone through, files and folders."""
    gone_through: list[int] = []

    class Counted(OsFiles):
        def list(self, path: Path) -> Sequence[str]:
            gone_through.append(sum(1 for _ in path.iterdir()) if path.exists() else 0)
            return super().list(path)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("wal.local.OsFiles", Counted)
        yield gone_through


def peak_bytes(call: Callable[[], object]) -> int:
    """Memory of Python's that the call holds at its height, beyond what was held before."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        call()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def growth(cost: Callable[[int], float], smallest: int) -> float:
    """By how much the cost of one more grows where there are twice as many: 1.0 where it is linear, 2.0 where it is
    quadratic, 0.0 where it costs nothing.

    What does not depend on the number, however large, has no part in it.
    """
    cost(smallest)  # fills caches of the process
    one, two, four = (cost(smallest * factor) for factor in (1, 2, 4))
    first, second = two - one, (four - two) / 2
    return second / first if first > 0 else float(second > 0)
