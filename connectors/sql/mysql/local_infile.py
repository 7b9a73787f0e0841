"""A PyMySQL connection that sends bytes of ours where the server asks for a local file, and opens quickly.

With LOAD DATA LOCAL the server names the file that the client is to send, in answer to any statement. PyMySQL opens
whatever it is asked for, so that a server that was taken over could read the worker's files. This connection
sends only what it was given for the statement under way, from memory, and never opens a file.
"""

from __future__ import annotations

import socket
import ssl
from functools import cache
from typing import Any, Final

from pymysql import err
from pymysql.connections import MySQLResult
from pymysql.constants import CR

from connectors.sql import silence
from connectors.sql.mysql.errors import ServerError
from connectors.sql.mysql.login import GuardedConnection

_RESET_CONNECTION: Final = 0x1F  # COM_RESET_CONNECTION, which PyMySQL has no name for
_PACKET_BYTES: Final = 256 * 1024  # measured: 16 KiB costs 6-13 % of the load rate, 1 MiB gains nothing more


class LoadingConnection(GuardedConnection):
    """One connection of one writer. `offer` and `query` are called in turn, by one thread at a time."""

    _payload: memoryview | None = None
    _sock: Any
    _force_close: Any  # of the base class, as the two that follow; its stubs leave them out
    _execute_command: Any
    _read_packet: Any
    server_version: str

    def connect(self, sock: Any = None) -> None:
        """As in PyMySQL, with a socket that notices by itself that nobody is at its other end any more."""
        super().connect(sock)
        for option, value in silence.socket_options(self._sock.family):
            self._sock.setsockopt(socket.IPPROTO_TCP, option, value)

    def offer(self, payload: memoryview) -> None:
        """Keep `payload` for the next statement, which must be a LOAD DATA LOCAL."""
        self._payload = payload

    def take(self) -> memoryview:
        """The payload, once. Raises ServerError if the server asks for something that nobody offered."""
        payload, self._payload = self._payload, None
        if payload is None:
            raise ServerError(CR.CR_SERVER_LOST, "the server asked for a local file that this statement does not send")
        return payload

    def _read_query_result(self, unbuffered: bool = False) -> int:
        """As in PyMySQL, but for the class of the result."""
        if unbuffered:
            raise err.NotSupportedError("unbuffered results are not used here")
        self._result = None
        result = _LoadResult(self)
        result.read()
        self._result = result
        if result.server_status is not None:
            self.server_status = result.server_status
        return int(result.affected_rows or 0)

    def _create_ssl_ctx(self, options: Any) -> Any:
        """Without options nothing is verified (see address): then the authorities that the system trusts need not be
        loaded, which PyMySQL does for each connection. Measured: 21 of the 28 ms of a task with few rows."""
        return _unverified() if options == {} else super()._create_ssl_ctx(options)  # type: ignore[misc]

    def reset(self) -> None:
        """Have the server forget everything since the login, and what PyMySQL does after a login, which is done again.

        Raises pymysql.Error, OSError.
        """
        self._payload = None
        self._execute_command(_RESET_CONNECTION, b"")
        self._read_packet()
        self._read_in_utf8()
        if self.init_command is not None:
            self.query(self.init_command)
            self._read_in_utf8()

    def _read_in_utf8(self) -> None:
        """Have the server read what is sent as UTF-8, whatever the URL's command says: texts are escaped for it.

        In GBK the backslash before a quote can be the second byte of a character: then the text ends at the quote.
        Behind a login SQLAlchemy does the same.
        """
        self.set_character_set(self.charset, self.collation)

    def drop(self) -> None:
        """Close the socket without a word to the server."""
        self._force_close()

    @property
    def warning_count(self) -> int:
        """Warnings of the last statement, notes included."""
        return int(self._result.warning_count) if self._result is not None else 0


@cache
def _unverified() -> ssl.SSLContext:
    """Encrypts, and asks for no certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class _LoadResult(MySQLResult):
    """Answers a request for a local file from memory."""

    _read_ok_packet: Any  # of the base class; its stubs leave it out

    def _read_load_local_packet(self, first_packet: Any) -> None:
        connection: Any = self.connection
        payload: memoryview | None = None
        try:
            payload = connection.take()
            for start in range(0, len(payload), _PACKET_BYTES):
                connection.write_packet(payload[start : start + _PACKET_BYTES])
        finally:
            connection.write_packet(b"")  # an empty packet ends the file
            answer = connection._read_packet()
        self._read_ok_packet(answer)
