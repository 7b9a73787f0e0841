"""Debian's packages of servers and programs that tests need, where this user may install them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from integration_tests.services.state import exclusive
from integration_tests.services.values import ServiceError

_LOCK: Final = Path(f"/var/tmp/eos-apt-{os.getuid()}.lock")


def install(what: str, packages: Sequence[str], elsewhere: str = "") -> None:
    """Blocks until they are installed. Raises ServiceError with what to do where that cannot be done here."""
    names = " ".join(packages)
    if os.getuid() != 0 or shutil.which("apt-get") is None:
        message = f"{what} is not installed. On Debian or Ubuntu, as root: apt-get install {names}"
        raise ServiceError(f"{message} (elsewhere {elsewhere})" if elsewhere else message)
    with one_at_a_time():
        for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *packages]):
            run(["apt-get", *command], f"{what} could not be installed (apt-get install {names})")


def run(command: Sequence[str], problem: str, folder: Path = Path("/")) -> None:
    """Raises ServiceError with its last words."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment, check=False
    )
    if done.returncode != 0:
        raise ServiceError(f"{problem}:\n{(done.stdout + done.stderr)[-2000:]}")


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Of all processes of this user: apt refuses a second one at once."""
    with exclusive(_LOCK):
        yield
