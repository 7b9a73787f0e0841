"""What of Java's CPU goes into Java itself: compiling, and collecting garbage."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from benchmarks.bench.comparison import processes

GROUPS: Final = {"compiling": ("C1 ", "C2 "), "collecting": ("G1 ", "GC ", "VM Thread")}
"""By what its threads do: how their names begin."""


class JavaThreads:
    """Asked again and again: Java ends compiler threads that have nothing to do, and what they took still counts."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], tuple[str, float]] = {}  # by process and thread: its group, CPU seconds

    def look(self, pids: Iterable[int]) -> dict[str, float]:
        """CPU seconds by group so far, of all of these processes that are Java."""
        for pid in pids:
            for thread, name, cpu_s in processes.threads(pid) if processes.name(pid) == "java" else ():
                if group := next((group for group, begins in GROUPS.items() if name.startswith(begins)), ""):
                    self._seen[pid, thread] = group, cpu_s
        return {name: sum(cpu_s for group, cpu_s in self._seen.values() if group == name) for name in GROUPS}
