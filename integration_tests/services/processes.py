"""Server processes that outlive the one that started them, and are known again by pid and start time."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from integration_tests.services.state import Json


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A process; its start tells it from a later one with the same pid."""

    pid: int
    start_ticks: int  # since the machine's boot, so that setting the clock does not change it

    @classmethod
    def start(cls, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> ServerProcess:
        """Start a command in a session of its own, so that a Ctrl-C meant for the tests does not reach it."""
        with log.open("ab") as output:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd="/",
                env={**os.environ, **(environment or {})},
            )
        return cls(child.pid, _stat(child.pid)[1])

    @classmethod
    def from_json(cls, document: Json) -> ServerProcess:
        """Return what `to_json` described."""
        return cls(int(document["pid"]), int(document["start_ticks"]))

    def to_json(self) -> Json:
        """Describe the process as plain data."""
        return asdict(self)

    def running(self) -> bool:
        """Tell whether this very process still runs."""
        try:
            return self._is_seen() and _stat(self.pid)[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False

    def kill(self) -> None:
        """Send SIGKILL and wait until the process is gone."""
        self._end(signal.SIGKILL, 30)

    def await_reaped(self, seconds: float = 30) -> None:
        """Return when nobody can see the process any more, not even as one whose end its parent has not asked for."""
        deadline = time.monotonic() + seconds
        while self._is_seen() and time.monotonic() < deadline:
            with suppress(ChildProcessError):  # not ours: whoever adopted it asks
                os.waitpid(self.pid, os.WNOHANG)
            time.sleep(0.02)

    def _is_seen(self) -> bool:
        try:
            return _stat(self.pid)[1] == self.start_ticks
        except (FileNotFoundError, ProcessLookupError):
            return False

    def stop(self, seconds: float = 20) -> None:
        """Ask the process to end; kill it if it does not."""
        if not self._end(signal.SIGTERM, seconds):
            self.kill()

    def _end(self, number: signal.Signals, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        if self.running():
            os.kill(self.pid, number)
        while self.running():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True


def _stat(pid: int) -> tuple[str, int]:
    """Return a process's state and start, which stand after its name; the name may hold spaces and brackets."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return fields[0], int(fields[19])
