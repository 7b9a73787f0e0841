"""S3's protocol as a process of this machine, moto's server: started by the first test that asks for it."""

from __future__ import annotations

import os
import socket
import sys
import time
from typing import Final

from integration_tests.services.processes import ServerProcess
from integration_tests.services.state import State, free_port, tail
from integration_tests.services.values import ServiceError

_START_S: Final = 60.0


class ObjectStore:
    """Starts and stops the server, which keeps everything in memory. Also used by `services down`."""

    kind = "objects"

    def __init__(self) -> None:
        self._state = State(self.kind)
        self._log = self._state.log("moto")

    @property
    def port(self) -> int:
        """On 127.0.0.1."""
        state = self._state.load()
        if "port" not in state:
            state["port"] = free_port(int(os.environ.get("EOS_NATIVE_OBJECTS_PORT", "15556")))
            self._state.save(state)
        port: int = state["port"]
        return port

    def up(self) -> None:
        """Start it where it does not run; wait until it answers."""
        with self._state.locked():
            if not self.running():
                self._state.forget()  # somebody else may listen there by now
                command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
                process = ServerProcess.start(command, self._log)
                self._state.save({**self._state.load(), "process": process.to_json()})
            self._await()

    def running(self) -> bool:
        """Whether the process lives."""
        document = self._state.load().get("process")
        return document is not None and ServerProcess.from_json(document).running()

    def down(self) -> bool:
        """Stop it; tell whether there was anything to stop."""
        with self._state.locked():
            known = self._state.load().get("process")
            if known is not None:
                ServerProcess.from_json(known).stop()
            self._state.forget()
        return known is not None

    def _await(self) -> None:
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline and self.running():
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                    return
            except OSError:
                time.sleep(0.05)
        raise ServiceError(f"moto's server did not answer; the end of {self._log}:\n{tail(self._log)}")
