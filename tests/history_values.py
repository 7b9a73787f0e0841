"""Values that the tests of the history share, and a process that writes one."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from spark_jobs.observe.history.entries import Committed, Completed, Entry, Measured, SinkCommitted
from spark_jobs.observe.history.model import Acknowledgement, Checkpoint, Phases, Run, SinkCommit, SplitLag, of_record
from spark_jobs.observe.history.writer import HistoryWriter, Retention
from tests.twophase_values import INCARNATION, record

AT = 1_700_000_000.0
PHASES = Phases(start_s=0.1, read_s=0.2, write_s=0.05, prepare_s=0.05, decide_s=0.01, wait_s=0.0, commit_s=0.09)
TASKS = (Acknowledgement("warehouse", 0, 100, 3, 30, AT, 0.2, 0.05, 0.05),)
RUN = Run("run1", "here", 4711, "0.1.0", AT)


def checkpoint(number: int, **changes: Any) -> Checkpoint:
    """Decided half a second after it began; 10 records, 3 rows."""
    started_at = AT + number
    sinks = (SinkCommit("warehouse", 3, 30, 1, "two-phase"),)
    made = of_record(replace(record(number), started_at=started_at, decided_at=started_at + 0.5))
    return replace(made, **{"sinks": sinks, "session": RUN.run_id, **changes})


def completed(number: int, **changes: Any) -> Completed:
    return Completed(checkpoint(number, **changes), record(number, 10 * number, 10 * number + 10).ranges, TASKS)


def whole(number: int) -> tuple[Entry, ...]:
    """All entries of one checkpoint, as they come where nothing is behind."""
    at = checkpoint(number).decided_at
    lag = (SplitLag(at, "orders", "orders/0", 10 * number + 15, 10 * number + 10),)
    return (
        completed(number),
        SinkCommitted(INCARNATION, number, "warehouse", at + 0.05, 0.03),
        Committed(INCARNATION, number, at + 0.09),
        Measured(INCARNATION, number, PHASES, at + 0.1, TASKS, lag),
    )


@contextmanager
def writing(path: Path, retention: Retention | None = None) -> Iterator[HistoryWriter]:
    writer = HistoryWriter(path, retention or Retention(age_s=1e9), AT)
    try:
        yield writer
    finally:
        writer.close()


def write_without_end(path: Path) -> None:
    """Checkpoint after checkpoint, each told on stdout once it is written."""
    with writing(path) as writer:
        writer.write([RUN], AT)
        number = 0
        while True:
            writer.write(whole(number), AT)
            print(number, flush=True)
            number += 1
            time.sleep(0.001)


if __name__ == "__main__":
    write_without_end(Path(sys.argv[1]))
