"""A PyMySQL connection that trusts no server with the worker's files, nor with a password before it has proved itself.

Files: with LOAD DATA LOCAL the server names the file that the client is to send, in answer to any statement. PyMySQL
opens whatever it is asked for, so that a server that was taken over could read the worker's files. This connection
sends only what it was given for the statement under way, from memory, and never opens a file.

Password: the server chooses how a client logs in, and PyMySQL does whatever it is asked. A process that has taken the
port of a server that is down could ask for the password itself, or for the password encrypted for a key of its own.
Against a scramble of the password it can only guess.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

from pymysql import err
from pymysql.connections import Connection, MySQLResult
from pymysql.constants import CR

from connectors.sql import silence

_SET_OPTION: Final = 0x1B  # COM_SET_OPTION, and
_RESET_CONNECTION: Final = 0x1F  # COM_RESET_CONNECTION, which PyMySQL has no names for
_PACKET_BYTES: Final = 256 * 1024  # measured: 16 KiB costs 6-13 % of the load rate, 1 MiB gains nothing more

_CLEAR: Final = frozenset({b"mysql_clear_password", b"dialog"})
"""Plugins that send the password as it is. PAM and LDAP need one of them."""

_BROKEN: Final = b"mysql_old_password"  # its scramble gives the password away

ASKS_PASSWORD: Final[int] = CR.CR_AUTH_PLUGIN_ERR
"""The number of the error where a server asks for a login that is refused here."""


class GuardedConnection(Connection):
    """A connection whose server learns the password only where its certificate, or its RSA key, is known.

    What remains: where TLS is on and the URL asks for no verified certificate, `caching_sha2_password` and
    `sha256_password` send the password through TLS. MySQL's own clients do the same.
    """

    _sock: Any
    _pinned: bytes | None = None

    @property
    def server_public_key(self) -> bytes | None:
        """The RSA key for which a password is encrypted where there is no TLS: the URL's, and never the server's."""
        return self._pinned

    @server_public_key.setter
    def server_public_key(self, key: bytes | None) -> None:
        if self._sock is None:  # the URL's, before anything is connected
            self._pinned = key
        elif self._pinned is None:
            raise _refused("the server asks for the password, encrypted for a key that it has just sent")

    def _process_auth(self, plugin: bytes, packet: Any, handler: Any = None) -> Any:
        """As in PyMySQL, but for the plugins that give the password away. Raises OperationalError."""
        if plugin in _CLEAR and not self._is_verified:
            raise _refused(f"the server asks for the password in clear text ({plugin.decode()})")
        if plugin == _BROKEN:
            raise _refused("the server asks for the password in a form that is broken (mysql_old_password)")
        try:
            return super()._process_auth(plugin, packet, handler)  # type: ignore[misc]
        except RuntimeError as error:  # a plugin needs a package that is missing
            raise err.OperationalError(CR.CR_AUTH_PLUGIN_CANNOT_LOAD, str(error)) from None

    @property
    def _is_verified(self) -> bool:
        """Whether the server's certificate was verified."""
        return isinstance(self._sock, ssl.SSLSocket) and self._sock.context.verify_mode is ssl.CERT_REQUIRED


def _refused(text: str) -> err.OperationalError:
    return err.OperationalError(ASKS_PASSWORD, f"{text}, and has not proved who it is")


class LoadingConnection(GuardedConnection):
    """One connection of one writer. `offer` and `query` are called in turn, by one thread at a time."""

    _payload: memoryview | None = None
    _sock: Any
    _read_timeout: Any  # of the base class, as the three that follow; its stubs leave them out
    _force_close: Any
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
        """The payload, once. Raises OperationalError if the server asks for something that nobody offered."""
        payload, self._payload = self._payload, None
        if payload is None:
            message = "the server asked for a local file that this statement does not send"
            raise err.OperationalError(CR.CR_SERVER_LOST, message)
        return payload

    @contextmanager
    def patient(self, timeout_s: int) -> Iterator[None]:
        """Wait so long for each answer meanwhile. The socket notices a server that has vanished before."""
        before, self._read_timeout = self._read_timeout, timeout_s
        try:
            yield
        finally:
            self._read_timeout = before

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

    def query_each(self, statements: Sequence[str]) -> Iterator[None]:
        """Run statements without rows, sent in one piece, and yield at each that the server has done.

        The server runs nothing behind an error. Only this method may send several statements in one text.
        Raises pymysql.Error, OSError.
        """
        if len(statements) == 1:  # a proxy need not know the option
            self.query(statements[0])
            yield
            return
        self._allow_several(True)
        try:
            self.query(";".join(statements))
            yield
            while self._result is not None and self._result.has_next:
                self.next_result()
                yield
        finally:
            if self.open:
                self._allow_several(False)

    def _allow_several(self, allowed: bool) -> None:
        self._execute_command(_SET_OPTION, struct.pack("<H", not allowed))  # 0: on, 1: off
        self._read_packet()

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
