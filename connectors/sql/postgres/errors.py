"""What an SQLSTATE of PostgreSQL means for the pipeline.

Source: PostgreSQL manual, appendix A, "PostgreSQL Error Codes": five characters, the first two of which are a class.
"""

from __future__ import annotations

from typing import Final

import psycopg

from connectors.aws import FIND
from connectors.dead_letters import printable
from connectors.sql.statements import StatementError
from eos.errors import (
    BadRowError,
    ConnectorError,
    PrepareError,
    RowLockedError,
    SinkError,
    SinkUnavailableError,
    TargetError,
)

_LOCK_NOT_AVAILABLE: Final = "55P03"
_UNIQUE_VIOLATION: Final = "23505"
_UNDEFINED_OBJECT: Final = "42704"  # of a prepared transaction: it does not exist (any more)
_WRONG_STATE: Final = "55000"  # another connection is just ending it; or prepared transactions are switched off
_DUPLICATE_OBJECT: Final = "42710"  # the id of a prepared transaction is in use
_UNDEFINED_TABLE: Final = "42P01"
_DENIED: Final = "42501"

_BAD_CHARACTER: Final = "22021"
_FAILED_TRANSACTION: Final = "25P02"
_REFUSED: Final = "28000"
NO_TOKEN: Final = "28EOS"
"""Our own, of no server: a token that is the password cannot be made."""

_OF_THE_CLIENT: Final = "XX000"
_FOR_GOOD: Final = ("authentication failed", "does not exist", "pg_hba.conf", "permission denied", "not permitted")
"""In the words with which a server refuses a connection whenever it is asked. Any other refusal is waited for."""

_TLS: Final = (
    "certificate",
    "does not match host name",
    "server does not support SSL",
    "private key file",
    "alert",
)
"""In the words with which libpq, or the other side, refuses the other one's TLS."""

_ASKS_PASSWORD: Final = "authentication method requirement"
"""In the words with which libpq refuses a login that the server asks for: see postgres.address."""

_GONE: Final = frozenset({"", "57P01", "57P02", "57P03", "57P05", "25P03", "25P04"})  # and class 08
_BUSY_CLASSES: Final = ("08", "53", "57", "58")
_LOCKED: Final = frozenset({"40P01", _LOCK_NOT_AVAILABLE})  # a deadlock is one, too
_BUSY: Final = frozenset({"40001", "25006", *_GONE})
_ROW_CLASSES: Final = ("22", "23", "44", "P0")  # data, constraints, a view's check option, RAISE of a trigger
_LIMITS_EXCEEDED: Final = frozenset(
    {
        "54000",  # too large for an index, or for a page
        "54001",  # JSON nested deeper than the server's stack allows; our own statements are not nested
    }
)
_TARGET_CLASSES: Final = ("0A", "28", "3D", "3F", "42")
_OUT_OF_MEMORY: Final = "53200"
_SHARED: Final = "shared memory"
_SWITCHED_OFF: Final = "prepared transactions are disabled"


class ServerError(StatementError):
    """An error of a PostgreSQL server."""

    def __init__(self, code: str, text: str, context: str = "") -> None:
        """`code`: the SQLSTATE, empty where there was no server to give one; `context`: where it happened."""
        super().__init__(code, text)
        self.code = code
        self.text = text
        self.context = context

    @property
    def disconnected(self) -> bool:
        return self.code in _GONE or self.code.startswith("08")

    @property
    def lock_wait(self) -> bool:
        return self.code == _LOCK_NOT_AVAILABLE

    @property
    def duplicate_key(self) -> bool:
        return self.code == _UNIQUE_VIOLATION

    @property
    def in_doubt(self) -> bool:
        return self.code in (_UNDEFINED_OBJECT, _WRONG_STATE)

    @property
    def rolled_back(self) -> bool:
        """See StatementError. What is prepared here stays so until somebody ends it."""
        return False

    @property
    def missing_table(self) -> bool:
        return self.code == _UNDEFINED_TABLE

    @property
    def access_denied(self) -> bool:
        return self.code == _DENIED

    @property
    def row_fault(self) -> bool:
        """Whether it speaks of a row's values."""
        return self.code.startswith(_ROW_CLASSES) or self.code in _LIMITS_EXCEEDED

    def connector_error(self, doing: str) -> ConnectorError:
        message = f"{doing}: {self.text}" + (f" (SQLSTATE {self.code})" if self.code else "")
        if self.code == _REFUSED and any(words in self.text for words in _TLS):
            return TargetError(message, remedy=_remedy_of_tls(self.text))
        if self.code == _REFUSED and _ASKS_PASSWORD in self.text:
            return TargetError(message, remedy=_REMEDY_OF_PASSWORDS)
        if self.code == NO_TOKEN:
            return TargetError(f"{doing}: {self.text}", remedy=FIND)
        if self.code.startswith("28"):
            return TargetError(message, remedy="correct user name and password in the url; see what pg_hba.conf asks")
        if self.code == _WRONG_STATE and _SWITCHED_OFF in self.text:
            return TargetError(message, remedy="set max_prepared_transactions above 0, and restart the server")
        if self.code in _LOCKED:
            return RowLockedError(message, remedy=_REMEDY_OF_LOCKS)
        if self.code == _OUT_OF_MEMORY and _SHARED in self.text:
            return SinkUnavailableError(message, remedy=_REMEDY_OF_LOCK_TABLE)
        if self.code in _BUSY or self.code.startswith(_BUSY_CLASSES):
            return SinkUnavailableError(message, remedy=_REMEDY_OF_WAITING)
        if self.row_fault:
            return BadRowError(message, remedy="correct the row in a transform, or change the column")
        if self.code in (_UNDEFINED_OBJECT, _WRONG_STATE, _DUPLICATE_OBJECT):
            return PrepareError(message, remedy="the checkpoint is aborted and run again")
        if self.code.startswith(_TARGET_CLASSES):
            return TargetError(message, remedy=_REMEDY_OF_RIGHTS)
        return SinkError(message, remedy="look the code up in the server's manual; `eos doctor` checks the rest")


def _remedy_of_tls(text: str) -> str:
    if "expired" in text:
        return "have the certificate renewed, and see that the machines' clocks are right"
    if "does not match host name" in text:
        return "name the server in the url as its certificate does, or have one made for that name"
    if "does not support SSL" in text:
        return "switch TLS on at the server: towards another machine it is wanted, unless the url gives another sslmode"
    if "verify failed" in text or "root certificate" in text:
        return "give the authority of the server's certificate as sslrootcert in the url, or have it renewed if expired"
    return "the server asks for another certificate of this client: see sslcert and sslkey"


_REMEDY_OF_LOCKS: Final = (
    "it is tried again; if that does not help, another program holds the row or its key: pg_stat_activity lists"
    " whose connections are open, pg_prepared_xacts what was prepared and never ended"
)
_REMEDY_OF_PASSWORDS: Final = (
    "see that no other process has taken the server's port; then have pg_hba.conf ask for scram-sha-256, or the server"
    " prove who it is: sslrootcert in the url (docs/how-to/security.md)"
)
_REMEDY_OF_RIGHTS: Final = (
    "grant the user the right that the server names, or correct `table`; `eos doctor` lists rights and columns"
)
_REMEDY_OF_LOCK_TABLE: Final = (
    "raise max_locks_per_transaction and restart the server: each table of a checkpoint needs several locks until its"
    " COMMIT; the pipeline then continues"
)
_REMEDY_OF_WAITING: Final = "see that the server is up and reachable; the pipeline goes on when it answers"


def server_error(error: BaseException, *, closed: bool) -> ServerError:
    """What the driver has raised on a connection. `closed`: whether that one is of no use any more."""
    if isinstance(error, psycopg.Error) and error.sqlstate:
        text = printable(error.diag.message_primary or str(error))  # it may quote a value whole
        return ServerError(error.sqlstate, text, error.diag.context or "")
    if isinstance(error, UnicodeError):
        return ServerError(_BAD_CHARACTER, str(error))
    if closed or isinstance(error, OSError):
        return ServerError("", f"the connection is closed ({type(error).__name__}: {error})")
    return ServerError(_OF_THE_CLIENT, f"{type(error).__name__}: {error}")


def not_connected(error: BaseException | None) -> ServerError:
    """Why there is no connection. libpq gives no SQLSTATE here; a refusal begins with FATAL where a server gives it."""
    text = str(error)
    if getattr(error, "sqlstate", None) == NO_TOKEN:
        return ServerError(NO_TOKEN, text)
    refused = "FATAL:" in text and any(words in text for words in _FOR_GOOD)
    refused = refused or any(words in text for words in (*_TLS, _ASKS_PASSWORD))
    return ServerError(_REFUSED if refused else "", text.strip())


def rolled_back(statement: str) -> ServerError:
    """Of a transaction that has met an error before."""
    return ServerError(_FAILED_TRANSACTION, f"the server rolled back instead of {statement.partition(' ')[0]}")


def of_driver(error: BaseException | None) -> ServerError:
    """What the driver has raised, connected or not."""
    if isinstance(error, psycopg.Error) and error.sqlstate:
        return server_error(error, closed=False)
    return not_connected(error)
