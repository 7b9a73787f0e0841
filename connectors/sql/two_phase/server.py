"""What is asked of a connection to a database that can prepare transactions, and of its errors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy import Dialect

from twophase.errors import ConnectorError
from twophase.ids import Scope, TransactionId


class StatementError(Exception):
    """A statement failed. Never leaves `connectors.sql`: at its border `translated` makes a ConnectorError of it."""

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


@dataclass(frozen=True, slots=True)
class Listed:
    """One prepared transaction, as the server lists it."""

    transaction: TransactionId | None  # None: a foreign one
    description: str  # as an administrator would name it


class Connected(Protocol):
    """One connection, with settings of ours. Every call may block, and may raise StatementError.

    Statements are format strings of the driver, with `%s` for a value and `%%` for a percent sign.
    """

    for_share: str  # the end of a SELECT that takes shared locks
    utc_now: str  # an expression: a timestamp without zone, with microseconds
    ddl: Dialect  # in which SQLAlchemy writes CREATE TABLE

    def execute(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Run one statement; returns its rows."""


class Server(Connected, Protocol):
    """The driver's connection, in autocommit."""

    def prepared(self) -> Sequence[Listed]:
        """All prepared transactions that the server tells of."""

    def commit_prepared(self, transaction: TransactionId) -> None:
        """Commit one, from whichever connection it was prepared."""

    def roll_back_prepared(self, transaction: TransactionId) -> None:
        """Roll one back. That it answers says nothing (H19): the listing and the witness do."""

    def end_stragglers(self, scope: Scope, sink: str) -> int:
        """End the connections of writers of this run that hold its permit still; returns how many. `sink`: its key."""

    def answers(self) -> bool:
        """Whether the connection still stands."""

    def close(self) -> None:
        """Disconnect; what is prepared stays prepared. Never raises."""


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raise what the block raises as StatementError as one of twophase.errors instead."""
    try:
        yield
    except StatementError as error:
        raise error.connector_error(doing) from error
