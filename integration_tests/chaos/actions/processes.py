"""Processes of Spark's that are killed, or stopped for a while."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

import psutil

from integration_tests.chaos.arena import Arena
from integration_tests.chaos.effect import Action, Effect, soon
from integration_tests.chaos.plan import Fault
from integration_tests.harness import session

Processes = Callable[[Arena], Sequence[psutil.Process]]

_AWAITED_S: Final = 20.0  # a process that is to come: a driver that starts has its executors in ten


def executors(arena: Arena) -> Sequence[psutil.Process]:
    """Their JVMs."""
    return arena.stack.cluster.executors()


def tasks(arena: Arena) -> Sequence[psutil.Process]:
    """Python processes in which tasks run."""
    return arena.stack.cluster.tasks()


def drivers_java(arena: Arena) -> Sequence[psutil.Process]:
    """The JVM of a driver that runs."""
    driver = arena.supervised.current
    return driver.java() if driver.exit_code is None else []


def killed(processes: Processes) -> Action:
    """SIGKILL to one of those that there are."""

    @contextmanager
    def action(arena: Arena, fault: Fault) -> Iterator[Effect]:
        process = _sent(arena, fault, processes, signal.SIGKILL)
        yield Effect(process is not None and soon(lambda: not session.lives(process)))

    return action


def stopped(processes: Processes) -> Action:
    """SIGSTOP to one of those that there are, and at the end SIGCONT."""

    @contextmanager
    def action(arena: Arena, fault: Fault) -> Iterator[Effect]:
        process = _sent(arena, fault, processes, signal.SIGSTOP)
        try:
            yield Effect(process is not None and session.is_stopped(process))
        finally:
            with suppress(psutil.NoSuchProcess):
                if process is not None:
                    process.resume()

    return action


@contextmanager
def machine_lost(arena: Arena, fault: Fault) -> Iterator[Effect]:
    """A worker with its executors and their Python processes."""
    cluster = arena.stack.cluster
    number = random.Random(fault.seed).randrange(len(cluster.workers))
    victims = session.members(cluster.workers[number])
    cluster.kill_worker(number)
    try:
        yield Effect(bool(victims) and not any(map(session.lives, victims)))
    finally:
        cluster.start_worker(number)


def _sent(arena: Arena, fault: Fault, processes: Processes, number: signal.Signals) -> psutil.Process | None:
    """One of those of this moment, which has got a signal; one that ends meanwhile is not the one.

    There may be none for a while, since the one before was ended just now; and none comes while the driver is stopped,
    which goes on only when the fault after it is done: None.
    """
    got: list[psutil.Process] = []

    def is_sent() -> bool:
        if found := processes(arena):
            process = random.Random(fault.seed).choice(found)
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)
                got.append(process)
        return bool(got)

    return got[0] if soon(is_sent, _AWAITED_S) else None
