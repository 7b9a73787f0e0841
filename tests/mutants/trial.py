"""Trials of mutants: a copy of the project, in which one mutant at a time is applied and its tests run."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final

from integration_tests.harness.rotation import SEED
from tests.mutants import warm
from tests.mutants.mutant import PROJECT, Mutant

_TIMEOUT_S: Final = 900.0
_TEST_TIMEOUT_S: Final = 120
_OPTIONS: Final = (
    *("-x", "-q", "-rfE", "-p", "no:cacheprovider", "--tb=short", f"--timeout={_TEST_TIMEOUT_S}"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # of libraries that are imported already, see warm
)
_LEFT_OUT: Final = re.compile(r"PYTEST_|EOS_MUTANTS$|PYTHONDONTWRITEBYTECODE$")
"""Variables of a run of pytest that starts this one."""
_SHARED: Final = (".venv", ".services")
"""Folders that the copy has in common with the project: installed commands, and servers that run."""


class Verdict(Enum):
    """What the tests of a mutant say of it."""

    CAUGHT = "caught"  # a test failed
    SURVIVED = "survived"  # all passed
    NOT_RUN = "not run"  # pytest could not collect or run them, which shows nothing


@dataclass(frozen=True, slots=True)
class Trial:
    """The outcome of one run of pytest."""

    verdict: Verdict
    output: str


class BaselineError(Exception):
    """Tests fail without any mutant, so that their failure shows nothing."""


@dataclass(slots=True)
class Workshop:
    """A copy of the project. For one thread. Invariant: between two trials it has no mutant in it."""

    folder: Path
    _writes: int = field(default=0, repr=False)
    _server: subprocess.Popen[str] | None = field(default=None, repr=False)  # see warm

    def check(self, tests: Collection[str]) -> None:
        """Run these tests without a mutant. Raises BaselineError with the output of pytest unless all pass."""
        trial = self._tried(sorted(tests))
        if trial.verdict is not Verdict.SURVIVED:
            raise BaselineError(trial.output)

    def trial(self, mutant: Mutant) -> Trial:
        """Run the tests of a mutant with it applied. Raises ValueError where the mutant no longer fits its module."""
        path = self.folder / mutant.path
        source = path.read_text()
        self._write(path, mutant.applied(source))
        try:
            return self._tried(mutant.caught_by)
        finally:
            self._write(path, source)

    def close(self) -> None:
        """End the process that runs the tests, and what these have started and left."""
        if self._server is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._server.pid, signal.SIGKILL)
            self._server.wait()
            self._server = None

    def _write(self, path: Path, source: str) -> None:
        """Write a version of a module. Each has a time of its own, since compiled code is found by time and size."""
        path.write_text(source)
        self._writes += 1
        time_s = path.stat().st_mtime + self._writes
        os.utime(path, (time_s, time_s))

    def _tried(self, tests: Sequence[str]) -> Trial:
        server = self._server = self._server or _started(self.folder)
        assert server.stdin is not None
        assert server.stdout is not None
        with tempfile.NamedTemporaryFile(prefix="eos-mutant-", suffix=".log") as printed:
            server.stdin.write(json.dumps([printed.name, *_OPTIONS, *tests]) + "\n")
            server.stdin.flush()
            late = threading.Timer(_TIMEOUT_S, os.killpg, (server.pid, signal.SIGKILL))
            late.start()
            try:
                answer = server.stdout.readline().strip()
            finally:
                late.cancel()
            output = Path(printed.name).read_text(errors="replace")
        if not answer:
            self.close()
            return Trial(
                Verdict.NOT_RUN, f"{output}\npytest was ended: it took longer than {_TIMEOUT_S:g} s, or crashed"
            )
        return Trial(_verdict(int(answer), output), output)


@contextmanager
def workshop() -> Generator[Workshop]:
    """Return a copy of the project as it is, without what git ignores. It is deleted at the end."""
    with tempfile.TemporaryDirectory(prefix="eos-mutants-") as temporary:
        folder = Path(temporary)
        for name in _files():
            if (PROJECT / name).is_file():  # deleted files are still known to git, and links of folders are no files
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(PROJECT / name, folder / name)
        for name in _SHARED:
            if (PROJECT / name).exists():
                (folder / name).symlink_to((PROJECT / name).resolve())
        copy = Workshop(folder)
        try:
            yield copy
        finally:
            copy.close()


def _files() -> list[str]:
    command = ["git", "-C", str(PROJECT), "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.rstrip("\0").split("\0")


def _started(folder: Path) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if not _LEFT_OUT.match(name)}
    environment["PYTHONPATH"] = str(folder)
    environment[SEED] = "all"  # Hypothesis tries all examples
    return subprocess.Popen(
        [sys.executable, "-P", warm.__file__],
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _verdict(code: int, output: str) -> Verdict:
    """A test has failed where pytest says 1 and names one: an error of a fixture shows nothing."""
    if code == 1 and re.search(r"^FAILED ", output, re.MULTILINE):
        return Verdict.CAUGHT
    return Verdict.SURVIVED if code == 0 else Verdict.NOT_RUN
