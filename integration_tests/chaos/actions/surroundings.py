"""The disk of the checkpoint location, the clock of the product's processes, and the topic that is read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from integration_tests.chaos.arena import Arena
from integration_tests.chaos.effect import Effect
from integration_tests.chaos.plan import Fault
from integration_tests.chaos.progress import PATIENCE_S
from integration_tests.harness import session
from integration_tests.services.readiness import await_kafka


@contextmanager
def disk_full(arena: Arena, _: Fault) -> Iterator[Effect]:
    """No byte is free."""
    arena.disk.fill()
    try:
        yield Effect(arena.disk.is_full())
    finally:
        arena.disk.free()


@contextmanager
def read_only(arena: Arena, fault: Fault) -> Iterator[Effect]:
    """A part of it."""
    arena.disk.forbid(fault.target)
    try:
        yield Effect(arena.disk.is_forbidden(fault.target))
    finally:
        arena.disk.allow(fault.target)


@contextmanager
def clock_jumped(arena: Arena, fault: Fault) -> Iterator[Effect]:
    """That of driver, JVM, executors and tasks; and back at the end."""
    arena.clock.jump(int(fault.target))
    try:
        processes = [*session.members(arena.supervised.current.pid), *arena.stack.cluster.executors()]
        java = [each for each in processes if session.is_java(each)]
        pids = [arena.supervised.current.pid, *(each.pid for each in java if session.lives(each))]
        yield Effect(bool(java) and all(map(arena.clock.is_of, pids)))
    finally:
        arena.clock.jump(0)


@contextmanager
def topic_grown(arena: Arena, _: Fault) -> Iterator[Effect]:
    """By a partition, with keys of its own."""
    bootstrap = arena.stack.brokers.bootstrap
    client = AdminClient({"bootstrap.servers": bootstrap})
    for future in client.create_partitions([NewPartitions(arena.topic, arena.partitions + 1)]).values():
        future.result(PATIENCE_S)
    await_kafka(bootstrap, topic=arena.topic)
    arena.load.grow(arena.partitions)
    arena.partitions += 1
    yield Effect(True)
