"""Kinds of databases, as the scheme of a URL names them. Imports no driver.

`checkpoint.head` and the shared SQL code take a URL of any kind that is installed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final
from urllib.parse import parse_qsl, urlsplit

from connectors.api import plugins
from connectors.api.tls import Protection, Query

EXAMPLE: Final = "kind+driver://user:password@host:port/database"

LEARNS_AT_ONCE: Final = 4
"""Tables that a sink of several tables opens at once, each on a connection of the driver."""


class Database:
    """Base of the kinds of databases: a class of constants, named by an entry point of `eos.databases`."""

    api_version: ClassVar[int]
    port: ClassVar[int] = 0
    """The port of a URL without one; 0 if there is no server."""
    verified_by: ClassVar[str] = ""
    """The option of a URL that makes TLS verify the server; empty if the kind has no login by a token."""

    @classmethod
    def protection(cls, host: str | None, query: Query) -> Protection:
        """Return the protection of a connection by this host and these options of the URL."""
        return Protection.LOCAL

    @classmethod
    def kind(cls) -> object:
        """Return the `connectors.sql.kind.DatabaseKind`. Imports the driver."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class DatabaseUse:
    """The connections that one part of a pipeline opens at a database server, for `eos doctor`."""

    name: str  # for people
    url: str = field(repr=False)  # a secret
    slots: int = 0  # of a sink with a log: its tasks do not connect
    learns: int = 0  # tables that a sink of several tables opens at once
    prepares: bool = False  # its tasks prepare transactions
    commits: int = 1  # connections over which the driver commits these
    is_head: bool = False


def kind_name(scheme: str) -> str:
    """Return the kind that a scheme names: `mysql` of `mysql+pymysql`."""
    return scheme.partition("+")[0]


def database_of(url: str) -> type[Database]:
    """Return the kind of a database's URL. Raises PluginError, which does not repeat the URL: it holds a password."""
    return plugins.load(plugins.DATABASES, kind_name(urlsplit(url).scheme), Database)


def is_installed(scheme: str) -> bool:
    """Return whether a database of this scheme can be used."""
    return kind_name(scheme) in plugins.installed(plugins.DATABASES)


def protection_of(url: str) -> Protection:
    """Return the protection of a connection by this URL. Raises PluginError."""
    parts = urlsplit(url)
    return database_of(url).protection(parts.hostname, dict(parse_qsl(parts.query)))
