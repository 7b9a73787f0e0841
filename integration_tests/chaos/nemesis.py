"""Does the faults, one after another and some at once, and measures how long the pipeline takes to recover."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

import psutil
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from integration_tests.chaos.arena import Arena
from integration_tests.chaos.plan import Fault
from integration_tests.harness import session
from integration_tests.harness.pipeline_process import PipelineProcess
from integration_tests.services.readiness import await_kafka

RECOVERY_S: Final = 300.0
_POLL_S: Final = 0.05
_MOST_EXITS: Final = 15  # of drivers that a fault keeps from starting, or that a cure comes too late for
_FENCED_S: Final = 90.0
_SLOW_BYTES_PER_S: Final = 20_000.0


class ChaosError(Exception):
    """The pipeline did what it must never do; the message says what, and where its logs are."""


@dataclass(frozen=True, slots=True)
class Done:
    """Faults that were done, and how long it took until a checkpoint was committed that ended after them."""

    faults: Sequence[Fault]
    recovery_s: float


def attack(arena: Arena, faults: Sequence[Sequence[Fault]], tell: Callable[[str], None]) -> Iterator[Done]:
    """Do all of them. Raises ChaosError where the pipeline does not recover, or goes on where it must not."""
    _await_progress(arena, "the start")
    for some in faults:
        with ExitStack() as held:
            for fault in some:
                time.sleep(fault.pause_s)
                tell(f"{fault.kind} {fault.target}{f' for {fault.hold_s:g} s' if fault.hold_s else ''}")
                held.enter_context(_ACTIONS[fault.kind](arena, fault))
            time.sleep(max(fault.hold_s for fault in some))
        ended_s = time.monotonic()
        _await_progress(arena, " and ".join(fault.kind for fault in some))
        yield Done(some, time.monotonic() - ended_s)


def _await_progress(arena: Arena, after: str) -> None:
    """Until a checkpoint is committed everywhere that was not completed before."""
    deadline = time.monotonic() + RECOVERY_S
    before, exits = arena.head(), arena.supervised.exits.total()
    while True:
        now = arena.head()
        before = before or now
        if now is not None and before is not None and now.committed > before.completed:
            return
        if arena.supervised.exits.total() - exits > _MOST_EXITS:
            message = (
                f"it cannot go on after {after}, and ended {_MOST_EXITS} times: see {arena.supervised.current.log}"
            )
            raise ChaosError(message)
        if not arena.load.is_alive():
            raise ChaosError("the load has ended by itself")
        if time.monotonic() > deadline:
            message = f"nothing was committed for {RECOVERY_S:g} s after {after}: see {arena.folder}"
            raise ChaosError(message)
        time.sleep(_POLL_S)


Action = Callable[[Arena, Fault], AbstractContextManager[None]]


@contextmanager
def _lasting(begin: Callable[[], object], end: Callable[[], object]) -> Iterator[None]:
    begin()
    try:
        yield
    finally:
        end()


@contextmanager
def _driver_killed(arena: Arena, _: Fault) -> Iterator[None]:
    arena.supervised.current.kill()
    yield


@contextmanager
def _jvm_killed(arena: Arena, fault: Fault) -> Iterator[None]:
    session.send(_chosen(fault, lambda: arena.supervised.current.java()).pid, signal.SIGKILL)
    yield


def _driver_stopped(arena: Arena, _: Fault) -> AbstractContextManager[None]:
    driver = arena.supervised.current.pid
    return _lasting(partial(session.stop, driver), partial(session.go_on, driver))


@contextmanager
def _driver_superseded(arena: Arena, _: Fault) -> Iterator[None]:
    """It wakes up when another one has gone on, and must end without having done anything."""
    with arena.supervised.by_hand():
        old = arena.supervised.current
        session.stop(old.pid)
        try:
            arena.supervised.start()
            _await_progress(arena, "a second driver beside one that is stopped")
        finally:
            session.go_on(old.pid)
        _await_end(arena, old)
    yield


@contextmanager
def _two_drivers(arena: Arena, _: Fault) -> Iterator[None]:
    with arena.supervised.by_hand():
        old = arena.supervised.current
        arena.supervised.start()
        _await_end(arena, old)
    yield


def _await_end(arena: Arena, old: PipelineProcess) -> None:
    """Whichever of two is fenced must end by itself: here the older one."""
    deadline = time.monotonic() + _FENCED_S
    while old.exit_code is None:
        if time.monotonic() > deadline:
            message = f"a driver that was fenced still runs after {_FENCED_S:g} s: see {old.log}"
            raise ChaosError(message)
        if arena.supervised.current.exit_code is not None:  # it met another fault; the older one lives on
            arena.supervised.start()
        time.sleep(_POLL_S)


@contextmanager
def _executor_killed(arena: Arena, fault: Fault) -> Iterator[None]:
    session.send(_chosen(fault, arena.stack.cluster.executors).pid, signal.SIGKILL)
    yield


def _executor_stopped(arena: Arena, fault: Fault) -> AbstractContextManager[None]:
    return _stopped(_chosen(fault, arena.stack.cluster.executors))


@contextmanager
def _task_killed(arena: Arena, fault: Fault) -> Iterator[None]:
    session.send(_chosen(fault, arena.stack.cluster.tasks).pid, signal.SIGKILL)
    yield


def _task_stopped(arena: Arena, fault: Fault) -> AbstractContextManager[None]:
    return _stopped(_chosen(fault, arena.stack.cluster.tasks))


def _machine_lost(arena: Arena, fault: Fault) -> AbstractContextManager[None]:
    cluster = arena.stack.cluster
    number = random.Random(fault.seed).randrange(len(cluster.workers))
    return _lasting(partial(cluster.kill_worker, number), partial(cluster.start_worker, number))


@contextmanager
def _broker_killed(arena: Arena, fault: Fault) -> Iterator[None]:
    number = _broker(fault)
    arena.stack.brokers.kill(number)
    try:
        yield
    finally:
        arena.stack.brokers.start(number)
        arena.stack.brokers.await_all()


def _broker_stopped(arena: Arena, fault: Fault) -> AbstractContextManager[None]:
    brokers, number = arena.stack.brokers, _broker(fault)
    return _lasting(partial(brokers.stop, number), partial(brokers.go_on, number))


def _database_killed(arena: Arena, fault: Fault) -> AbstractContextManager[None]:
    server = arena.stack.servers[fault.target]
    return _lasting(server.kill, server.start)


def _database_stopped(arena: Arena, fault: Fault) -> AbstractContextManager[None]:
    server = arena.stack.servers[fault.target]
    return _lasting(server.stop, server.go_on)


def _cut(arena: Arena, fault: Fault) -> AbstractContextManager[None]:
    link = arena.stack.links[fault.target]
    return _lasting(link.cut, link.restore)


@contextmanager
def _slow(arena: Arena, fault: Fault) -> Iterator[None]:
    link = arena.stack.links[fault.target]
    link.bytes_per_s = _SLOW_BYTES_PER_S
    try:
        yield
    finally:
        link.restore()


def _half_open(arena: Arena, fault: Fault) -> AbstractContextManager[None]:
    link = arena.stack.links[fault.target]
    return _lasting(link.stall, link.restore)


def _disk_full(arena: Arena, _: Fault) -> AbstractContextManager[None]:
    return _lasting(arena.disk.fill, arena.disk.free)


def _read_only(arena: Arena, fault: Fault) -> AbstractContextManager[None]:
    return _lasting(partial(arena.disk.forbid, fault.target), partial(arena.disk.allow, fault.target))


@contextmanager
def _grown(arena: Arena, _: Fault) -> Iterator[None]:
    bootstrap = arena.stack.brokers.bootstrap
    client = AdminClient({"bootstrap.servers": bootstrap})
    for future in client.create_partitions([NewPartitions(arena.topic, arena.partitions + 1)]).values():
        future.result(RECOVERY_S)
    await_kafka(bootstrap, topic=arena.topic)
    arena.load.grow(arena.partitions)
    arena.partitions += 1
    yield


@contextmanager
def _rolled_back(arena: Arena, _: Fault) -> Iterator[None]:
    """An administrator ends by hand what is decided: it must be told as lost, by name, and be repaired."""
    kind = next(kind for kind, commit in arena.commits.items() if commit == "two-phase")
    with arena.supervised.by_hand():
        arena.supervised.current.kill()
        driver = arena.supervised.start(arm=["after-decide"])
        driver.await_point("after-decide")
        driver.kill()
        head = arena.head()
        assert head is not None
        arena.tables[kind].roll_back(head.incarnation)
        _must_say(arena.supervised.start(), "eos repair", code=1)
        _must_say(arena.supervised.start("repair", "--yes"), "", code=0)
        arena.supervised.start()
    yield


def _must_say(process: PipelineProcess, words: str, *, code: int) -> None:
    found = process.wait()
    if found != code or words not in process.output():
        message = f"it ended with {found} where {code} and {words!r} were to be expected: see {process.log}"
        raise ChaosError(message)


def _jumped(arena: Arena, fault: Fault) -> AbstractContextManager[None]:
    return _lasting(partial(arena.clock.jump, int(fault.target)), partial(arena.clock.jump, 0))


_ACTIONS: Final[Mapping[str, Action]] = {
    "driver killed": _driver_killed,
    "driver's JVM killed": _jvm_killed,
    "driver stopped": _driver_stopped,
    "driver superseded": _driver_superseded,
    "two drivers": _two_drivers,
    "executor killed": _executor_killed,
    "executor stopped": _executor_stopped,
    "Python worker killed": _task_killed,
    "Python worker stopped": _task_stopped,
    "machine of a worker lost": _machine_lost,
    "broker killed": _broker_killed,
    "broker stopped": _broker_stopped,
    "database killed": _database_killed,
    "database stopped": _database_stopped,
    "connections cut": _cut,
    "connections slow": _slow,
    "connections half open": _half_open,
    "disk full": _disk_full,
    "disk read-only": _read_only,
    "topic grown": _grown,
    "transaction rolled back": _rolled_back,
    "clock jumped": _jumped,
}


def _broker(fault: Fault) -> int:
    return int(fault.target.removeprefix("broker-"))


def _chosen(fault: Fault, processes: Callable[[], Sequence[psutil.Process]]) -> psutil.Process:
    """One of those of this moment. There may be none for a while, since the one before was ended just now."""
    deadline = time.monotonic() + RECOVERY_S
    while not (found := processes()):
        if time.monotonic() > deadline:
            message = f"{fault.kind}: there is no such process for {RECOVERY_S:g} s"
            raise ChaosError(message)
        time.sleep(_POLL_S)
    return random.Random(fault.seed).choice(found)


def _stopped(process: psutil.Process) -> AbstractContextManager[None]:
    return _lasting(
        partial(session.send, process.pid, signal.SIGSTOP), partial(session.send, process.pid, signal.SIGCONT)
    )
