"""The entries of `sinks`. A commit variant that cannot hold with a connector is refused with the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import Field

from connectors.spec.fields import NonEmpty, Title, database_url
from connectors.spec.model import Strict, later, refuse
from connectors.spec.secrets import Url
from connectors.spec.settings import LocalPath

_MYSQL_URL: Final = "mysql+pymysql://user:password@host:3306/database"
_MYSQL_DRIVERS: Final = frozenset({"mysql+pymysql", "mariadb+pymysql"})
_POSTGRES_URL: Final = "postgresql+psycopg://user:password@host:5432/database"
_POSTGRES_DRIVERS: Final = frozenset({"postgresql", "postgresql+psycopg"})
_SQLITE_TWO_PHASE: Final = "SQLite has no prepared transactions, so that 'two-phase' cannot hold; use 'write-ahead-log'"


class MySqlEntry(Strict):
    """`connector: mysql`: a table of MySQL or MariaDB."""

    name: Title
    """Stands in transaction ids: do not change it while the pipeline lives."""
    connector: Literal["mysql"]
    from_: NonEmpty | None = Field(None, alias="from")
    """The step or source whose rows are written."""
    url: Annotated[Url, database_url(_MYSQL_URL, _MYSQL_DRIVERS.__contains__)]
    """`mysql+pymysql://user:password@host:3306/database`; best as `${env:NAME}`."""
    table: Title
    """The target; exists beforehand. `database.table` for another database of the server."""
    commit: Annotated[Literal["two-phase"], later("upsert", "write-ahead-log")]
    """How rows become visible: as prepared transactions (XA), committed once the checkpoint is decided."""

    @property
    def target(self) -> tuple[object, ...]:
        """Equal for two sinks of one table, as far as the spec tells."""
        parts = urlsplit(self.url.reveal())
        database, _, table = self.table.rpartition(".")
        return (parts.hostname or "", parts.port or 3306, database or parts.path.strip("/"), table)

    def arguments(self, location: Path) -> dict[str, object]:
        """What the connector is built with. Contains the password."""
        del location  # two-phase keeps nothing beside the checkpoint
        return {"name": self.name, "url": self.url.reveal(), "table": self.table}


class PostgresEntry(Strict):
    """`connector: postgresql`: a table of PostgreSQL."""

    name: Title
    """Stands in transaction ids: do not change it while the pipeline lives."""
    connector: Literal["postgresql"]
    from_: NonEmpty | None = Field(None, alias="from")
    """The step or source whose rows are written."""
    url: Annotated[Url, database_url(_POSTGRES_URL, _POSTGRES_DRIVERS.__contains__)]
    """`postgresql+psycopg://user:password@host:5432/database`; best as `${env:NAME}`."""
    table: Title
    """The target; exists beforehand. `schema.table` for another schema of the database."""
    commit: Annotated[Literal["two-phase"], later("upsert", "write-ahead-log")]
    """How rows become visible: as prepared transactions, committed once the checkpoint is decided."""

    @property
    def target(self) -> tuple[object, ...]:
        """Equal for two sinks of one table, as far as the spec tells."""
        parts = urlsplit(self.url.reveal())
        return (parts.hostname or "", parts.port or 5432, parts.path.strip("/"), self.table)

    def arguments(self, location: Path) -> dict[str, object]:
        """What the connector is built with. Contains the password."""
        del location  # two-phase keeps nothing beside the checkpoint
        return {"name": self.name, "url": self.url.reveal(), "table": self.table}


class SqliteEntry(Strict):
    """`connector: sqlite`: a table of a SQLite file on this machine."""

    name: Title
    """Stands in transaction ids: do not change it while the pipeline lives."""
    connector: Literal["sqlite"]
    from_: NonEmpty | None = Field(None, alias="from")
    """The step or source whose rows are written."""
    path: LocalPath
    """The database's file; exists beforehand."""
    table: Title
    """The target; exists beforehand."""
    commit: Annotated[
        Literal["write-ahead-log"],
        refuse({"two-phase": _SQLITE_TWO_PHASE}),
        later("upsert"),
    ]
    """How rows become visible: they wait in a log and are applied in one transaction for each checkpoint."""

    @property
    def target(self) -> tuple[object, ...]:
        """Equal for two sinks of one table, as far as the spec tells."""
        return self.path.resolve(), self.table.casefold()

    def arguments(self, location: Path) -> dict[str, object]:
        """What the connector is built with; its log lies below the checkpoint `location`."""
        return {"name": self.name, "path": self.path, "table": self.table, "log_folder": location / "log"}


SinkEntry = Annotated[MySqlEntry | PostgresEntry | SqliteEntry, Field(discriminator="connector")]
