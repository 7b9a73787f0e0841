"""A driver of the demo: `eos run` as its own process, stopped at a fault point and killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from spark_jobs.demo.processes import kill_session

FAST_START: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For Java: a driver that runs for half a minute gains nothing from thorough compilation, which halves its start."""

_OF_OTHER_RUNS: Final = ("EOS_", "PYSPARK_", "SPARK_")
"""Prefixes of variables that a driver of the demo does not inherit."""

_END_S: Final = 30.0


class Driver(Protocol):
    """A process that runs the job."""

    def kill(self) -> None:
        """Send SIGKILL to the process and all that it has started. Return when all have ended."""


class EosRun:
    """`eos run` in its own session."""

    def __init__(self, spec: Path, log: Path, environment: Mapping[str, str]) -> None:
        self.log = log
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(_OF_OTHER_RUNS)}
        with log.open("wb") as output:
            # -P: a folder of the user's, such as `connectors`, is not imported in the place of ours.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "eos", "run", str(spec)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the demo, which ends its processes in order
                cwd=spec.parent,
                env={**inherited, **environment},
            )

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def output(self) -> str:
        """Return all output so far."""
        return self.log.read_text(errors="replace")

    def terminate(self) -> None:
        """Send SIGTERM: the job ends after its checkpoint."""
        self._process.send_signal(signal.SIGTERM)

    def wait(self, timeout_s: float) -> int:
        """Wait for the end and return the exit code. Raises TimeoutError."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            message = f"the driver did not end within {timeout_s:g} s; see {self.log}"
            raise TimeoutError(message) from None

    def kill(self) -> None:
        """Send SIGKILL to driver, JVM, Spark's Python daemon and workers. Return when all have ended."""
        kill_session(self._process.pid)
        self._process.wait(_END_S)
