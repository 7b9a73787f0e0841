"""Bounds of time and memory for a part of a test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MB = 1_000_000


@contextmanager
def bounded(most_s: float, most_bytes: int) -> Iterator[None]:
    """Assert that the block takes less time of processors, its child processes' included, and less further memory."""
    Path("/proc/self/clear_refs").write_text("5")  # the highest use of memory is counted from here on
    before, began_s = _memory("VmRSS"), _processor_s()
    yield
    took_s, took_bytes = _processor_s() - began_s, _memory("VmHWM") - before
    assert took_s < most_s
    assert took_bytes < most_bytes


def _processor_s() -> float:
    return sum(os.times()[:4])


def _memory(name: str) -> int:
    (line,) = (each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith(f"{name}:"))
    return int(line.split()[1]) * 1_024
