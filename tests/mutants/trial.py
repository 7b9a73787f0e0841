"""Trials of mutants: a copy of the project, in which one mutant at a time is applied and its tests run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final

from tests.mutants.mutant import PROJECT, Mutant

_TIMEOUT_S: Final = 900.0
_TEST_TIMEOUT_S: Final = 120
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
    """A copy of the project. Invariant: between two trials it has no mutant in it."""

    folder: Path
    _writes: int = field(default=0, repr=False)

    def check(self, tests: Collection[str]) -> None:
        """Run these tests without a mutant. Raises BaselineError with the output of pytest unless all pass."""
        ended = _pytest(self.folder, sorted(tests))
        if ended.returncode != 0:
            raise BaselineError(ended.stdout)

    def trial(self, mutant: Mutant) -> Trial:
        """Run the tests of a mutant with it applied. Raises ValueError where the mutant no longer fits its module."""
        path = self.folder / mutant.path
        source = path.read_text()
        self._write(path, mutant.applied(source))
        try:
            ended = _pytest(self.folder, mutant.caught_by)
        except subprocess.TimeoutExpired as late:
            return Trial(Verdict.NOT_RUN, str(late))
        finally:
            self._write(path, source)
        return Trial(_verdict(ended), ended.stdout)

    def _write(self, path: Path, source: str) -> None:
        """Write a version of a module. Each has a time of its own, since compiled code is found by time and size."""
        path.write_text(source)
        self._writes += 1
        time_s = path.stat().st_mtime + self._writes
        os.utime(path, (time_s, time_s))


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
        yield Workshop(folder)


def _files() -> list[str]:
    command = ["git", "-C", str(PROJECT), "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.rstrip("\0").split("\0")


def _pytest(folder: Path, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
    options = ["-x", "-q", "-rfE", "-p", "no:cacheprovider", "--tb=short", f"--timeout={_TEST_TIMEOUT_S}"]
    environment = {name: value for name, value in os.environ.items() if not _LEFT_OUT.match(name)}
    environment["PYTHONPATH"] = str(folder)
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )


def _verdict(ended: subprocess.CompletedProcess[str]) -> Verdict:
    """A test has failed where pytest says 1 and names one: an error of a fixture shows nothing."""
    if ended.returncode == 1 and re.search(r"^FAILED ", ended.stdout, re.MULTILINE):
        return Verdict.CAUGHT
    return Verdict.SURVIVED if ended.returncode == 0 else Verdict.NOT_RUN
