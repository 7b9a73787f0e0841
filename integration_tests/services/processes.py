"""Server processes that outlive the one that started them, and are known again by pid and start time."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from integration_tests.services.state import Json


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A process; the time it was created tells it from a later one with the same pid."""

    pid: int
    created: float

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
        return cls(child.pid, psutil.Process(child.pid).create_time())

    @classmethod
    def from_json(cls, document: Json) -> ServerProcess:
        """Return what `to_json` described."""
        return cls(int(document["pid"]), float(document["created"]))

    def to_json(self) -> Json:
        """Describe the process as plain data."""
        return asdict(self)

    def running(self) -> bool:
        """Tell whether this very process still runs."""
        process = self._find()
        return process is not None and process.status() != psutil.STATUS_ZOMBIE

    def kill(self) -> None:
        """Send SIGKILL and wait until the process is gone."""
        self._end(signal.SIGKILL, 10)

    def stop(self, seconds: float = 20) -> None:
        """Ask the process to end; kill it if it does not."""
        if not self._end(signal.SIGTERM, seconds):
            self.kill()

    def _end(self, number: signal.Signals, seconds: float) -> bool:
        process = self._find()
        if process is None:
            return True
        try:
            process.send_signal(number)
            # Also reaps it where this process is its parent.
            process.wait(seconds)
        except psutil.NoSuchProcess:
            return True
        except psutil.TimeoutExpired:
            return False
        return True

    def _find(self) -> psutil.Process | None:
        try:
            process = psutil.Process(self.pid)
            return process if abs(process.create_time() - self.created) < 1 else None
        except psutil.NoSuchProcess:
            return None
