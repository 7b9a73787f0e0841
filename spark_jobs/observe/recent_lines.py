"""The last lines of a log: of the run's own log in memory, and of a file."""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from spark_jobs.observe.log_lines import TextLines, current_pipeline, mask_log

_MOST: Final = 500  # lines of each pipeline
_MOST_CHARS: Final = 2_000
_TAIL_BYTES: Final = 256 * 1024


def shortened(line: str) -> str:
    """Return the beginning of a line that is long."""
    return line if len(line) <= _MOST_CHARS else f"{line[:_MOST_CHARS]}…"


@dataclass(slots=True)
class RecentLines:
    """The newest lines of one pipeline. May be used from any thread."""

    _lines: deque[str] = field(default_factory=lambda: deque(maxlen=_MOST))

    def add(self, line: str) -> None:
        """Append a line; the oldest one is dropped."""
        self._lines.append(line)

    def newest(self, most: int) -> Sequence[str]:
        """Return the newest lines, oldest first."""
        return list(self._lines.copy())[-most:]


class _Collector(logging.Handler):
    """A handler that keeps the lines of each pipeline. A line without a pipeline is kept for all of them."""

    def __init__(self, by_pipeline: dict[str, list[RecentLines]]) -> None:
        super().__init__()
        self._by_pipeline = by_pipeline
        self.setFormatter(TextLines())

    def emit(self, record: logging.LogRecord) -> None:
        line = shortened(self.format(record))
        pipeline = current_pipeline()
        groups = [self._by_pipeline.get(pipeline, [])] if pipeline else list(self._by_pipeline.values())
        for kept in (each for group in groups for each in group):
            kept.add(line)


@contextmanager
def collected(by_pipeline: dict[str, list[RecentLines]]) -> Iterator[None]:
    """Keep the lines of eos' loggers during this block, by the pipeline's shown name. They are masked."""
    mask_log(frozenset())  # its handler must be the first one
    handler, log = _Collector(by_pipeline), logging.getLogger("eos")
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a file."""

    lines: Sequence[str]  # oldest first
    bytes: int  # of the whole file
    changed_at: float  # seconds since 1970


def tail(path: Path, most: int) -> Tail | None:
    """Return the last lines of a file; None if there is no such file. Reads 256 KiB at most. Raises OSError."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            file.seek(max(status.st_size - _TAIL_BYTES, 0))
            content = file.read(_TAIL_BYTES)
    except FileNotFoundError:
        return None
    lines = content.decode(errors="replace").splitlines()
    whole = lines if status.st_size <= _TAIL_BYTES else lines[1:]  # the first one is cut
    return Tail([shortened(line) for line in whole[-most:]], status.st_size, status.st_mtime)
