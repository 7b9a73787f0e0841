"""A driver that is killed, stopped, or meets another one; and an administrator who ends by hand what it has decided."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from integration_tests.chaos.arena import Arena
from integration_tests.chaos.effect import Effect, soon
from integration_tests.chaos.plan import Fault
from integration_tests.chaos.progress import PATIENCE_S, ChaosError, await_progress
from integration_tests.harness import session
from integration_tests.harness.pipeline_process import PipelineProcess
from wal.testing import files_in

_FENCED: Final = "fenced: "


@contextmanager
def killed(arena: Arena, _: Fault) -> Iterator[Effect]:
    """SIGKILL to it and to all that it has started, as a container's end does."""
    driver = running(arena)
    driver.kill()
    yield Effect(driver.exit_code == -signal.SIGKILL)


@contextmanager
def killed_beside_standby(arena: Arena, fault: Fault) -> Iterator[Effect]:
    """The same, once a standby is warm."""
    if not soon(arena.supervised.has_standby, PATIENCE_S):
        raise ChaosError(f"there is no standby for {PATIENCE_S:g} s")
    with killed(arena, fault) as effect:
        yield effect


@contextmanager
def machine_lost(arena: Arena, _: Fault) -> Iterator[Effect]:
    """SIGKILL to it and to all that uses its disk, and the disk is lost. The next driver begins on an empty one.

    Executors write state to the disk as well: as with `master: local[*]`, they end with the driver.
    """
    running(arena)
    with arena.supervised.by_hand():
        driver, cluster = arena.supervised.current, arena.stack.cluster
        driver.kill()
        for each in (*cluster.executors(), *cluster.tasks()):
            session.send(each.pid, signal.SIGKILL)
        gone = soon(lambda: not cluster.executors())
        had_files = any(files_in(arena.disk.folder))
        arena.disk.lose()
        is_seen = driver.exit_code == -signal.SIGKILL and gone and had_files and not files_in(arena.disk.folder)
    yield Effect(is_seen)


@contextmanager
def stopped(arena: Arena, _: Fault) -> Iterator[Effect]:
    """SIGSTOP to all of its processes, as a paused container has it."""
    driver = running(arena).pid
    session.stop(driver)
    try:
        processes = session.members(driver)
        yield Effect(bool(processes) and all(map(session.is_stopped, processes)))
    finally:
        session.go_on(driver)


@contextmanager
def superseded(arena: Arena, _: Fault) -> Iterator[Effect]:
    """It wakes up when another one has gone on, and must end without having done anything."""
    with arena.supervised.by_hand():
        old = running(arena)
        session.stop(old.pid)
        try:
            arena.supervised.start("run", "--take-over")
            await_progress(arena, "a second driver beside one that is stopped")
        finally:
            session.go_on(old.pid)
        _await_fenced(arena, old)
    yield Effect(True)


@contextmanager
def two_at_once(arena: Arena, _: Fault) -> Iterator[Effect]:
    """Whichever of them claims first must end, and the other one go on."""
    with arena.supervised.by_hand():
        running(arena).kill()
        rivals = arena.supervised.start("run", "--take-over"), arena.supervised.start("run", "--take-over")
        if not soon(lambda: any(each.exit_code is not None for each in rivals), PATIENCE_S):
            message = f"two drivers run beside one another for {PATIENCE_S:g} s: see {rivals[0].log}, {rivals[1].log}"
            raise ChaosError(message)
        fenced, other = rivals if rivals[0].exit_code is not None else reversed(rivals)
        arena.supervised.watch(other)
        _await_fenced(arena, fenced)
        await_progress(arena, "two drivers that were started at once")
        if other.exit_code is not None:
            message = f"of two drivers neither went on: see {rivals[0].log}, {rivals[1].log}"
            raise ChaosError(message)
    yield Effect(True)


@contextmanager
def rolled_back(arena: Arena, _: Fault) -> Iterator[Effect]:
    """An administrator ends by hand what is decided: it must be told as lost, by name, and be repaired."""
    kind = next(kind for kind, commit in arena.setup.commits.items() if commit == "two-phase")
    with arena.supervised.by_hand():
        running(arena).kill()
        driver = arena.supervised.start(arm=["after-decide"])
        driver.await_point("after-decide")
        driver.kill()
        head = arena.head()
        if head is None:
            raise ChaosError("head cannot be read, although nobody writes and the disk is well")
        prepared = arena.tables[kind].prepared(head.incarnation)
        arena.tables[kind].roll_back(head.incarnation)
        must_say(arena.supervised.start(), "eos repair", code=1)
        must_say(arena.supervised.start("repair", "--yes"), "", code=0)
        arena.supervised.start()
    yield Effect(bool(prepared))


def running(arena: Arena) -> PipelineProcess:
    """Return the driver of this moment. There may be none for a while, since the one before was ended just now."""
    if not soon(lambda: arena.supervised.current.exit_code is None, PATIENCE_S):
        message = f"there is no driver for {PATIENCE_S:g} s: see {arena.supervised.current.log}"
        raise ChaosError(message)
    return arena.supervised.current


def _await_fenced(arena: Arena, old: PipelineProcess) -> None:
    """It must end by itself and say why. Whoever goes on may meet what is left of an earlier fault: it starts again."""

    def has_ended() -> bool:
        if old.exit_code is None and arena.supervised.current.exit_code is not None:
            arena.supervised.start("run", "--take-over")
        return old.exit_code is not None

    if not soon(has_ended, PATIENCE_S):
        message = f"a driver that was fenced still runs after {PATIENCE_S:g} s: see {old.log}"
        raise ChaosError(message)
    must_say(old, _FENCED, code=1)


def must_say(process: PipelineProcess, words: str, *, code: int) -> None:
    """Wait for its end. Raises ChaosError unless it is one with this exit code and these words."""
    found = process.wait()
    if found != code or words not in process.output():
        message = f"it ended with {found} where {code} and {words!r} were to be expected: see {process.log}"
        raise ChaosError(message)
