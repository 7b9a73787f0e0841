"""One connection to the page, of so many at most: who comes when there is no place left takes that of whoever has been
quiet for longest. So nobody keeps others out by holding connections, a probe is always heard, and whatever clients do,
the files that a driver must open are not taken by them.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST: Final = 64
AT_A_TIME: Final = 16
"""So many more are accepted before the first of them is served; the others wait in the system's queue."""


class Connection(H11Protocol):
    """Belongs to the thread of its server."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._heard_at_s = self.loop.time()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST:
            mine = [each for each in self.connections if isinstance(each, Connection)]
            quiet = min(mine, key=lambda each: each._heard_at_s)
            self.connections.discard(quiet)
            quiet.transport.abort()

    def data_received(self, data: bytes) -> None:
        self._heard_at_s = self.loop.time()
        super().data_received(data)
