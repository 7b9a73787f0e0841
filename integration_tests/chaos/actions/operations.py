"""What operators do while everything else goes on: they take savepoints, and change the rows of a pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from connectors.kafka.splits import as_offset
from integration_tests.chaos.actions.drivers import must_say, running
from integration_tests.chaos.arena import Arena
from integration_tests.chaos.effect import Effect
from integration_tests.chaos.plan import Fault
from integration_tests.chaos.progress import ChaosError, await_progress
from integration_tests.chaos.spec import TABLE


@contextmanager
def savepoint_taken(arena: Arena, fault: Fault) -> Iterator[Effect]:
    """Of a pipeline under load, which goes on meanwhile; every byte of it is checked."""
    folder = arena.folder / "savepoints" / str(fault.seed)
    running(arena)
    must_say(arena.supervised.start("savepoint", str(folder)), "", code=0)
    taken = list(folder.glob("savepoint-*"))
    for each in taken:
        must_say(arena.supervised.start("savepoint inspect", of=str(each)), "", code=0)
    yield Effect(len(taken) == 1)


@contextmanager
def tables_evolved(arena: Arena, _: Fault) -> Iterator[Effect]:
    """The pipeline is stopped, and started with rows that have one column more than their tables.

    Only after a clean stop: what an earlier fault has left may keep the driver from one, and then Spark may have to run
    a decided batch again, which must give the same rows.
    """
    column = ""
    with arena.supervised.by_hand():
        driver = running(arena)
        driver.terminate()
        if driver.wait() == 0:
            head = arena.head()
            if head is None:
                raise ChaosError("head cannot be read, although nobody writes and the disk is well")
            column = arena.evolution.add_column(
                {split: as_offset(at) for split, at in head.positions["incoming"].items()}
            )
        arena.supervised.start()
    await_progress(arena, "a column was added to the rows")
    filled = f"SELECT 1 FROM {TABLE} WHERE {column} IS NOT NULL LIMIT 1"
    yield Effect(column != "" and all(table.execute(filled) for table in arena.tables.values()))
