"""Connections to PostgreSQL: from a URL, with settings of our own, and outside of any pool.

SQLAlchemy parses the URL, knows the driver, and opens the connection. It does not keep it: its pool rolls back what is
open, and in autocommit, which COMMIT PREPARED needs, the statements are ours alone.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import chain
from types import TracebackType
from typing import Any, Final, Self

import psycopg
from sqlalchemy import Dialect
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError

from connectors.sql.postgres import pipeline
from connectors.sql.postgres.errors import ServerError, not_connected, rolled_back, server_error
from connectors.sql.postgres.patience import PatientConnection
from connectors.sql.postgres.serverside import DURABLY, WHO, ServerSide, engine_of
from connectors.sql.statements import LET_GO_S

_SETTINGS: Final = {
    "application_name": "eos",
    "client_encoding": "UTF8",
    "timezone": "UTC",
    "datestyle": "ISO, YMD",
    "intervalstyle": "iso_8601",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "standard_conforming_strings": "on",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "statement_timeout": "0",
}

COMMENT_OF: Final = (
    "SELECT relname, pg_catalog.obj_description(oid, 'pg_class') FROM pg_catalog.pg_class"
    " WHERE oid = pg_catalog.to_regclass('{}')"
)
"""See statements.Connected."""


class Session:
    """One connection with our settings. Not for several threads at once; never reconnects (H14).

    Statements are format strings of the driver, with `%s` for a value and `%%` for a percent sign.
    """

    def __init__(self, url: str, *, lock_wait_s: int = 3, let_go_s: int = LET_GO_S) -> None:
        """Connect, in autocommit; blocks for ten seconds at most. Raises ServerError.

        Args:
            url: a secret.
            lock_wait_s: how long a statement waits for a lock, before it fails and is tried again by whoever may (R5).
            let_go_s: how long it may do nothing in a transaction.
        """
        self.ddl: Dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
        self.comment_of = COMMENT_OF
        self.begin = "BEGIN"
        self.for_share = "FOR SHARE"
        self.for_update = "FOR UPDATE"
        self.utc_now = "(clock_timestamp() AT TIME ZONE 'UTC')"
        try:
            proxy = engine_of(url).raw_connection()
        except DBAPIError as error:
            raise not_connected(error.orig) from None  # SQLAlchemy's own error would show its arguments
        except (psycopg.Error, OSError) as error:
            raise not_connected(error) from None
        connection = proxy.driver_connection
        assert isinstance(connection, PatientConnection)
        proxy.detach()  # the pool must not see it again
        self.driver: PatientConnection = connection
        self.opened_s = time.monotonic()
        self._url = url
        own = {"lock_timeout": f"{lock_wait_s}s", "idle_in_transaction_session_timeout": f"{let_go_s}s"}
        self._settings = {**_SETTINGS, **own}
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
            with psycopg.ClientCursor(self.driver) as cursor:  # values in the statement: nothing is prepared at poolers
                cursor.execute(statement.encode(), values)
                if cursor.statusmessage == "ROLLBACK" and not statement.startswith("ROLLBACK"):
                    raise rolled_back(statement)  # the server's answer to COMMIT and PREPARE after an error
                return list(cursor.fetchall()) if cursor.description is not None else []
        except (psycopg.Error, OSError, UnicodeError) as error:
            raise server_error(error, closed=self.driver.closed) from error

    def execute_each(self, statements: Sequence[str]) -> list[ServerError | None]:
        """Run statements without values and rows, sent in one piece: each is a transaction.

        Return the answers, None for success. They end with the error that has cost the connection.
        """
        answers: list[ServerError | None] = []
        try:
            pipeline.execute_each(self.driver, statements, answers)
        except (psycopg.Error, OSError) as error:
            answers.append(server_error(error, closed=self.driver.closed))
        return answers[: len(statements)]

    def copy(self, statement: str, parts: Sequence[memoryview]) -> int:
        """Run a COPY … FROM STDIN with this data; returns the number of rows. Raises ServerError."""
        try:
            with self.driver.cursor() as cursor:
                with cursor.copy(statement.encode()) as copy:
                    for part in parts:
                        copy.write(part)
                return cursor.rowcount
        except (psycopg.Error, OSError) as error:
            raise server_error(error, closed=self.driver.closed) from error

    def renew(self) -> None:
        calls = ", ".join(["set_config(%s, %s, false)"] * len(self._settings))
        asked = f"SELECT {calls}, {DURABLY}, {WHO}"
        ((*_, backend, began),) = self.execute(asked, *chain(*self._settings.items()))
        self.driver.watchdog = ServerSide(self._url, backend, began)

    def reset(self) -> None:
        """See Poolable. The server refuses it in an open transaction."""
        self.execute("DISCARD ALL")

    def answers(self) -> bool:
        """Whether the connection still stands."""
        try:
            self.execute("SELECT 1")
        except ServerError:
            return False
        return True

    def close(self) -> None:
        """Disconnect. Ends an open transaction and leaves a prepared one alone. Never raises."""
        self.driver.close()


def quote(name: str) -> str:
    """An identifier in quotes, for a format string."""
    return '"' + name.replace('"', '""').replace("%", "%%") + '"'
