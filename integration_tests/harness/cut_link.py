"""A TCP link to a broker that is cut whenever a client sends one kind of request: a broker that is killed there."""

from __future__ import annotations

import socket
import struct
import threading
from types import TracebackType
from typing import Final, Self

_CHUNK: Final = 65_536  # bytes


class CutLink:
    """Used as a context manager; `port` is where it listens, `cut` how often it was. Without TLS only."""

    def __init__(self, host: str, port: int, api_key: int) -> None:
        self._target = host, port
        self._api_key = api_key
        self.cut = 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]

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
            threading.Thread(target=self._carry, args=(client, server), kwargs={"watched": True}, daemon=True).start()
            threading.Thread(target=self._carry, args=(server, client), kwargs={"watched": False}, daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, *, watched: bool) -> None:
        try:
            while content := source.recv(_CHUNK):  # a client waits for each answer before it has logged in
                if watched and len(content) >= 6 and struct.unpack(">h", content[4:6])[0] == self._api_key:
                    self.cut += 1
                    return
                target.sendall(content)
        except OSError:
            pass  # one side is gone: so is the other
        finally:
            for each in (source, target):
                each.close()
