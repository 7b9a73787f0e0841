"""What a pipeline holds at one moment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import psutil

_MB: Final = 2**20


@dataclass(frozen=True, slots=True)
class Sample:
    """Of one moment."""

    checkpoints: int  # committed so far
    elapsed_s: float
    driver_mb: float  # resident, of Python's driver
    jvm_mb: float
    workers_mb: float  # all other Python processes
    threads: int  # of driver and JVM
    open_files: int
    connections: int  # of the driver and its workers to databases and brokers
    files: int  # at the checkpoint location
    files_mb: float
    ledger_rows: int  # in the tables `eos_…` of the sinks

    def facts(self) -> dict[str, float]:
        """Plain data."""
        return {name: round(value, 2) for name, value in asdict(self).items()}


def sample(pid: int, location: Path, checkpoints: int, elapsed_s: float, ledger_rows: int) -> Sample:
    """Of the driver with this process id, now."""
    driver = psutil.Process(pid)
    everyone = [driver, *driver.children(recursive=True)]
    java = [each for each in everyone if _name(each) == "java"]
    workers = [each for each in everyone[1:] if _name(each).startswith("python")]
    files = [path for path in location.rglob("*") if path.is_file()]
    return Sample(
        checkpoints,
        elapsed_s,
        _rss_mb([driver]),
        _rss_mb(java),
        _rss_mb(workers),
        sum(each.num_threads() for each in (driver, *java)),
        sum(each.num_fds() for each in (driver, *java)),
        sum(len(_connections(each)) for each in everyone),
        len(files),
        sum(_size(path) for path in files) / _MB,
        ledger_rows,
    )


def _name(process: psutil.Process) -> str:
    try:
        return str(process.name())
    except psutil.NoSuchProcess:
        return ""


def _rss_mb(processes: Iterable[psutil.Process]) -> float:
    total = 0
    for each in processes:
        try:
            total += each.memory_info().rss
        except psutil.NoSuchProcess:  # a task has just ended
            continue
    return total / _MB


def _connections(process: psutil.Process) -> list[object]:
    try:
        return [each for each in process.net_connections("tcp") if each.status == psutil.CONN_ESTABLISHED]
    except psutil.NoSuchProcess:
        return []


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # swept meanwhile
        return 0
