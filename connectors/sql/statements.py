"""What is asked of a connection to any database, and of its errors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

from sqlalchemy import Dialect

from eos.errors import BadRowError, ConnectorError

LET_GO_S: Final = 600
"""So long a connection may do nothing: then the server ends it, and a stopped attempt keeps its locks no longer (H17).
"""

_SAVEPOINT: Final = "eos_batch"


class StatementError(Exception):
    """A statement failed. Never leaves `connectors.sql`: there `translate_errors` raises a ConnectorError instead."""

    text: str  # the server's words

    @property
    @abstractmethod
    def disconnected(self) -> bool:
        """The connection is gone, so that the answer to what was sent last is not known."""

    @property
    @abstractmethod
    def lock_wait(self) -> bool:
        """It waited too long for somebody's lock; nothing was done."""

    @property
    @abstractmethod
    def duplicate_key(self) -> bool:
        """The row is there already."""

    @property
    @abstractmethod
    def in_doubt(self) -> bool:
        """The server does not know the prepared transaction, or not in this state: neither success nor failure (R7)."""

    @property
    @abstractmethod
    def rolled_back(self) -> bool:
        """The server ended the transaction by itself; it can only be rolled back."""

    @property
    @abstractmethod
    def missing_table(self) -> bool:
        """There is no such table."""

    @property
    @abstractmethod
    def access_denied(self) -> bool:
        """The user may not do that."""

    @abstractmethod
    def connector_error(self, doing: str) -> ConnectorError:
        """What the rest of the framework understands; `doing` names the sink and what was tried."""


class Connected(Protocol):
    """One connection, with settings of ours. Every call may block, and may raise StatementError.

    Statements are format strings of the driver, with `%s` for a value and `%%` for a percent sign.
    """

    begin: str  # a transaction
    for_share: str  # the end of a SELECT that takes shared locks; empty where a transaction locks the whole database
    for_update: str  # likewise, for exclusive ones
    utc_now: str  # an expression: a timestamp without zone, with microseconds
    ddl: Dialect  # in which SQLAlchemy writes CREATE TABLE
    comment_of: str  # SELECT of name and comment of the table that `{}` names; no row if it is missing

    def execute(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Run one statement; returns its rows."""


@contextmanager
def in_transaction(server: Connected) -> Iterator[None]:
    """BEGIN and COMMIT around the block; ROLLBACK where it raises. Raises StatementError.

    A COMMIT whose answer is lost may have landed: StatementError.disconnected, and the caller asks a witness.
    """
    server.execute(server.begin)
    try:
        yield
        server.execute("COMMIT")
    except BaseException:
        _roll_back(server)
        raise


@contextmanager
def savepoint(server: Connected) -> Iterator[None]:
    """Put a savepoint around the block, inside an open transaction. A BadRowError undoes the block, and nothing else.

    Other errors leave the savepoint: they end the transaction. After a BadRowError the savepoint is released, too.
    PostgreSQL would nest the next one in it, and each nested one holds a lock until the transaction ends.

    Raises StatementError, and what the block raises.
    """
    server.execute(f"SAVEPOINT {_SAVEPOINT}")
    try:
        yield
    except BadRowError:
        server.execute(f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}")
        server.execute(f"RELEASE SAVEPOINT {_SAVEPOINT}")
        raise
    server.execute(f"RELEASE SAVEPOINT {_SAVEPOINT}")


def _roll_back(server: Connected) -> None:
    try:
        server.execute("ROLLBACK")
    except StatementError as error:
        if not error.disconnected:  # without its connection the server rolls back by itself
            raise


@contextmanager
def translate_errors(doing: str) -> Iterator[None]:
    """Raise what the block raises as StatementError as one of eos.errors instead."""
    try:
        yield
    except StatementError as error:
        raise error.connector_error(doing) from error
