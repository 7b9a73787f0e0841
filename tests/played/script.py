"""What a played server answers, and what it was asked."""

from __future__ import annotations

import re
import socketserver
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from connectors.sql import pool

_WITH_ROWS: Final = ("SELECT", "WITH", "SHOW", "DESCRIBE")
Rows = Sequence[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Changed:
    """The answer to a statement without rows."""

    rows: int = 0
    warnings: int = 0


@dataclass(frozen=True, slots=True)
class Refused:
    """An error of the server: its number, or its SQLSTATE."""

    code: int | str
    text: str = "refused"


@dataclass(frozen=True, slots=True)
class Cut:
    """No answer: the connection is closed after the statement has arrived."""


@dataclass(frozen=True, slots=True)
class Silent:
    """No answer, and the connection stays: as behind a proxy that has lost the server."""


@dataclass(frozen=True, slots=True)
class Named:
    """The answer to a COMMIT that the server takes for another statement."""

    tag: str


@dataclass(frozen=True, slots=True)
class Asks:
    """The server has been taken over: it asks for a file of the client's, whatever the statement was."""

    path: str


Answer = Rows | Changed | Refused | Cut | Silent | Named | Asks
Reply = Answer | Callable[[str], Answer]
"""An answer, or the function that gives it for a statement."""


@dataclass
class Script:
    """Answers by what a statement contains, the newest rule first. Anything else is done, with no rows."""

    asked: list[tuple[int, str]] = field(default_factory=list)  # number of the connection, statement
    files: list[bytes] = field(default_factory=list)  # rows that came beside a statement
    connections: int = 0
    options: int = 0  # that were set, for several statements in one text
    _rules: list[tuple[re.Pattern[str], list[Reply]]] = field(default_factory=list)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def on(self, pattern: str, *replies: Reply) -> None:
        """Give these replies, one after another, to statements that contain the pattern; the last one stays."""
        self._rules.insert(0, (re.compile(pattern, re.IGNORECASE | re.DOTALL), list(replies)))

    def statements(self, pattern: str = "") -> list[str]:
        """Return the statements that contain the pattern, in their order."""
        return [said for _, said in self.asked if re.search(pattern, said, re.IGNORECASE | re.DOTALL)]

    def order(self, *patterns: str) -> list[str]:
        """Return which of the patterns the statements contain, in the order of the statements."""
        found = ((each for each in patterns if re.search(each, said, re.IGNORECASE)) for _, said in self.asked)
        return [pattern for each in found for pattern in each]

    def forget(self) -> None:
        """Begin with nothing asked."""
        with self._lock:
            self.asked.clear()
            self.connections = 0

    def connected(self) -> int:
        """Return the number of a connection that begins."""
        with self._lock:
            self.connections += 1
            return self.connections

    def answer(self, connection: int, statement: str) -> Answer:
        """Note the statement, and return the answer to it."""
        with self._lock:
            self.asked.append((connection, statement))
            for pattern, replies in self._rules:
                if pattern.search(statement):
                    reply = replies.pop(0) if len(replies) > 1 else replies[0]
                    return reply(statement) if callable(reply) else reply
        return [] if statement.lstrip().upper().startswith(_WITH_ROWS) else Changed()


class Conversation(socketserver.StreamRequestHandler):
    """One connection, in a thread of its own."""

    server: PlayedServer
    disable_nagle_algorithm = True

    def handle(self) -> None:
        """Speak until the client goes, or is cut off."""
        try:
            self.speak(self.server.script, self.server.script.connected())
        except (ConnectionError, EOFError):
            return

    @abstractmethod
    def speak(self, script: Script, number: int) -> None:
        """Answer statements. Raises ConnectionError, EOFError where the client is gone."""

    def left_alone(self) -> None:
        """Return when the client has gone."""
        while self.rfile.read(1):
            pass

    def exactly(self, size: int) -> bytes:
        """Read so many bytes. Raises EOFError."""
        found = self.rfile.read(size)
        if len(found) < size:
            raise EOFError
        return found


class PlayedServer(socketserver.ThreadingTCPServer):
    """Listens on the loopback."""

    daemon_threads = True
    block_on_close = False  # a client may keep its connection
    allow_reuse_address = True

    def __init__(self, speaker: type[Conversation], script: Script) -> None:
        super().__init__(("127.0.0.1", 0), speaker)
        self.script = script

    @property
    def port(self) -> int:
        """The port."""
        return int(self.server_address[1])


def close_idle() -> None:
    """Close the connections that tasks have left to later ones: another played server may get this one's port."""
    for each in list(pool._pool.idle):
        pool.forget(each.login)


@contextmanager
def listening(speaker: type[Conversation], script: Script) -> Iterator[PlayedServer]:
    """Run a server for a block."""
    with PlayedServer(speaker, script) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            close_idle()
            server.shutdown()
            thread.join()
