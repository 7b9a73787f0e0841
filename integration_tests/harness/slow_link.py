"""A TCP link to a server that carries so many bytes a second towards it: a sink that is slow, and honest otherwise."""

from __future__ import annotations

import socket
import threading
import time
from types import TracebackType
from typing import Final, Self

_CHUNK: Final = 16_384  # bytes


class SlowLink:
    """Used as a context manager; `port` is where it listens. All connections share the rate, which may be changed."""

    def __init__(self, host: str, port: int, bytes_per_s: float) -> None:
        self.bytes_per_s = bytes_per_s
        self._target = host, port
        self._turn = threading.Lock()
        self._free_at_s = 0.0
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
            threading.Thread(target=self._carry, args=(client, server), kwargs={"slow": True}, daemon=True).start()
            threading.Thread(target=self._carry, args=(server, client), kwargs={"slow": False}, daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, *, slow: bool) -> None:
        try:
            while content := source.recv(_CHUNK):
                if slow:
                    self._wait(len(content))
                target.sendall(content)
        except OSError:
            pass  # one side is gone: so is the other
        finally:
            for each in (source, target):
                each.close()

    def _wait(self, size: int) -> None:
        with self._turn:
            now = time.monotonic()
            self._free_at_s = max(self._free_at_s, now) + size / self.bytes_per_s
            until_s = self._free_at_s
        time.sleep(max(until_s - now, 0))
