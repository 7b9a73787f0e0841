"""A system that runs: started in a session of its own, watched for its end, and ended with all its processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from benchmarks.bench.comparison.work import Launch
from integration_tests.harness import session

_STOP_S: Final = 60.0
_LOOK_S: Final = 1.0
_TELLING: Final = re.compile(r"error|exception|caused by", re.IGNORECASE)


class RunFailedError(RuntimeError):
    """A system ended, or failed, or took too long; the message has its last words."""


@dataclass(slots=True)
class Started:
    """Use as a context manager."""

    launch: Launch
    log: Path
    started_at: float = 0.0
    _process: subprocess.Popen[bytes] = field(init=False)
    _looked_at: float = 0.0

    def __enter__(self) -> Self:
        self.started_at = time.time()
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                self.launch.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.launch.environment},
                start_new_session=True,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._process.poll() is None and not self.launch.ends:
            self._process.send_signal(signal.SIGTERM)
        if kind is None:
            session.wait_until_empty(self.pid, _STOP_S)
        session.kill(self.pid)
        self._process.wait()
        self.launch.clean()

    @property
    def pid(self) -> int:
        """Of its first process."""
        return self._process.pid

    def trouble(self, timeout_s: float) -> str:
        """Why no more rows will come, empty while they may. Ask it before the table: then what has come is seen."""
        now = time.time()
        if self._process.poll() is not None:
            return f"it ended with {self._process.returncode}:\n{self._words()}"
        if now - self.started_at > timeout_s:
            return f"it was not done in {timeout_s:g} s:\n{self._words()}"
        if self.launch.fatal and now - self._looked_at > _LOOK_S:
            self._looked_at = now
            if self.launch.fatal in self.log.read_bytes():
                return f"it has failed:\n{self._words()}"
        return ""

    def _words(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        telling = [line for line in lines if _TELLING.search(line)] or lines
        return "\n".join(line[:300] for line in telling[-8:])
