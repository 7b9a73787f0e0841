"""A link that carries so many bytes a second towards its server: a sink that is slow, and honest otherwise."""

from __future__ import annotations

import threading
import time

from integration_tests.harness.link import Link


class SlowLink(Link):
    """See Link. All connections share the rate, which may be changed."""

    def __init__(self, host: str, port: int, bytes_per_s: float) -> None:
        super().__init__(host, port)
        self.bytes_per_s = bytes_per_s
        self._turn = threading.Lock()
        self._free_at_s = 0.0

    def passes(self, content: bytes) -> bool:
        """See Link."""
        with self._turn:
            now = time.monotonic()
            self._free_at_s = max(self._free_at_s, now) + len(content) / self.bytes_per_s
            until_s = self._free_at_s
        time.sleep(max(until_s - now, 0))
        return True
