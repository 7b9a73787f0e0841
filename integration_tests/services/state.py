"""Where running services are remembered: one folder per kind, with the state, the logs and a lock."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from integration_tests.services.values import ServiceError

PROJECT = Path(__file__).resolve().parents[2]

Json = dict[str, Any]


def identity() -> str:
    """Tell this work tree from every other one on the machine: two of them must not share servers."""
    return hashlib.sha256(f"{os.getuid()} {PROJECT}".encode()).hexdigest()[:8]


class State:
    """What `up` started, so that a later process can use it and `down` can stop it, and nothing else."""

    def __init__(self, kind: str) -> None:
        self.folder = PROJECT / ".services" / kind
        self._file = self.folder / "state.json"

    def load(self) -> Json:
        """Return the state that was saved last; empty where nothing is up."""
        try:
            loaded: Json = json.loads(self._file.read_text())
        except FileNotFoundError:
            return {}
        return loaded

    def save(self, state: Json) -> None:
        """Replace the state in one step, so that a reader never sees half of it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps(state, indent=2))
        fresh.replace(self._file)

    def forget(self) -> None:
        """Remove the state; the logs stay."""
        self._file.unlink(missing_ok=True)

    def log(self, name: str) -> Path:
        """Return the path of a server's log."""
        logs = self.folder / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        return logs / f"{name}.log"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let one process at a time start or stop services."""
        with exclusive(self.folder / "lock"):
            yield


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold an advisory lock on a file, which the system gives back however this process ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def data_folder() -> Path:
    """Return the folder for the native servers' data.

    Not under the work tree: a database started by root runs as another user, who may not be let into it, and a
    socket's path is limited to about a hundred characters.
    """
    folder = Path("/var/tmp") / f"eos-services-{identity()}"
    folder.mkdir(mode=0o711, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise ServiceError(f"{folder} belongs to somebody else; remove it")
    return folder


def free_port(wanted: int) -> int:
    """Return the wanted port, or any other one where something listens on it already."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            chosen: int = probe.getsockname()[1]
            return chosen
    raise ServiceError("no free port on 127.0.0.1")


def tail(path: Path, lines: int = 15) -> str:
    """Return the end of a log, indented, for an error message."""
    if not path.exists():
        return ""
    return "\n".join(f"    {line}" for line in path.read_text(errors="replace").splitlines()[-lines:])
