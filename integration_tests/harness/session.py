"""All processes of one session: a driver, its JVM, Spark's Python daemon and workers, however they were started."""

from __future__ import annotations

import os
import signal
import time

import psutil

_KILL_S = 20.0
_STOP_S = 2.0


def members(session: int) -> list[psutil.Process]:
    """Those that still live. A process whose parent has died stays in its session, but in nobody's list of children."""
    return [process for process in psutil.process_iter() if _session_of(process.pid) == session and lives(process)]


def kill(session: int) -> None:
    """SIGKILL to every one, again until none is left: some are just being born."""
    deadline = time.monotonic() + _KILL_S
    while found := members(session):
        for process in found:
            send(process.pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            message = f"processes {[process.pid for process in found]} survive SIGKILL for {_KILL_S:g} s"
            raise AssertionError(message)
        time.sleep(0.02)


def stop(session: int) -> None:
    """SIGSTOP to every one that lives now, as a paused container does: nothing ends, nothing goes on."""
    for process in members(session):
        send(process.pid, signal.SIGSTOP)


def go_on(session: int) -> None:
    """SIGCONT to every one: it goes on where it was."""
    for process in members(session):
        send(process.pid, signal.SIGCONT)


def lives(process: psutil.Process) -> bool:
    """Whether it has not ended, even if nobody has asked for its end."""
    return _status(process) not in {"", psutil.STATUS_ZOMBIE}


def is_stopped(process: psutil.Process) -> bool:
    """Whether SIGSTOP has reached it, which the kernel takes a moment for."""
    deadline = time.monotonic() + _STOP_S
    while (status := _status(process)) not in {"", psutil.STATUS_STOPPED} and time.monotonic() < deadline:
        time.sleep(0.01)
    return status == psutil.STATUS_STOPPED


def is_java(process: psutil.Process) -> bool:
    """Whether it is a JVM; one that has ended meanwhile is none."""
    try:
        return bool(process.name() == "java")
    except psutil.NoSuchProcess:
        return False


def wait_until_empty(session: int, timeout_s: float) -> list[psutil.Process]:
    """Wait for the end of all; returns those that are left after that time."""
    deadline = time.monotonic() + timeout_s
    while (found := members(session)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def _status(process: psutil.Process) -> str:
    try:
        return str(process.status())
    except psutil.NoSuchProcess:
        return ""


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def send(pid: int, number: int) -> None:
    """A signal to one process, which may have ended meanwhile."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
