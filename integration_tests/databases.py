"""The databases of single tests, and what the tests' connections to them share."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any, Final

import sqlalchemy
from pymysql.connections import Connection
from sqlalchemy.exc import OperationalError

from integration_tests.services import Services

LOCK_WAIT_TIMEOUT: Final = 1205


def share_tls_context() -> None:
    """Let PyMySQL make its default TLS context once for all connections of this process, instead of for each.

    It reads all authorities that the system trusts, which takes 30 ms. Connections of the product do without them.
    """
    pymysql_connection: Any = Connection
    make = pymysql_connection._create_ssl_ctx
    default = cache(lambda: make(None, {}))

    def make_or_share(connection: object, options: Any) -> Any:
        return default() if options == {} else make(connection, options)

    pymysql_connection._create_ssl_ctx = make_or_share


def create(services: Services, name: str) -> None:
    """Create a database with the rights of a pipeline's user."""
    _execute(services.database_url, f"CREATE DATABASE `{name}`")


def drop(services: Services, name: str) -> None:
    """Drop a database.

    A branch that a failed test left prepared keeps its locks, and DROP would wait for them for ever. Whose branch it
    is cannot be seen from here, and others may use the same server: it is only reported, and the database stays.
    """
    try:
        _execute(services.admin_database_url, "SET SESSION lock_wait_timeout = 10", f"DROP DATABASE `{name}`")
    except OperationalError as error:
        number = getattr(error.orig, "args", (0,))[0]
        if number != LOCK_WAIT_TIMEOUT:
            raise
        warnings.warn(f"database {name} stays: a transaction, perhaps a prepared one, still locks it", stacklevel=2)


def _execute(url: str, *statements: str) -> None:
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in statements:
            connection.execute(sqlalchemy.text(statement))
