"""What the driver tells planners: a small file, written by one process and read by others on the same machine."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Pace:
    """One state of a query's pace. When the query is being stopped there is none: nobody waits any more."""

    begun: int  # checkpoints that have begun since the query was started
    due_s: float  # none is planned before; CLOCK_MONOTONIC, which all processes of a machine share
    max_records: int | None  # that the next one takes, over all sources; None: all there are
    idle_wait_s: float  # most time between two looks at a source that has nothing new

    def write(self, path: Path) -> None:
        """Whole or not at all. Not synced: it means nothing to another life of the machine. Raises OSError."""
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(asdict(self)))
        partial.replace(path)

    @classmethod
    def read(cls, path: Path) -> Pace | None:
        """The newest; None once the query is being stopped, or its driver has ended."""
        try:
            return cls(**json.loads(path.read_text()))
        except FileNotFoundError:
            return None
