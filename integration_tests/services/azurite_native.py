"""Azure Blob Storage as a process of this machine: Azurite, by Microsoft, which verifies signatures."""

from __future__ import annotations

import base64
from typing import Final

from integration_tests.services.node_programs import NodeProgram
from integration_tests.services.processes import ServerProcess
from integration_tests.services.single import PortServer

ACCOUNT: Final = "eosaccount"
ACCOUNT_KEY: Final = base64.b64encode(b"azure-secret-77 " * 4).decode()

PROGRAM: Final = NodeProgram("azurite", "3.35.0", "dist/src/blob/main.js", node="20")


class Azurite(PortServer):
    """A PortServer that keeps everything in memory."""

    kind = "azurite"
    wanted_port = 15559

    def _start(self) -> ServerProcess:
        command = ["node", str(PROGRAM.obtain(self._log)), "--blobHost", "127.0.0.1", "--blobPort", str(self.port)]
        command += ["--inMemoryPersistence", "--silent", "--disableTelemetry"]
        return ServerProcess.start(command, self._log, {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{ACCOUNT_KEY}"})

    def _clear(self) -> None:
        """It had them in memory."""
