"""One `eos run` as a real process tree: started, watched, stopped at fault points, and killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from integration_tests.harness import session
from integration_tests.harness.faults import Faults
from integration_tests.harness.other_host import under_host
from spark_jobs.demo.driver import FAST_START

PROJECT = Path(__file__).resolve().parents[2]

# Generous, since they cost nothing where all is well, and a busy machine takes five times as long as an idle one.
_POINT_S = 240.0
_END_S = 300.0
_POLL_S = 0.02
_TAIL_LINES = 40

EOS = ("-c", "import sys; from spark_jobs.cli import main; sys.argv[0] = 'eos'; main()")
"""What the console script `eos` does, of this work tree and no other."""


def child_environment(added: Mapping[str, str]) -> dict[str, str]:
    """What a process of this work tree inherits: nothing that this run's own settings could change."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("EOS_", "PYSPARK_"))}
    return {
        **inherited,
        "PYTHONPATH": str(PROJECT),
        "PYTHONUNBUFFERED": "1",
        "JDK_JAVA_OPTIONS": FAST_START,
        **added,
    }


class PipelineProcess:
    """A driver in a session of its own, with its JVM and workers. `log` has all that it prints.

    `host`: its host name; None: that of this machine.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        folder: Path,
        log: Path,
        faults: Faults,
        environment: Mapping[str, str],
        program: Sequence[str] = EOS,
        python: Path | str = sys.executable,
        host: str | None = None,
    ) -> None:
        self.faults = faults
        renamed = under_host(host, log.parent) if host is not None else []
        self.log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [*renamed, str(python), *program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=folder,
                env=child_environment({"EOS_FAULT_DIR": str(faults.folder), **environment}),
            )

    def await_point(self, stem: str, timeout_s: float = _POINT_S) -> int:
        """Wait until a process stops at this point; returns its id. Fails if the driver ends before."""
        return self.await_any([stem], timeout_s)

    def await_any(self, stems: Iterable[str], timeout_s: float = _POINT_S) -> int:
        """Wait until a process stops at one of these points; returns its id. Fails if the driver ends before."""
        awaited = tuple(stems)
        deadline = time.monotonic() + timeout_s
        while not (stopped := [pid for stem in awaited if (pid := self.faults.stopped(stem)) is not None]):
            name = " or ".join(awaited)
            if self._process.poll() is not None:
                raise AssertionError(self._report(f"ended with {self._process.returncode} before it came to {name}"))
            if time.monotonic() > deadline:
                raise AssertionError(self._report(f"did not come to {name} within {timeout_s:g} s"))
            time.sleep(_POLL_S)
        return stopped[0]

    def await_file(self, path: Path, timeout_s: float = _POINT_S) -> None:
        """Wait until a file or folder is there. Fails if the driver ends before."""
        deadline = time.monotonic() + timeout_s
        while not path.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(self._report(f"did not come so far that {path} is there"))
            time.sleep(_POLL_S)

    def await_output(self, text: str, timeout_s: float = _POINT_S) -> None:
        """Wait until it has printed this. Fails if the driver ends before."""
        deadline = time.monotonic() + timeout_s
        while text not in self.output():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(self._report(f"did not come so far that it prints {text}"))
            time.sleep(_POLL_S)

    @property
    def pid(self) -> int:
        """Of the driver, and of the session of all that it has started."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None as long as it runs."""
        return self._process.poll()

    def release(self, stem: str) -> None:
        """Let the process that stopped at this point go on."""
        self.faults.release(stem)

    def wait(self, timeout_s: float = _END_S) -> int:
        """Wait for the end of the driver; returns its exit code."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(self._report(f"did not end within {timeout_s:g} s")) from None

    def succeed(self, timeout_s: float = _END_S) -> None:
        """Wait for the end, which must be one with exit code 0."""
        code = self.wait(timeout_s)
        assert code == 0, self._report(f"ended with {code}, not 0")

    def facts(self, code: int = 0) -> dict[str, Any]:
        """Wait for the end of a command with --json, with this exit code. Return the object that it has printed."""
        found = self.wait()
        assert found == code, self._report(f"ended with {found}, not {code}")
        facts: dict[str, Any] = json.loads(self.output())
        return facts

    def fail(self, *fragments: str, code: int = 1) -> None:
        """Wait for the end, which must be one with this exit code, a message with all fragments, and no stack trace."""
        found = self.wait()
        output = self.output()
        missing = [fragment for fragment in fragments if fragment not in output]
        assert found == code, self._report(f"ended with {found}, not {code}")
        assert not missing, self._report(f"does not say {missing}")
        assert "Traceback" not in output, self._report("shows a stack trace")

    def terminate(self) -> None:
        """SIGTERM to the driver alone, as `kill`, a container's stop or a supervisor sends it."""
        self._process.send_signal(signal.SIGTERM)

    def terminate_all(self) -> None:
        """SIGTERM to driver, JVM, Spark's Python daemon and workers, as systemd sends it to a service's processes."""
        driver = psutil.Process(self._process.pid)
        for process in (driver, *driver.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                process.terminate()

    def interrupt(self) -> None:
        """SIGINT to the driver's whole process group, as Ctrl-C on a terminal does."""
        os.killpg(self._process.pid, signal.SIGINT)

    def kill(self) -> None:
        """SIGKILL to the whole tree: driver, JVM, Spark's Python daemon, workers. Returns when all are gone."""
        session.kill(self._process.pid)
        self._process.wait(_END_S)

    def kill_at(self, stem: str) -> None:
        """Wait until a process stops at this point, and kill the whole tree."""
        self.await_point(stem)
        self.kill()

    def kill_java(self) -> None:
        """SIGKILL to Spark's JVM alone."""
        for process in self.java():
            session.send(process.pid, signal.SIGKILL)

    def java(self) -> list[psutil.Process]:
        """Spark's JVM; none where there is none yet, or no more."""
        return [process for process in session.members(self._process.pid) if session.is_java(process)]

    def left_behind(self, timeout_s: float = 20.0) -> list[str]:
        """What still runs that long after the driver has ended."""
        return [str(process) for process in session.wait_until_empty(self._process.pid, timeout_s)]

    def output(self) -> str:
        """All that was printed so far."""
        return self.log.read_text(errors="replace")

    def _report(self, what: str) -> str:
        tail = "\n".join(self.output().splitlines()[-_TAIL_LINES:])
        return f"the pipeline {what}; the end of {self.log}:\n{tail}"
