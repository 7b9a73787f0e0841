"""Times and memory of checkpoints of the sizes that docs/explanation/scale.md shows."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.coordinator.coordinator import Coordinator, Size, resized
from benchmarks.coordinator.counting import peak_bytes
from benchmarks.coordinator.leftovers import INCARNATION, CountedServer, LeftInLog, transactions
from twophase.participants import Prepared

_USUAL = Size(tasks=100, sinks=1, splits=100, stored=10)

SERIES: dict[str, tuple[Size, tuple[int, ...]]] = {
    "tasks": (_USUAL, (10, 30, 100, 300, 1000, 3000, 10_000)),
    "sinks": (_USUAL, (1, 2, 5, 10, 20)),
    "splits": (_USUAL, (4, 16, 64, 256, 1024, 4096, 16_384)),
    "stored": (_USUAL, (10, 30, 100, 300, 1000, 5000)),
}
"""What grows, from which size, through which numbers."""

POINTS = {
    "100 tasks": _USUAL,
    "1,000 tasks": replace(_USUAL, tasks=1000, splits=1000),
    "1,000 tasks, 20 sinks": Size(tasks=1000, sinks=20, splits=1000),
    "10,000 tasks, 20 sinks": Size(tasks=10_000, sinks=20, splits=1000),
    "100 tasks, 10,000 partitions": replace(_USUAL, splits=10_000),
}

LEFT = (10, 30, 100, 300, 1000, 3000)


def points(rounds: int) -> Iterator[dict[str, Any]]:
    """The sizes that have a name."""
    for name, size in POINTS.items():
        yield {"point": name, **checkpoint(size, 2 if size.tasks * size.sinks > 50_000 else rounds)}


def series(rounds: int) -> Iterator[dict[str, Any]]:
    """Each growth."""
    for of, (size, numbers) in SERIES.items():
        for number in numbers:
            yield {"series": of, "number": number, **checkpoint(resized(size, of, number), rounds)}


def starts(rounds: int) -> Iterator[dict[str, Any]]:
    """What a start does about what a killed driver has left prepared: the least of some rounds."""
    for of, cpu_ms in (("left prepared", _prepared_ended), ("left in the log", _log_ended)):
        for number in LEFT:
            yield {"series": of, "number": number, "cpu_ms": min(cpu_ms(number) for _ in range(rounds))}


def _prepared_ended(number: int) -> float:
    server, found = CountedServer(transactions(number)), [Prepared(t, str(t)) for t in transactions(number)]
    before = time.process_time()
    server.committer().abort(found)
    return 1000 * (time.process_time() - before)


def _log_ended(number: int) -> float:
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(LeftInLog(Path(folder), number)) as left,
        closing(left.committer()) as committer,
    ):
        committer.inspect(INCARNATION, ())
        committer.claim(INCARNATION, 2)
        before = time.process_time()
        committer.abort(committer.prepared(INCARNATION))
        return 1000 * (time.process_time() - before)


def checkpoint(size: Size, rounds: int) -> dict[str, Any]:
    """The least of some rounds, since others run on the machine: CPU time with the history's thread, and the driver's
    own."""
    with tempfile.TemporaryDirectory() as folder, Coordinator(Path(folder), size) as coordinator:
        coordinator.complete(coordinator.batch())
        timed = [_timed(coordinator) for _ in range(rounds)]
        batch, written = coordinator.batch(), coordinator.head.written_bytes.copy()
        peak = peak_bytes(lambda: coordinator.complete(batch))
        written = coordinator.head.written_bytes - written
    best = {name: round(min(each[name] for each in timed), 2) for name in ("cpu_ms", "driver_ms", "wall_ms")}
    phases = min(timed, key=lambda each: each["wall_ms"])["phases"]
    sizes = {
        "head_bytes": written["head"] // 2,
        "splits_bytes": written["splits"],
        "record_bytes": written["records"],
        "peak_mb": round(peak / 2**20, 2),
    }
    return {**asdict(size), **best, **sizes, "phases_ms": phases}


def _timed(coordinator: Coordinator) -> dict[str, Any]:
    batch = coordinator.batch()
    wall, cpu, own = time.monotonic(), time.process_time(), time.thread_time()
    coordinator.complete(batch)
    own_ms, wall_ms = 1000 * (time.thread_time() - own), 1000 * (time.monotonic() - wall)
    coordinator.rest()
    phases = {name: round(1000 * took, 2) for name, took in coordinator.driver.durations_s.items()}
    phases["around"] = round(wall_ms - sum(phases.values()), 2)  # plan, steps between the actions, log line, history
    return {"cpu_ms": 1000 * (time.process_time() - cpu), "driver_ms": own_ms, "wall_ms": wall_ms, "phases": phases}


def slope(points: Iterable[tuple[float, float]]) -> float:
    """Of the line through the upper half of these points in a plot of logarithms: 1 is linear, 2 quadratic.

    Below, what does not grow hides what does.
    """
    import numpy as np

    found = sorted(points)
    x, y = np.log(np.array(found[len(found) // 2 :], dtype=float)).T
    return float(np.polyfit(x, y, 1)[0])
