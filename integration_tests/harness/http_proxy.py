"""An HTTP proxy as companies have one: it forwards requests, and tunnels what is encrypted."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

_CHUNK: Final = 65_536  # bytes
_HEAD_END: Final = b"\r\n\r\n"


class HttpProxy:
    """Used as a context manager. `asked` has `host:port` of each connection that it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def _listen(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """Each connection is for one server: what a client asks of another one it asks by another connection."""
        head = b""
        with client:
            while _HEAD_END not in head:
                received = client.recv(_CHUNK)
                if not received:
                    return
                head += received
            method, target, _ = head.split(b" ", 2)
            place = target.decode() if method == b"CONNECT" else urlsplit(target.decode()).netloc
            host, _, port = place.rpartition(":")
            self.asked.append(place)
            with socket.create_connection((host, int(port))) as server:
                if method == b"CONNECT":
                    client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                else:
                    server.sendall(head)  # servers take the whole URL, too (RFC 9112, 3.2.2)
                back = threading.Thread(target=_carry, args=(server, client), daemon=True)
                back.start()
                _carry(client, server)
                back.join()

    def __enter__(self) -> Self:
        threading.Thread(target=self._listen, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def _carry(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while content := source.recv(_CHUNK):
            target.sendall(content)
        target.shutdown(socket.SHUT_WR)
