"""What operators do while everything else goes on: they take savepoints, and change the rows of a pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from integration_tests.chaos.actions.drivers import must_say, running
from integration_tests.chaos.arena import Arena
from integration_tests.chaos.effect import Effect
from integration_tests.chaos.plan import Fault
from integration_tests.chaos.progress import await_progress
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
    """The pipeline is stopped, and started with rows that have one column more than their tables."""
    with arena.supervised.by_hand():
        running(arena).terminate()
        arena.supervised.current.wait()
        column = arena.evolution.add_column()
        arena.supervised.start()
        await_progress(arena, "a column was added to the rows")
    filled = f"SELECT 1 FROM {TABLE} WHERE {column} IS NOT NULL LIMIT 1"
    yield Effect(all(table.execute(filled) for table in arena.tables.values()))
