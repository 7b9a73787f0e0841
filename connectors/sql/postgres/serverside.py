"""Our connections as the server has them: what it does for each, asked by connections that live for one question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

import psycopg
from sqlalchemy import URL, Dialect, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError

from connectors.api.login import TokenLogin
from connectors.aws import AwsLoginError
from connectors.sql.kind import pooling
from connectors.sql.postgres.address import connect_arguments
from connectors.sql.postgres.errors import NO_TOKEN
from connectors.sql.postgres.patience import Backend, PatientConnection
from connectors.sql.token_password import fresh_password, login_of

WHO: Final = "pg_backend_pid(), pg_postmaster_start_time()"
"""What a connection selects for ServerSide: a pooler tells libpq another process id than the server's."""

DURABLE: Final = ("on", "remote_apply")
"""Values of synchronous_commit with which what is acknowledged has reached the disk."""

DURABLY: Final = (
    "set_config('synchronous_commit', CASE current_setting('synchronous_commit')"
    " WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false)"
)
"""What a connection selects to be durable, whatever its role is set to (R5 to R7)."""

_LOOK: Final = """\
SELECT pid, state, wait_event FROM (SELECT) one LEFT JOIN pg_stat_activity ON pid = %s
WHERE pg_postmaster_start_time() = %s"""
_END: Final = "SELECT pg_terminate_backend(%s) WHERE pg_postmaster_start_time() = %s"

_WORKING: Final = ("active", "fastpath function call")
_WAITING: Final = ("ClientRead", "ClientWrite")


@dataclass(frozen=True, slots=True)
class ServerSide:
    """Queries of a connection's state at PostgreSQL, on another connection."""

    url: str  # a secret
    backend: int
    server_began: datetime  # after a restart, and of another server, numbers are of other connections

    def backend_state(self) -> Backend:
        found = self._asked(_LOOK)
        if found is None:
            return Backend.UNKNOWN
        backend, state, waits_for = found
        if backend is None or str(state).startswith("idle"):
            return Backend.IDLE  # or it has ended
        if state not in _WORKING:  # the server keeps no account of it (track_activities)
            return Backend.UNKNOWN
        return Backend.WAITING if waits_for in _WAITING else Backend.WORKING

    def kill(self) -> None:
        """See Watchdog. Any role may end its own connections."""
        self._asked(_END)

    def _asked(self, question: str) -> Sequence[Any] | None:
        """The answer's first row; None where nobody answers, or another server."""
        try:
            proxy = engine_of(self.url).raw_connection()
            try:
                cursor = proxy.cursor()
                cursor.execute(question, (self.backend, self.server_began))
                row: Sequence[Any] | None = cursor.fetchone()
                return row
            finally:
                proxy.close()
        except (DBAPIError, psycopg.Error, OSError):
            return None


@lru_cache(maxsize=16)
def engine_of(url: str) -> Engine:
    """One for each URL and process, since its first connection asks the server half a dozen questions. It keeps none;
    they are patient once they know who they are."""
    parsed, arguments = connect_arguments(url)
    return _create(parsed, arguments, login_of(url), pool_reset_on_return=None, **pooling(0))


def open_engine(url: str, kept: int) -> Engine:
    """See DatabaseKind. Its connections are patient, commit to the disk, and hold no lock for more than a minute where
    their process is stopped in a transaction."""
    parsed, arguments = connect_arguments(url)
    del arguments["autocommit"]  # that is the engine's to say
    engine = _create(parsed, arguments, login_of(url), **pooling(kept))

    def known(connection: PatientConnection, record: object) -> None:
        del record
        with connection.cursor() as cursor:
            let_go = "set_config('idle_in_transaction_session_timeout', '60s', false)"
            cursor.execute(f"SELECT {WHO}, {DURABLY}, {let_go}".encode())
            ((backend, began, *_),) = cursor.fetchall()
        connection.commit()
        connection.watchdog = ServerSide(url, backend, began)

    event.listen(engine, "connect", known)
    return engine


def _create(url: URL, arguments: Mapping[str, object], login: TokenLogin | None, **options: Any) -> Engine:
    """Return an engine of connections that only this package opens."""
    engine = create_engine(url, connect_args=dict(arguments), hide_parameters=True, **options)

    def _connect(_dialect: Dialect, _record: object, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
        if login is not None:
            options = {**options, "password": _token(login)}
        return PatientConnection.connect(*arguments, **options)

    event.listen(engine, "do_connect", _connect)
    return engine


class _NoTokenError(psycopg.OperationalError):
    sqlstate = NO_TOKEN


def _token(login: TokenLogin) -> str:
    """Return the password of one connection. Raises OperationalError, as where the server does not take it."""
    try:
        return fresh_password(login)
    except AwsLoginError as error:
        raise (psycopg.OperationalError if error.is_outage else _NoTokenError)(error.message) from None
