"""Kinds of databases: the one place where a URL finds its connector, and with it the way to open a connection.

Each kind opens its connections itself, since only it knows its TLS options. A URL of another kind is refused: nothing
could verify the server behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from sqlalchemy import URL, Engine, NullPool, QueuePool
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from connectors.api import plugins
from connectors.api.contracts import Finding
from connectors.api.database import Database
from connectors.api.login import LoginOptionsError, TokenLogin, token_login
from connectors.aws import rds_token
from connectors.sql.statements import StatementError
from eos.errors import SpecError

_KEPT_S: Final = 600


@dataclass(frozen=True, slots=True)
class Limit:
    """A number of connections that a server, a user or a database may have."""

    name: str  # as the server calls it
    of: Literal["server", "user", "database"]
    most: int
    used: int  # at this moment, without the connection that asks
    reserved: int = 0  # of `most`, for administrators


@dataclass(frozen=True, slots=True)
class DatabaseKind:
    """One kind of database, for callers that know only a URL."""

    open_engine: Callable[[str, int], Engine]
    """Return an engine that has opened no connection, and keeps so many (see `pooling`). The URL is a secret. TLS
    towards another machine is on and verified unless the URL says otherwise. Raises SpecError."""
    error_of: Callable[[BaseException | None], StatementError | None]
    """Return the meaning of the driver's error; None where a kind has none."""
    in_utc: str
    """The statement after which times are read in UTC; empty where none is needed."""
    comment_of: str
    """See statements.Connected."""
    check_head: Callable[[str, str], Sequence[Finding]]
    """Return `eos doctor`'s findings on a database that keeps head, by their name and the URL."""
    limits: Callable[[str], Sequence[Limit]]
    """Return the limits for a URL, which is a secret. Raises StatementError, SpecError."""
    port: int
    """The port of a URL without one; 0 where there is no server."""
    keeps_prepared: Callable[[str], bool]
    """Return whether a task that has prepared a transaction at this URL, which is a secret, leaves its connection to
    later ones (connectors.sql.pool). Raises StatementError, SpecError."""
    head_requirements: Callable[[str], Sequence[Finding]]
    """Return the requirements of a database that keeps head (R6). Raises StatementError."""


def place_of(host: str | None, port: int | None, database: str | None) -> str:
    """Return server and database for messages, an address of IPv6 in brackets. Without a host: the database alone."""
    place = URL.create("at", host=host, port=port, database=database)
    return place.render_as_string().removeprefix("at:///" if host is None else "at://")


def pooling(kept: int) -> dict[str, Any]:
    """Return the options of an engine whose connections are opened when they are needed, and so many of them kept.

    A kept one is asked whether it still stands before it is used again, and replaced after ten minutes: a server's name
    may point to another one by then.
    """
    if kept == 0:
        return {"poolclass": NullPool}
    return {
        "poolclass": QueuePool,
        "pool_size": kept,
        "max_overflow": -1,
        "pool_pre_ping": True,
        "pool_recycle": _KEPT_S,
    }


def kind_of(url: str) -> DatabaseKind:
    """Return the kind of a database's URL. Raises SpecError, which does not repeat the URL: it holds a password."""
    try:
        name = make_url(url).get_backend_name()
    except (ArgumentError, ValueError):
        message = "a database's url is not of the form kind+driver://user:password@host:port/database"
        raise SpecError(message, remedy="write special characters of the password as %xx") from None
    try:
        kind = plugins.load(plugins.DATABASES, name, Database).kind()
    except plugins.UnknownPluginError as error:
        message = f"a database's url begins with {name!r}: how such a server proves who it is, is not known here"
        raise SpecError(message, remedy=f"use a database of one of these kinds: {', '.join(error.known)}") from None
    assert isinstance(kind, DatabaseKind)
    return kind


def login_of(url: str) -> TokenLogin | None:
    """Return who logs in by a token; None: the URL's own password counts. Raises SpecError."""
    try:
        return token_login(url)
    except LoginOptionsError as error:
        raise SpecError(f"the url: {error.message}", remedy=f"write {error.remedy}") from None


def fresh_password(login: TokenLogin) -> str:
    """Return a token, which the server takes for the next 15 minutes. Raises AwsLoginError, SpecError."""
    return rds_token(login.identity, login.host, login.port, login.user)
