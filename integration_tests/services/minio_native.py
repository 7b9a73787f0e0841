"""S3's protocol by a second server, MinIO, as a process of this machine: on a disk, so it can be killed and restarted.

MinIO's maintainers publish its source text as a Go module (integration_tests/services/go_programs.py).
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.request import urlopen

from integration_tests.services.go_programs import GoProgram
from integration_tests.services.processes import ServerProcess
from integration_tests.services.single import PortServer
from integration_tests.services.state import data_folder, free_port, tail
from integration_tests.services.values import ServiceError
from tests.object_store import KEYS

WITHOUT: Final = "EOS_WITHOUT_MINIO"
"""Environment variable: where it is set, a run leaves out the tests on MinIO."""

_MINIO: Final = GoProgram("minio", "github.com/minio/minio", "v0.0.0-20260212201848-7aac2a2c5b7c")
_START_S: Final = 120.0  # on a busy machine


class MinioServer:
    """A server on a folder of its own. As a context manager it runs inside the block. The folder is the caller's."""

    def __init__(self, folder: Path, log: Path, port: int = 0) -> None:
        """
        Args:
            port: the preferred one on 127.0.0.1. The server takes another if it is in use.
        """
        self._folder = folder
        self._log = log
        self.port = free_port(port)
        self._process: ServerProcess | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.stop()

    def start(self) -> None:
        """Start it on the objects that it has. Block until it answers."""
        self._process = start(self._folder, self._log, self.port)
        await_ready(self.port, self._process, self._log)

    def kill(self) -> None:
        """End it by SIGKILL."""
        assert self._process is not None
        self._process.kill()


class Minio(PortServer):
    """The server that all tests share. Each test has a bucket of its own."""

    kind = "minio"
    wanted_port = 15557

    def _start(self) -> ServerProcess:
        return start(data_folder() / self.kind, self._log, self.port)

    def _await(self) -> None:
        await_ready(self.port, ServerProcess.from_json(self._state.load()["process"]), self._log)

    def _clear(self) -> None:
        shutil.rmtree(data_folder() / self.kind, ignore_errors=True)


def start(folder: Path, log: Path, port: int) -> ServerProcess:
    """Start a server on the objects below `folder`. Return before it answers. Raises ServiceError without a program."""
    server = _MINIO.obtain(log)
    home = folder / "home"  # without it the server keeps files in the user's
    home.mkdir(parents=True, exist_ok=True)
    command = [str(server), "server", "--quiet", "--address", f"127.0.0.1:{port}", str(folder / "objects")]
    settings = {
        "HOME": str(home),
        "MINIO_ROOT_USER": KEYS["access_key_id"],
        "MINIO_ROOT_PASSWORD": KEYS["secret_access_key"],
        "MINIO_BROWSER": "off",
        "MINIO_UPDATE": "off",  # it would look for a newer version in the internet
    }
    return ServerProcess.start(command, log, settings)


def await_ready(port: int, process: ServerProcess, log: Path) -> None:
    """Block until a server that was started can write. Raises ServiceError with the end of its log."""
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and process.running():
        try:
            with urlopen(f"http://127.0.0.1:{port}/minio/health/cluster", timeout=5):
                return
        except OSError:  # not yet: `health/ready` answers before there is a folder to write to
            time.sleep(0.05)
    process.stop()
    raise ServiceError(f"MinIO cannot write; the end of {log}:\n{tail(log)}")


def obtainable() -> bool:
    """Return whether tests can run on MinIO: the program is in the cache, or Go can build it."""
    return not os.environ.get(WITHOUT) and _MINIO.is_obtainable()
