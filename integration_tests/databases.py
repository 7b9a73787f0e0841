"""Creating and dropping the databases of single tests, also after a test that left something prepared."""

from __future__ import annotations

import warnings
from typing import Final

import sqlalchemy
from sqlalchemy.exc import OperationalError

from integration_tests.services import Services

LOCK_WAIT_TIMEOUT: Final = 1205


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
