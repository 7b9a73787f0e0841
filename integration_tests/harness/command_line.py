"""Many `eos` commands, one after another, in one process with one JVM: for what ends before or soon after Spark is up.

The commands are the real ones, with their exit codes and all that they print. Only the start of Python and Java is
shared, which takes longer than everything else. What is killed or signalled needs a `PipelineProcess`.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from integration_tests.harness import session
from integration_tests.harness.pipeline_process import child_environment

_COMMAND_S = 300.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    output: str


class CommandLine:
    """Use as a context manager: at its end the process and its JVM are gone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(folder / "command-line.log").open("wb"),
            text=True,
            start_new_session=True,
            cwd=folder,
            env=child_environment({}),
        )

    def run(self, arguments: Sequence[str], environment: Mapping[str, str]) -> Ended:
        """Run `eos` with these arguments and variables; waits for its end."""
        self._count += 1
        log = self._folder / f"command-{self._count}.log"
        request = {"arguments": list(arguments), "environment": dict(environment), "log": str(log)}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answered = select.select([self._process.stdout], [], [], _COMMAND_S)[0]
        code = self._process.stdout.readline() if answered else ""
        output = log.read_text(errors="replace")
        assert code, (
            f"eos {' '.join(arguments)} did not end within {_COMMAND_S:g} s, or took the process with it:\n{output}"
        )
        return Ended(int(code), output)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session.kill(self._process.pid)
        self._process.wait()


def _serve() -> None:
    """The other process: a command a line, answered by its exit code."""
    from spark_jobs.cli import output, run_command_line

    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        request = json.loads(line)
        os.environ.update(request["environment"])
        log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(log, stream)
        os.close(log)
        output.out.as_json = output.out.debug = False  # a command's options last as long as its process
        code = run_command_line(request["arguments"])
        sys.stdout.flush()
        sys.stderr.flush()
        answers.write(f"{code}\n")
        answers.flush()


if __name__ == "__main__":
    _serve()
