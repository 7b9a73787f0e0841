"""Another user of the machine, who speaks the protocol of Spark's ports without a secret of Spark's.

Wire format: spark-network-common's frames, and the messages of its block transfer.
"""

from __future__ import annotations

import encodings.idna  # noqa: F401  # for sockets: nobody may not read where Python's modules are
import os
import pickle
import socket
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeVar, cast

import psutil

_T = TypeVar("_T")

_NOBODY: Final = 65_534
_TIMEOUT_S: Final = 5.0
_CHUNK_REQUEST, _CHUNK, _RPC, _RPC_ANSWER = 0, 1, 3, 4
_OPEN_BLOCKS: Final = 0
_LONGEST: Final = 1 << 27


def as_nobody(act: Callable[[], _T]) -> _T:
    """Return what `act` gives in a process of the user nobody, or of this one's user where that is not root."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        result: tuple[object, BaseException | None]
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(_NOBODY)
                os.setuid(_NOBODY)
            result = (act(), None)
        except (OSError, LookupError, ValueError) as error:
            result = (None, error)
        with os.fdopen(theirs, "wb") as pipe:
            pickle.dump(result, pipe)
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        given, raised = pickle.load(pipe)
    os.waitpid(child, 0)
    if raised is not None:
        raise raised
    return cast("_T", given)


def listening(pid: int) -> list[int]:
    """Return the TCP ports on which a process listens."""
    found = psutil.Process(pid).net_connections("tcp")
    return sorted({each.laddr.port for each in found if each.status == psutil.CONN_LISTEN})


@dataclass(frozen=True, slots=True)
class Answer:
    """A frame of the server's: its type, and its content behind that."""

    kind: int
    content: bytes


class Connection:
    """One connection to a port of Spark's. Use as a context manager. Raises OSError where the server ends it."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S)

    def call(self, body: bytes) -> Answer:
        """Send an RPC."""
        return self._exchange(_RPC, struct.pack(">qi", 7, len(body)) + body)

    def chunk(self, stream: int) -> Answer:
        """Fetch the first chunk of a stream."""
        return self._exchange(_CHUNK_REQUEST, struct.pack(">qi", stream, 0))

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def _exchange(self, kind: int, content: bytes) -> Answer:
        self._socket.sendall(struct.pack(">qb", 9 + len(content), kind) + content)
        (size,) = struct.unpack(">q", self._read(8))
        if not 9 <= size < _LONGEST:
            raise ConnectionError(f"no frame of Spark's: {size} bytes")
        frame = self._read(size - 8)
        return Answer(frame[0], frame[1:])

    def _read(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self._socket.recv(size - len(parts))
            if not part:
                raise ConnectionError("the server has ended the connection")
            parts += part
        return bytes(parts)


def fetch_block(port: int, block: str) -> bytes | None:
    """Return the content of a block of a block manager, or None if the server does not give it.

    Raises OSError for a server that ends the connection, or does not answer.
    """
    connection = Connection(port)
    try:
        names = _text("app") + _text("executor") + struct.pack(">i", 1) + _text(block)
        answer = connection.call(struct.pack(">b", _OPEN_BLOCKS) + names)
        if answer.kind != _RPC_ANSWER:
            return None
        stream, chunks = struct.unpack(">qi", answer.content[-12:])
        fetched = connection.chunk(stream) if chunks == 1 else answer
        return fetched.content[12:] if fetched.kind == _CHUNK else None
    finally:
        connection.close()


def fetch_broadcasts(ports: Sequence[int], newest: int) -> bytes:
    """Return the first pieces of the broadcasts up to a number that any of these ports gives, one after the other."""
    pieces = []
    for port in ports:
        with suppress(OSError):  # no port of Spark's transport
            pieces += [fetch_block(port, f"broadcast_{number}_piece0") for number in range(newest + 1)]
    return b"".join(filter(None, pieces))


def deserialization_error(port: int) -> str:
    """Return what the server says to bytes that are no Java object, sent as a message to its RPC: empty if nothing."""
    connection = Connection(port)
    try:
        receiver = b"\x01" + _utf("127.0.0.1") + struct.pack(">i", port) + _utf("endpoint-verifier")
        return connection.call(b"\x00" + receiver + b"no object of Java's").content.decode(errors="replace")
    except OSError:
        return ""
    finally:
        connection.close()


def _text(text: str) -> bytes:
    return struct.pack(">i", len(text)) + text.encode()


def _utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()
