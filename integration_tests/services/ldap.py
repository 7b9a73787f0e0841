"""A directory that takes tokens of Amazon RDS for passwords: LDAP's simple bind (RFC 4511), and nothing else.

PostgreSQL asks it whether a password is right, as it asks PAM on Amazon RDS.
"""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final

_SUCCESS: Final = 0
_INVALID: Final = 49
_BIND, _BIND_RESPONSE = 0x60, 0x61


class Directory:
    """Answers in threads of this process while it is entered."""

    def __init__(self, why_refused: Callable[[str, str], str]) -> None:
        """`why_refused`: of a user's name and password; empty: they are right."""
        self._why_refused = why_refused
        self.passwords: list[str] = []
        self.refused: list[str] = []

    @property
    def port(self) -> int:
        """On 127.0.0.1."""
        return int(self._server.server_address[1])

    def __enter__(self) -> Directory:
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def bind(self, name: str, password: str) -> int:
        """Return the code of the answer. `name`: `cn=user`."""
        self.passwords.append(password)
        reason = self._why_refused(name.removeprefix("cn="), password)
        if reason:
            self.refused.append(reason)
        return _INVALID if reason else _SUCCESS


def _handler(directory: Directory) -> type[socketserver.StreamRequestHandler]:
    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while True:
                tag, message = self._element()
                if tag != 0x30:
                    return  # the client is gone
                number, rest = _split(message)
                operation, body = rest[0], _split(rest)[0]
                if operation != _BIND:
                    return  # unbind
                _, after_version = _split(body)
                name, after_name = _split(after_version)
                password, _ = _split(after_name)
                code = directory.bind(name.decode(), password.decode())
                answer = _wrapped(0x0A, bytes([code])) + _wrapped(0x04, b"") + _wrapped(0x04, b"")
                self.wfile.write(_wrapped(0x30, _wrapped(0x02, number) + _wrapped(_BIND_RESPONSE, answer)))

        def _element(self) -> tuple[int, bytes]:
            head = self.rfile.read(2)
            if len(head) < 2:
                return 0, b""
            size = head[1]
            if size & 0x80:
                size = int.from_bytes(self.rfile.read(size & 0x7F))
            return head[0], self.rfile.read(size)

    return Handler


def _split(data: bytes) -> tuple[bytes, bytes]:
    """Content of the first element of BER, and what follows it."""
    size, at = data[1], 2
    if size & 0x80:
        at += size & 0x7F
        size = int.from_bytes(data[2:at])
    return data[at : at + size], data[at + size :]


def _wrapped(tag: int, content: bytes) -> bytes:
    """An element of BER with less than 128 bytes."""
    return bytes([tag, len(content)]) + content
