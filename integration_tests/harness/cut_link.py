"""A link to a broker that is cut whenever a client sends one kind of request: a broker that is killed there."""

from __future__ import annotations

import struct

from integration_tests.harness.link import Link


class CutLink(Link):
    """See Link. `cuts`: how often that was. Without TLS only."""

    def __init__(self, host: str, port: int, api_key: int) -> None:
        super().__init__(host, port)
        self._api_key = api_key
        self.cuts = 0

    def passes(self, content: bytes) -> bool:
        """See Link. A client waits for each answer before it has logged in, so that a request comes by itself."""
        if len(content) >= 6 and struct.unpack(">h", content[4:6])[0] == self._api_key:
            self.cuts += 1
            return False
        return True
