"""A TCP link to a server that can be slow, cut, or half open; honest otherwise."""

from __future__ import annotations

import math
import socket
import struct
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Literal, Self

_CHUNK: Final = 16_384  # bytes
_AT_ONCE: Final = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends RST, as a firewall or a dead host's successor does


@dataclass(eq=False, slots=True)
class _Connection:
    client: socket.socket
    server: socket.socket | None  # None: of a link that stalls, which never gets so far
    stalled: bool = False

    def close(self, *, at_once: bool = False) -> None:
        for each in (self.client, self.server):
            if each is not None:
                if at_once:
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
                with suppress(OSError):  # it is closed already
                    each.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads from it
                each.close()


class Link:
    """Used as a context manager; `port` is where it listens, on a loopback address.

    `bytes_per_s` is the rate in each direction, which all connections share; it may be changed at any time.
    """

    def __init__(self, host: str, port: int, bytes_per_s: float = math.inf, *, listens: str = "127.0.0.1") -> None:
        self.bytes_per_s = bytes_per_s
        self._target = host, port
        self._state: Literal["open", "cut", "stalled"] = "open"
        self._connections: set[_Connection] = set()
        self._disturbed: set[_Connection] = set()
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._free_at_s = {True: 0.0, False: 0.0}  # towards the server, and back
        self._server = socket.create_server((listens, 0), family=socket.AF_INET6 if ":" in listens else socket.AF_INET)
        self.port: int = self._server.getsockname()[1]

    def passes(self, content: bytes) -> bool:
        """Whether these bytes go on towards the server. False: their connection is cut instead."""
        del content
        return True

    def returns(self, content: bytes) -> bool:
        """Whether these bytes go on towards the client. False: their connection is cut instead."""
        del content
        return True

    @property
    def disturbed(self) -> int:
        """How many connections have been ended, refused, silenced or slowed since the last `restore`."""
        return len(self._disturbed)

    def cut(self) -> None:
        """End every connection at once, and each new one, until `restore`."""
        self._change("cut", end=True)

    def stall(self) -> None:
        """Carry nothing more, on the connections of now also after `restore`; neither side hears of it."""
        self._change("stalled", end=False)

    def restore(self) -> None:
        """New connections are carried again."""
        self.bytes_per_s = math.inf
        with self._lock:
            self._state = "open"
            self._disturbed = set()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        self.cut()

    def _change(self, state: Literal["cut", "stalled"], *, end: bool) -> None:
        with self._lock:
            self._state = state
            connections, self._connections = self._connections, set() if end else self._connections
            self._disturbed |= {each for each in connections if not each.stalled}
            for each in connections:
                each.stalled = True
        if end:
            for each in connections:
                each.close(at_once=True)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        connection = _Connection(client, None)
        if self._state == "open":
            try:
                connection.server = socket.create_connection(self._target)
            except OSError:  # the server is away
                connection.close(at_once=True)
                return
        with self._lock:
            connection.stalled = self._state != "open" or connection.server is None
            if self._state != "cut":
                self._connections.add(connection)
            if self._state != "open":
                self._disturbed.add(connection)
        if self._state == "cut":
            connection.close(at_once=True)
        elif connection.server is not None:
            back = threading.Thread(target=self._carry, args=(connection, connection.server, client), daemon=True)
            back.start()
            self._carry(connection, client, connection.server, asks=True)

    def _carry(
        self, connection: _Connection, source: socket.socket, target: socket.socket, *, asks: bool = False
    ) -> None:
        try:
            while (content := source.recv(_CHUNK)) and not connection.stalled:
                if self.bytes_per_s < math.inf:
                    self._disturbed.add(connection)
                    self._wait(len(content), there=asks)
                if not (self.passes(content) if asks else self.returns(content)):
                    break
                target.sendall(content)
        except OSError:
            pass  # one side is gone: so is the other
        if not connection.stalled:
            with self._lock:
                self._connections.discard(connection)
            connection.close()

    def _wait(self, size: int, *, there: bool) -> None:
        """Until it is this connection's turn, of all that carry something in the same direction."""
        with self._turn:
            now = time.monotonic()
            until_s = self._free_at_s[there] = max(self._free_at_s[there], now) + size / self.bytes_per_s
        time.sleep(max(until_s - now, 0))
