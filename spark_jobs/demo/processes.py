"""All processes of one session: a driver, its JVM, Spark's Python daemon and workers."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_KILL_S: Final = 20.0
_POLL_S: Final = 0.02


def kill_session(session: int) -> None:
    """Send SIGKILL to every process of a session until none is left: a process may fork while others are killed.

    A process stays in its session when its parent ends. Without /proc, only the process group
    is killed: Spark's workers, which have their own group, end when the JVM closes their standard input.
    Raises TimeoutError for a process that outlives the signal, as one does that waits for a broken disk.
    """
    if not _PROC.joinpath("self").exists():
        with suppress(ProcessLookupError):
            os.killpg(session, signal.SIGKILL)
        return
    deadline = time.monotonic() + _KILL_S
    while found := list(_members(session)):
        if time.monotonic() > deadline:
            message = f"SIGKILL has not ended {', '.join(map(str, found))} within {_KILL_S:.0f} s"
            raise TimeoutError(message)
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_S)


def _members(session: int) -> Iterator[int]:
    for entry in _PROC.iterdir():
        if entry.name.isdecimal() and _session_of(entry) == session:
            yield int(entry.name)


def _session_of(entry: Path) -> int | None:
    """Return the session of a process. None: it has ended."""
    try:
        state, _parent, _group, session = entry.joinpath("stat").read_text().rpartition(")")[2].split()[:4]
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state == "Z" else int(session)
