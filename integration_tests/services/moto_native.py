"""S3's protocol as a process of this machine, moto's server: started by the first test that asks for it."""

from __future__ import annotations

import sys

from integration_tests.services.processes import ServerProcess
from integration_tests.services.single import PortServer


class ObjectStore(PortServer):
    """A PortServer that keeps everything in memory."""

    kind = "objects"
    wanted_port = 15556

    def _start(self) -> ServerProcess:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        return ServerProcess.start(command, self._log)

    def _clear(self) -> None:
        """It had them in memory."""
