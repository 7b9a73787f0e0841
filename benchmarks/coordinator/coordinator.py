"""One driver with everything around it that a run has, and checkpoints of a chosen size."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

import pyarrow as pa

from benchmarks.coordinator.free_sink import FreeSink
from benchmarks.coordinator.heads import CountedHead
from connectors.log.segments import committable
from spark_jobs.batch.acks import acknowledgement, by_sink, committables, measured
from spark_jobs.batch.dead_letters import Ranges
from spark_jobs.batch.stopwatch import Stopwatch
from spark_jobs.observe.history.entries import Entry
from spark_jobs.observe.history.filing import WriterThread
from spark_jobs.observe.history.model import Acknowledgement, RuleCount, SplitLag
from spark_jobs.observe.history.recorder import Recorder
from spark_jobs.observe.history.writer import HistoryWriter, Retention
from spark_jobs.observe.lag import Lag, SourceLag
from spark_jobs.observe.report import CheckpointReport, Listeners, LogListener
from spark_jobs.query.spark_log import LocalSparkLog
from spark_jobs.run.checkpoints import Checkpoints
from twophase.driver import Driver
from twophase.gather import at_once, one_by_one
from twophase.head_value import HeadValue, RecordRef
from twophase.ids import Scope, TransactionId, sink_key
from twophase.messages import Acknowledged
from twophase.values import OffsetRange, StartingPoint
from wal.segment import SegmentRef

SOURCE = "orders"
ROWS = 100  # of a task, for each sink
INCARNATION = "0123456789abcdefghij"
PIPELINE = "scale"


@dataclass(frozen=True, slots=True)
class Size:
    """Of one checkpoint."""

    tasks: int = 4
    sinks: int = 1
    splits: int = 4
    stored: int = 10  # checkpoints that head points at the records of
    pruned: bool = False  # this checkpoint lets go of all of these but one


def resized(size: Size, of: str, number: int) -> Size:
    """The size with so many of one thing."""
    changes: dict[str, Any] = {of: number}
    return replace(size, **changes)


@dataclass(slots=True)
class ReportedBatch:
    """A batch whose tasks have ended: what they have acknowledged is there, as Spark returns it."""

    checkpoint_id: int
    names: list[str]
    acknowledged: pa.Table
    acknowledgements: tuple[Acknowledgement, ...] = ()
    ends_held: Sequence[int] | None = None
    stateful: bool = False
    skipped: Mapping[str, int] = field(default_factory=dict)
    rules: tuple[RuleCount, ...] = ()
    ranges: Ranges = field(default_factory=dict)

    def run_writers(self, scope: Scope, *, direct: bool) -> Acknowledged:
        """As spark_jobs.batch.batch does once Spark's job has ended."""
        written = committables(self.acknowledged)
        self.acknowledgements = measured(self.names, self.acknowledged, written)
        return Acknowledged(by_sink(self.names, written), time.time())

    def discard(self, digest_methods: Sequence[int]) -> None: ...


@dataclass(frozen=True, slots=True)
class _Stored:
    """A transition of head to what it is after so many checkpoints."""

    checkpoints: int

    def refs(self) -> tuple[RecordRef, ...]:
        """How head points at their records."""
        scopes = (Scope(INCARNATION, 1, number) for number in range(self.checkpoints))
        return tuple(RecordRef(each.checkpoint_id, f"{each}-{'0' * 16}.json", "0" * 64) for each in scopes)

    def apply(self, head: HeadValue) -> HeadValue:
        last = self.checkpoints - 1
        return replace(head, completed=last, committed=last, records=self.refs())


class _Writing(WriterThread):
    """A WriterThread without its thread, which writes at once: so that its work can be counted."""

    def __init__(self, path: Path) -> None:
        self._at_once = HistoryWriter(path, Retention(), time.time())

    def add(self, *entries: Entry) -> None:
        self._at_once.write(entries, time.time())

    def close(self) -> None:
        self._at_once.close()


class _Topic:
    """A source that loses nothing."""

    name = SOURCE

    def lost_ranges(self, _ranges: object) -> list[OffsetRange]:
        return []


class Coordinator:
    """Use as a context manager: the history is written when it is left. `threads`: those that a run has."""

    def __init__(self, folder: Path, size: Size, *, threads: bool = True) -> None:
        self.size = size
        self.head = CountedHead(folder)
        self.log = LocalSparkLog(folder)
        self.sinks = {f"sink{number}": FreeSink(f"sink{number}") for number in range(size.sinks)}
        history = folder / "history.sqlite"
        self._filing = WriterThread(history, Retention()) if threads else _Writing(history)
        recorder = Recorder(self._filing, "run", {}, str)
        driver = Driver(
            PIPELINE,
            self.head,
            self.sinks,
            self.log,
            session="session",
            incarnation=INCARNATION,
            retained=size.stored // 2 if size.pruned else 2 * size.stored,
            gather=at_once if threads else one_by_one,
            watcher=recorder.on_driver_event,
        )
        self._ends = {f"orders/{number}": 0 for number in range(size.splits)}
        self._offsets = self.log.folder(INCARNATION) / "offsets"
        self._offsets.mkdir(parents=True)
        driver.start()
        driver.store_positions(SOURCE, StartingPoint(dict(self._ends), {"orders": "id"}))
        (self.log.folder(INCARNATION) / "metadata").write_text(json.dumps({"id": "query"}))
        stored = _Stored(size.stored)
        for ref in stored.refs():  # nobody reads one
            (folder / "records" / ref.name).touch()
        driver._carry_out(driver._ownership.swap(stored, "stored"))
        self.driver = driver
        listeners = Listeners([LogListener(PIPELINE), recorder])
        self._checkpoints = Checkpoints(driver, self.log, listeners, [cast(Any, _Topic())], self.lag)

    def batch(self) -> ReportedBatch:
        """What Spark has done of the next checkpoint once all tasks have reported: its plan is written, its job has
        ended."""
        number = self.driver.owned.completed + 1
        self._ends = {split: end + 1000 for split, end in self._ends.items()}
        offset = json.dumps({"source": SOURCE, "ends": self._ends}, separators=(",", ":"))
        metadata = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}})
        (self._offsets / str(number)).write_text(f"v1\n{metadata}\n{offset}")
        names = list(self.sinks)
        keys, watch = [sink_key(name) for name in names], Stopwatch.of(len(names))
        scope = Scope(INCARNATION, self.driver.owned.epoch, number)
        reported = []
        for task in range(self.size.tasks):
            ids = [TransactionId(scope, key, task, 1000 + task) for key in keys]
            written = [committable(each, 2, ROWS, SegmentRef(f"{each}.segment", ROWS, 5000, "0" * 64)) for each in ids]
            reported.append(acknowledgement(written, watch))
        return ReportedBatch(number, names, pa.Table.from_batches(reported))

    def complete(self, batch: ReportedBatch) -> CheckpointReport:
        """All that the driver does, but for the job."""
        return self._checkpoints.complete(batch)

    def rest(self) -> None:
        """Block until the history has what it was told."""
        if isinstance(self._filing, _Writing):
            return
        while self._filing._waiting or not self._filing._queue.empty():
            time.sleep(0.001)

    def lag(self) -> Lag:
        """Return the lag of each split, as the monitor has measured it just now."""
        now, head = time.time(), self.driver.owned
        splits = (
            SplitLag(now, SOURCE, split, end, head.position(SOURCE, split) or 0) for split, end in self._ends.items()
        )
        return Lag((SourceLag(SOURCE, now, tuple(splits)),))

    def close(self) -> None:
        self.driver.close()
        self._filing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
