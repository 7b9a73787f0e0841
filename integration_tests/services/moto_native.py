"""S3's protocol as a process of this machine, moto's server: started by the first test that asks for it."""

from __future__ import annotations

import sys

from integration_tests.services.processes import ServerProcess
from integration_tests.services.single import SingleServer


class ObjectStore(SingleServer):
    """See SingleServer. It keeps everything in memory."""

    kind = "objects"

    def __init__(self) -> None:
        super().__init__()
        self._log = self._state.log("moto")

    @property
    def port(self) -> int:
        """On 127.0.0.1."""
        return self._kept_port("EOS_NATIVE_OBJECTS_PORT", 15556)

    def _start(self) -> ServerProcess:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        return ServerProcess.start(command, self._log)

    def _clear(self) -> None:
        """It had them in memory."""

    def _await(self) -> None:
        self._await_port(self.port, self._log)
