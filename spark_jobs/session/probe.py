"""What `eos doctor` runs on the workers of a cluster. Imports the standard library alone."""

from __future__ import annotations

import importlib
import platform
import socket
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_CONNECT_S = 5.0
_HELD_S = 0.3  # how long a task keeps its core, so that others go to other workers


@dataclass(frozen=True, slots=True)
class Seen:
    """What one task has found where it ran."""

    host: str
    executor: str  # its work folder
    python: str
    interpreter: str
    missing: Sequence[str]  # why a module cannot be imported
    unreachable: Sequence[str]  # addresses, with the reason
    unreadable: Sequence[str]  # files of certificates, with the reason
    files: int  # how many were asked for
    location: bool  # whether the marker is there


@dataclass(frozen=True, slots=True)
class Probe:
    """The function of a task."""

    modules: Sequence[str]
    addresses: Sequence[tuple[str, int]]
    files: Sequence[str]  # of certificates and keys
    marker: str  # a file that the driver has put at the checkpoint location

    def __call__(self, _: Iterable[object]) -> Iterator[Seen]:
        """One task."""
        time.sleep(_HELD_S)
        yield Seen(
            host=socket.gethostname(),
            executor=str(Path.cwd()),
            python=platform.python_version(),
            interpreter=sys.executable,
            missing=[reason for name in self.modules if (reason := _why_not_imported(name))],
            unreachable=[reason for host, port in self.addresses if (reason := _why_not_reached(host, port))],
            unreadable=[reason for file in self.files if (reason := _why_not_read(file))],
            files=len(self.files),
            location=Path(self.marker).exists(),
        )


def _why_not_imported(name: str) -> str:
    try:
        importlib.import_module(name)
    except ImportError as error:
        return f"{name}: {error}"
    return ""


def _why_not_read(file: str) -> str:
    try:
        if not Path(file).is_dir():
            Path(file).open("rb").close()
    except OSError as error:
        return f"{file}: {error.strerror}"
    return ""


def _why_not_reached(host: str, port: int) -> str:
    try:
        socket.create_connection((host, port), _CONNECT_S).close()
    except OSError as error:
        return f"{host}:{port}: {error}"
    return ""
