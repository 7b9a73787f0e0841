"""Connections to MySQL and MariaDB: from a URL, with settings of our own, and outside of any pool.

SQLAlchemy parses the URL, knows the driver, and opens the connection. It does not keep it: its pool rolls a transaction
back when a connection is returned, and a prepared branch must survive that.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import TracebackType
from typing import Any, Final, Self

import pymysql
from pymysql.constants import CR
from sqlalchemy import Dialect as SqlDialect
from sqlalchemy import Engine, NullPool, create_engine, event
from sqlalchemy.dialects import mysql
from sqlalchemy.exc import DBAPIError

from connectors.api.login import TokenLogin
from connectors.aws import AwsLoginError
from connectors.sql.kind import fresh_password, login_of, pooling
from connectors.sql.mysql.address import connect_arguments
from connectors.sql.mysql.connection import LoadingConnection
from connectors.sql.mysql.dialect import Dialect
from connectors.sql.mysql.errors import NO_TOKEN, ServerError, of_driver
from connectors.sql.statements import LET_GO_S

_SESSION: Final = {
    "lock_wait_timeout": 20,  # seconds, for metadata locks; the server's default is a year (H17)
    "net_read_timeout": 60,
    "net_write_timeout": 60,
    "time_zone": "+00:00",
    # NO_AUTO_VALUE_ON_ZERO: a 0 for an AUTO_INCREMENT column is a 0. Without NO_BACKSLASH_ESCAPES on purpose.
    "sql_mode": "STRICT_ALL_TABLES,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,"
    "NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO",
    "completion_type": "NO_CHAIN",  # else a COMMIT opens a transaction, in which the next statement is not committed
    "sql_notes": 1,  # rounding a decimal is only a note; it counts as a refusal here
}

COMMENT_OF: Final = (  # one table by its whole name: MariaDB opens each table that a condition leaves in doubt
    "SELECT table_name, table_comment FROM information_schema.tables"
    " WHERE table_schema = DATABASE() AND table_name = '{}'"
)
"""See statements.Connected."""


class Session:
    """One connection with our settings. Not for several threads at once; never reconnects (H14).

    Statements are format strings of the driver: a `%` is written `%%`, as SQLAlchemy's quoting of names does.
    """

    def __init__(self, url: str, *, lock_wait_s: int = 3, let_go_s: int = LET_GO_S) -> None:
        """Connect, in autocommit; blocks for ten seconds at most. Raises ServerError.

        Args:
            url: a secret.
            lock_wait_s: how long a statement waits for a row, before it fails and is tried again by whoever may (R5).
            let_go_s: how long it may do nothing.
        """
        try:
            proxy = _engine(url).raw_connection()
        except DBAPIError as error:
            raise of_driver(error.orig) from None  # SQLAlchemy's own error would show its arguments
        except (pymysql.Error, OSError) as error:
            raise of_driver(error) from None
        connection = proxy.driver_connection
        assert isinstance(connection, LoadingConnection)
        proxy.detach()  # the pool must not see it again: it would roll back
        self.driver = connection
        self.dialect = Dialect(str(connection.server_version))
        self.begin = "START TRANSACTION"
        self.for_share = self.dialect.for_share
        self.for_update = "FOR UPDATE"
        self.utc_now = "UTC_TIMESTAMP(6)"
        self.ddl: SqlDialect = mysql.dialect()
        self.comment_of = COMMENT_OF
        self.opened_s = time.monotonic()
        own = {"innodb_lock_wait_timeout": lock_wait_s, "wait_timeout": let_go_s, "autocommit": 1}
        self._settings = {**_SESSION, **own}
        try:
            self.renew()
        except ServerError:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def execute(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Run one statement; returns its rows. Raises ServerError."""
        try:
            with self.driver.cursor() as cursor:
                cursor.execute(statement, values)
                return list(cursor.fetchall())
        except (pymysql.Error, OSError, ValueError) as error:
            raise of_driver(error) from error

    def execute_each(self, statements: Sequence[str]) -> list[ServerError | None]:
        """Run statements without values and rows, sent in one piece.

        Return the answers, None for success. They end with the first error: the server runs nothing behind it.
        """
        done = 0
        try:
            for _ in self.driver.query_each(statements):
                done += 1
        except (pymysql.Error, OSError) as error:
            return [*[None] * done, of_driver(error)][: len(statements)]
        return [None] * done

    def send(self, statement: str | bytes, payload: memoryview | None = None) -> int:
        """Run a statement that is no format string, with the file that it may ask for; returns the rows it changed."""
        if payload is not None:
            self.driver.offer(payload)
        try:
            return self.driver.query(statement)
        except (pymysql.Error, OSError) as error:
            raise of_driver(error) from error

    def warnings(self) -> Sequence[tuple[int, str]]:
        """Number and text of the last statement's warnings; those that the server did not keep come as number 0."""
        count = self.driver.warning_count
        if count == 0:
            return ()
        kept = [(int(number), str(text)) for _, number, text in self.execute("SHOW WARNINGS LIMIT 64")]
        return (
            kept if len(kept) >= min(count, 64) else [*kept, (0, f"{count} warnings, which the server does not show")]
        )

    def renew(self) -> None:
        self.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        assigned = ", ".join(f"{name} = %s" for name in self._settings)
        self.execute(f"SET SESSION {assigned}", *self._settings.values())

    def reset(self) -> None:
        """See Poolable. Never after XA PREPARE: see mysql.writer."""
        try:
            self.driver.reset()
        except (pymysql.Error, OSError) as error:
            raise of_driver(error) from error

    def answers(self) -> bool:
        """Whether the connection still stands."""
        try:
            self.driver.ping(reconnect=False)
        except (pymysql.Error, OSError):
            return False
        return True

    def close(self) -> None:
        """Disconnect. Ends an open transaction and leaves a prepared branch alone. Never raises."""
        try:
            self.driver.close()
        except (pymysql.Error, OSError):
            self.driver.drop()  # the server is gone already


def quote(name: str) -> str:
    """An identifier in backticks, for `Session.execute`."""
    return _PREPARER.quote_identifier(name)


@lru_cache(maxsize=16)
def _engine(url: str) -> Engine:
    """One engine for each URL and process: its first connection asks the server half a dozen questions."""
    # local_infile: only for statements of ours (see connection.py). A reset would roll a prepared branch back.
    return _create(url, {"local_infile": True}, pool_reset_on_return=None, **pooling(0))


def open_engine(url: str, kept: int) -> Engine:
    """Return an engine that keeps up to `kept` connections."""
    return _create(url, {}, **pooling(kept))


def _create(url: str, more: Mapping[str, object], **options: Any) -> Engine:
    """Return an engine of connections that only this package opens. Raises SpecError."""
    plain, arguments = connect_arguments(url)
    login = login_of(url)
    arguments.update(more)
    engine = create_engine(plain, connect_args=arguments, hide_parameters=True, **options)

    def _connect(_dialect: object, _record: object, positional: list[Any], named: dict[str, Any]) -> LoadingConnection:
        if login is not None:
            named = {**named, "password": _token(login)}
        return LoadingConnection(*positional, **named)

    event.listen(engine, "do_connect", _connect)
    return engine


def _token(login: TokenLogin) -> bytes:
    """Return the password of one connection. Raises OperationalError, as where the server does not take it."""
    try:
        return fresh_password(login).encode()
    except AwsLoginError as error:
        number = CR.CR_CONN_HOST_ERROR if error.is_outage else NO_TOKEN
        raise pymysql.err.OperationalError(number, error.message) from None


_PREPARER: Final = create_engine("mysql+pymysql://", poolclass=NullPool).dialect.identifier_preparer
