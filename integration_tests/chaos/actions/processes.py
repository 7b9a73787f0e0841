"""Processes of Spark's that are killed, or stopped for a while."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import psutil

from integration_tests.chaos.arena import Arena
from integration_tests.chaos.effect import Action, Effect, soon
from integration_tests.chaos.plan import Fault
from integration_tests.chaos.progress import PATIENCE_S, ChaosError
from integration_tests.harness import session

Processes = Callable[[Arena], Sequence[psutil.Process]]


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
        yield Effect(soon(lambda: not session.lives(process)))

    return action


def stopped(processes: Processes) -> Action:
    """SIGSTOP to one of those that there are, and at the end SIGCONT."""

    @contextmanager
    def action(arena: Arena, fault: Fault) -> Iterator[Effect]:
        process = _sent(arena, fault, processes, signal.SIGSTOP)
        try:
            yield Effect(session.is_stopped(process))
        finally:
            with suppress(psutil.NoSuchProcess):
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


def _sent(arena: Arena, fault: Fault, processes: Processes, number: signal.Signals) -> psutil.Process:
    """One of those of this moment, which has got a signal. There may be none for a while, since the one before was
    ended just now; one that ends meanwhile is not the one."""
    got: list[psutil.Process] = []

    def is_sent() -> bool:
        if found := processes(arena):
            process = random.Random(fault.seed).choice(found)
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)
                got.append(process)
        return bool(got)

    if not soon(is_sent, PATIENCE_S):
        message = f"{fault.kind}: there is no such process for {PATIENCE_S:g} s"
        raise ChaosError(message)
    return got[0]
