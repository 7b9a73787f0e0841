"""A schema registry as a process of this machine: Karapace, which speaks the API of Confluent's.

Karapace is not on PyPI. `EOS_PROVIDE_REGISTRY` names a program that builds it into a folder and runs it there:
`PROGRAM FOLDER`, and `PROGRAM FOLDER --run KAFKA PORT`, with Karapace's own variables `KARAPACE_…`.
"""

from __future__ import annotations

import json
import os
import secrets
import ssl
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.request import urlopen

from integration_tests.services.maven_jars import cache_folder
from integration_tests.services.processes import ServerProcess
from integration_tests.services.state import exclusive, free_port, tail
from integration_tests.services.values import ServiceError

PROGRAM: Final = "EOS_PROVIDE_REGISTRY"
_BUILD_S: Final = 600.0
_START_S: Final = 120.0  # on a busy machine


class SchemaRegistry:
    """A registry whose schemas are in a topic of its own. Use as a context manager: at its end it is gone."""

    def __init__(self, folder: Path, kafka: str, settings: Mapping[str, str] | None = None) -> None:
        self._program = _program()
        self._home = cache_folder() / "karapace"
        self._log = folder / "registry.log"
        self._kafka = kafka
        own = secrets.token_hex(5)
        self._first_topic = f"_schemas_{own}"
        self._settings = {
            "KARAPACE_TOPIC_NAME": self._first_topic,
            "KARAPACE_GROUP_ID": f"registry-{own}",  # among its members one is elected, which alone registers schemas
            "KARAPACE_SESSION_TIMEOUT_MS": "6000",  # so long a killed one stays elected
            "KARAPACE_WAITING_TIME_BEFORE_ACTING_AS_MASTER_MS": "100",  # it is alone
            **(settings or {}),
        }
        self.port = free_port(0)
        self._process: ServerProcess | None = None

    @property
    def url(self) -> str:
        """The address of a registry without TLS."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._home.mkdir(parents=True, exist_ok=True)
        with exclusive(self._home / "lock"), self._log.open("ab") as output:
            built = subprocess.run(
                [self._program, self._home], stdout=output, stderr=output, timeout=_BUILD_S, check=False
            )
        if built.returncode != 0:
            raise ServiceError(f"the schema registry cannot be built; the end of {self._log}:\n{tail(self._log)}")
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.stop()

    def start(self) -> None:
        """Start it on the schemas that it had; wait until it answers."""
        command = [self._program, str(self._home), "--run", self._kafka, str(self.port)]
        self._process = ServerProcess.start(command, self._log, self._settings)
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline and self._process.running():
            if self._is_elected():
                return
            time.sleep(0.1)
        self._process.stop()
        raise ServiceError(f"the schema registry did not answer; the end of {self._log}:\n{tail(self._log)}")

    def replace(self) -> None:
        """Start one without schemas at its address. It gives the same ids to other schemas."""
        self._restart_on(f"_schemas_{secrets.token_hex(5)}")

    def put_back(self) -> None:
        """Start it on the schemas that it had before `replace`."""
        self._restart_on(self._first_topic)

    def _restart_on(self, topic: str) -> None:
        self.kill()
        self._settings["KARAPACE_TOPIC_NAME"] = topic
        self.start()

    def _is_elected(self) -> bool:
        scheme = "https" if "KARAPACE_SERVER_TLS_CERTFILE" in self._settings else "http"
        unchecked = ssl._create_unverified_context()
        try:
            with urlopen(f"{scheme}://127.0.0.1:{self.port}/master_available", timeout=1, context=unchecked) as answer:
                return bool(json.load(answer)["master_available"])
        except OSError:
            return False

    def kill(self) -> None:
        """End it at once."""
        assert self._process is not None
        self._process.kill()


def _program() -> str:
    name = os.environ.get(PROGRAM)
    if not name:
        raise ServiceError(f"no program that runs a schema registry: set {PROGRAM}")
    if not os.access(name, os.X_OK):
        raise ServiceError(f"{PROGRAM}: {name} is not a program")
    return str(Path(name).resolve())
