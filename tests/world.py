"""A pipeline without Spark: the real driver and head in files over one real sink, with two tasks.

A test module gives the sink, and leads the pipeline through a history by hand.
"""

from __future__ import annotations

import os
import shutil
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

import pyarrow as pa

from connectors.api.contracts import DirectWriter, Sink, Writer
from twophase.driver import Driver
from twophase.ids import Scope, TransactionId, fresh_attempt, sink_key
from twophase.local_head import LocalHead
from twophase.messages import Acknowledged, BatchStart
from twophase.values import CheckpointRecord, Committable, SparkState, StartingPoint

SCHEMA: Final = pa.schema([("n", pa.int64())])
PIPELINE: Final = "orders"
INCARNATION: Final = "i" * 20
_TASKS: Final = 2

W = TypeVar("W", Writer, DirectWriter)


@dataclass
class World:
    """Everything that outlives a driver, and Spark's job. Each checkpoint is given its rows."""

    machine: Path
    """The disk of the driver's machine: head, and the log of a sink that has one. The target is elsewhere."""
    sink: Sink
    read: Callable[[], Iterable[int]]
    """Returns the rows of the target, as a reader sees them."""
    has_log: bool
    planned: int = -1
    done: int = -1
    starts: int = 0
    attempts: int = 0
    expected: list[int] = field(default_factory=list)
    given: dict[int, Sequence[int]] = field(default_factory=dict)  # rows by checkpoint
    meanwhile: Callable[[], None] = lambda: None  # called when the tasks of a checkpoint have prepared

    def await_state(self, _checkpoint_id: int) -> None:
        """Nothing to wait for."""

    def state(self, _incarnation: str) -> SparkState:
        """Return what Spark has planned, as a SparkLog tells it."""
        log = {number: f"offsets {number}" for number in range(self.planned + 1)}
        return SparkState("query" if self.planned >= 0 else None, self.planned, self.done, log)

    def start(self, *, direct: bool = False) -> Driver:
        """Return the next driver, started. `direct`: at-least-once."""
        driver = self.driver(direct=direct)
        driver.start()
        return driver

    def driver(self, incarnation: str = INCARNATION, *, direct: bool = False) -> Driver:
        """Return the next driver, not started."""
        self.starts += 1
        sinks, head = {self.sink.name: self.sink.committer(PIPELINE)}, LocalHead(self.machine / "head")
        return Driver(PIPELINE, head, sinks, self, f"d{self.starts}", incarnation, retained=2, direct=direct)

    def checkpoint(self, driver: Driver, *rows: int) -> None:
        """Run one more checkpoint with these rows."""
        number = driver.owned.completed + 1
        self.planned, self.given[number] = number, rows
        ends, begins = {"kafka": {"t/0": number + 1}}, {"kafka": StartingPoint({"t/0": 0})}
        driver.checkpoint(BatchStart(number, ends, f"offsets {number}", 0.0, begins), self)
        driver.set_query("query")
        self.done = number
        self.expected += rows

    def run_writers(self, scope: Scope, *, direct: bool = False) -> Acknowledged:
        """Run Spark's job of a checkpoint. A task without rows prepares nothing."""
        done = []
        for task in range(_TASKS):
            transaction, batch = self._transaction(scope, task), self._batch(scope, task)
            if direct:
                done.append(_written(self.sink.direct_writer(transaction), batch).commit())
            else:
                done.append(_written(self.sink.writer(transaction), batch).prepare())
        self.meanwhile()
        return Acknowledged({self.sink.name: tuple(done)}, at=0.0)

    def rewrite_missing(
        self, scope: Scope, _record: CheckpointRecord, lost: Mapping[str, tuple[Committable, ...]]
    ) -> Acknowledged:
        """Run Spark's job of a repair: a task writes what it has lost, and counts its other rows."""
        wanted = {each.transaction.task: each for each in lost[self.sink.name]}
        done = []
        for task in range(_TASKS):
            transaction, batch = self._transaction(scope, task), self._batch(scope, task)
            if task in wanted:
                done.append(_written(self.sink.writer(transaction, wanted[task]), batch).prepare())
            else:
                done.append(Committable(transaction, batch.num_rows))
        return Acknowledged({self.sink.name: tuple(done)}, at=0.0)

    def discard(self, _digest_methods: Sequence[int]) -> Sequence[Mapping[str, tuple[int, int]]] | None:
        """Say nothing of the rows of a batch that Spark runs again."""
        return None

    def rows(self) -> Counter[int]:
        """Return how often each row is in the target."""
        return Counter(self.read())

    def set_back(self, driver: Driver, meanwhile: Callable[[], None], *, with_disk: bool) -> None:
        """Restore this process's memory, and with it the machine's disk, to before `meanwhile`. The target stays.

        A copy of the process does it and ends, so that nothing here knows of it.
        """
        driver.committers[self.sink.name].close()  # no machine that is restored has a connection
        copy = self.machine.with_name("copy")
        shutil.copytree(self.machine, copy)
        if (pid := os.fork()) == 0:
            try:
                meanwhile()
                os._exit(0)
            finally:
                traceback.print_exc()
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        if with_disk:
            shutil.rmtree(self.machine)
            shutil.copytree(copy, self.machine)

    def _transaction(self, scope: Scope, task: int) -> TransactionId:
        """Return the id of another attempt of a task."""
        self.attempts += 1
        return TransactionId(scope, sink_key(self.sink.name), task, fresh_attempt(self.attempts))

    def _batch(self, scope: Scope, task: int) -> pa.RecordBatch:
        mine = list(self.given[scope.checkpoint_id][task::_TASKS])
        return pa.record_batch([pa.array(mine, pa.int64())], schema=SCHEMA)


def _written(writer: W, batch: pa.RecordBatch) -> W:
    """A task without rows writes nothing."""
    if batch.num_rows:
        writer.write(batch)
    return writer
