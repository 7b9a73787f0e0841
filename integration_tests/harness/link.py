"""A TCP link to a server, of which a test decides what becomes of the bytes that go towards it."""

from __future__ import annotations

import socket
import threading
from types import TracebackType
from typing import Final, Self

_CHUNK: Final = 16_384  # bytes


class Link:
    """Used as a context manager; `port` is where it listens, on the loopback address."""

    def __init__(self, host: str, port: int) -> None:
        self._target = host, port
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]

    def passes(self, content: bytes) -> bool:
        """Whether these bytes go on towards the server, and when: may block. False: their connection is cut instead."""
        del content
        return True

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:  # closed
                return
            server = socket.create_connection(self._target)
            threading.Thread(target=self._carry, args=(client, server), kwargs={"asks": True}, daemon=True).start()
            threading.Thread(target=self._carry, args=(server, client), kwargs={"asks": False}, daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, *, asks: bool) -> None:
        try:
            while content := source.recv(_CHUNK):
                if asks and not self.passes(content):
                    return
                target.sendall(content)
        except OSError:
            pass  # one side is gone: so is the other
        finally:
            for each in (source, target):
                each.close()
