"""One server of a kind, as a process of this machine that later processes know again."""

from __future__ import annotations

import os
import socket
import time
from abc import ABC, abstractmethod
from typing import ClassVar, Final

from integration_tests.services.processes import ServerProcess
from integration_tests.services.state import State, free_port, tail
from integration_tests.services.values import ServiceError

_START_S: Final = 60.0


class SingleServer(ABC):
    """Started by the first test that asks for it; stopped, with its data, by `services down`."""

    kind: ClassVar[str]

    def __init__(self) -> None:
        self._state = State(self.kind)

    @abstractmethod
    def _start(self) -> ServerProcess:
        """Start it on no data."""

    @abstractmethod
    def _await(self) -> None:
        """Wait until it answers. Raises ServiceError if it does not."""

    @abstractmethod
    def _clear(self) -> None:
        """Drop its data, if there is any."""

    def up(self) -> None:
        """Start it where it does not run; wait until it answers."""
        with self._state.locked():
            if not self.running():
                self._state.forget()  # somebody else may listen on its ports by now
                self._clear()
                process = self._start()
                self._state.save({**self._state.load(), "process": process.to_json()})
            self._await()

    def running(self) -> bool:
        """Whether the process lives."""
        document = self._state.load().get("process")
        return document is not None and ServerProcess.from_json(document).running()

    def down(self) -> bool:
        """Stop it and drop its data; tell whether there was anything to stop."""
        with self._state.locked():
            known = self._state.load().get("process")
            if known is not None:
                ServerProcess.from_json(known).stop()
                self._clear()
            self._state.forget()
        return known is not None


class PortServer(SingleServer):
    """A server with one port, on 127.0.0.1."""

    wanted_port: ClassVar[int]

    def __init__(self) -> None:
        super().__init__()
        self._log = self._state.log(self.kind)

    @property
    def port(self) -> int:
        """The port of `EOS_NATIVE_<kind>_PORT`, else the wanted one; a free one where it is in use."""
        state = self._state.load()
        if "port" not in state:
            variable = f"EOS_NATIVE_{self.kind.upper()}_PORT"
            state["port"] = free_port(int(os.environ.get(variable, self.wanted_port)))
            self._state.save(state)
        port: int = state["port"]
        return port

    def _await(self) -> None:
        """Wait until it takes connections. Raises ServiceError with the end of its log."""
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline and self.running():
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                    return
            except OSError:
                time.sleep(0.05)
        raise ServiceError(f"{self.kind}: the server did not answer; the end of {self._log}:\n{tail(self._log)}")
