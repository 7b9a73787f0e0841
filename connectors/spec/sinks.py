"""The entries of `sinks`. A commit variant that cannot hold with a connector is refused with the reason."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from connectors.log.keyed import Upsert
from connectors.log.place import LogPlace
from connectors.spec.fields import SLOTS, NonEmpty, Slots, Title, database_url
from connectors.spec.kafka_sink import KafkaSinkEntry
from connectors.spec.model import Strict, refuse, wrong
from connectors.spec.secrets import Url
from connectors.spec.settings import CheckpointSettings, LocalPath, MaxBacklog

_MYSQL_URL: Final = "mysql+pymysql://user:password@host:3306/database"
_MYSQL_DRIVERS: Final = frozenset({"mysql+pymysql", "mariadb+pymysql"})
_POSTGRES_URL: Final = "postgresql+psycopg://user:password@host:5432/database"
_POSTGRES_DRIVERS: Final = frozenset({"postgresql", "postgresql+psycopg"})
UPSERT: Final = "upsert"
_MOST_PREPARED: Final = 99
"""Checkpoints that may wait as prepared transactions."""

_SQLITE_TWO_PHASE: Final = "SQLite has no prepared transactions, so that 'two-phase' cannot hold; use 'write-ahead-log'"


class _KeyedEntry(Strict):
    """A table, and what merging into it takes."""

    name: Title
    """Stands in transaction ids: do not change it while the pipeline lives."""
    from_: NonEmpty | None = Field(None, alias="from")
    """The step or source whose rows are written."""
    table: Title
    """The target. `database.table` (MySQL) or `schema.table` (PostgreSQL) for one in another place."""
    create: Literal["never", "if-missing"] = "never"
    """`if-missing`: a start makes the table where there is none. It has a column for each of the rows, of a type that
    holds all values unaltered, and `key` as its primary key."""
    evolve: Literal["none", "add-columns"] = "none"
    """`add-columns`: a start adds columns of the rows that the table lacks. What is there already has NULL in them."""
    columns: Annotated[dict[NonEmpty, NonEmpty], Field(min_length=1)] = Field(default_factory=dict)
    """Columns that the table calls otherwise than the rows, as `{column of the table: column of the rows}`: read it as
    SQL's `SET id = order_id`. Any other column of the rows keeps its name; none is left out."""
    commit: str
    key: Annotated[list[NonEmpty], Field(min_length=1)] | None = None
    """With `commit: upsert`: columns, as the rows name them, on which the table has a unique index, and in which values
    are equal only if they are the same. Rows of one key come from one partition of one topic, for good; the newest one
    stays."""
    deleted: NonEmpty | None = None
    """With `commit: upsert`: a boolean column, as the rows name it, true where its key is to be deleted; NULL is
    false."""
    max_backlog: MaxBacklog | None = None
    """The next checkpoints are written while this sink still commits, until so much waits; with a log, also while the
    sink is away. The sink then catches up in order."""

    @model_validator(mode="after")
    def _each_column_once(self) -> Self:
        names = list(self.columns.values())
        if twice := [name for name in names if names.count(name) > 1]:
            found = f"'{twice[0]}' of the rows goes to {len(twice)} columns of the table"
            raise wrong(found, "each column of the rows once; select it twice in a transform", at="columns")
        return self

    @model_validator(mode="after")
    def _key_of_an_upsert(self) -> Self:
        if self.commit == UPSERT and self.key is None:
            raise wrong("without a key no row can be told from another", "key: [column, …]", at="commit")
        for name in ("key", "deleted"):
            if self.commit != UPSERT and getattr(self, name) is not None:
                raise wrong(f"'{name}' is for rows that are merged", "commit: upsert", at=name)
        return self

    def _table(self, checkpoint: CheckpointSettings, several_topics: bool | None) -> dict[str, object]:
        """What every connector is told of its table. `several_topics`: see Spec."""
        upsert = Upsert(tuple(self.key), self.deleted, several_topics) if self.key is not None else None
        return {
            "name": self.name,
            "table": self.table,
            "upsert": upsert,
            "renamed": dict(self.columns),
            "create": self.create == "if-missing",
            "evolve": self.evolve == "add-columns",
            "repeats": checkpoint.at_least_once,
        }


class ServerEntry(_KeyedEntry):
    """A table of a database server."""

    url: Annotated[Url, database_url(_MYSQL_URL)]  # each kind of server says which it takes
    commit: Literal["two-phase", "write-ahead-log", "upsert"]
    """How rows become visible. `two-phase`: they wait in the database, as prepared transactions, which are committed
    once the checkpoint is decided. `write-ahead-log`: they wait in a log (`checkpoint.log`), and are applied in one
    transaction for each slot; nothing is locked meanwhile, and no right to prepare transactions is needed.
    `upsert`: as `write-ahead-log`, and a row takes the place of the one with its key."""
    slots: Slots | None = None
    """With a log: how many connections apply a checkpoint at once; 2 without it."""

    @model_validator(mode="after")
    def _slots_of_a_log(self) -> Self:
        if self.slots is not None and self.commit == "two-phase":
            raise wrong(
                f"{self.slots} slots: only a log has them", "commit: write-ahead-log", "commit: upsert", at="slots"
            )
        return self

    @model_validator(mode="after")
    def _backlog_with_locks(self) -> Self:
        """Prepared transactions keep their locks, so that few may wait."""
        if self.max_backlog is None or self.commit != "two-phase":
            return self
        if self.max_backlog.max_bytes is not None:
            raise wrong(
                "'bytes' counts what waits in a log", "checkpoints: N", "commit: write-ahead-log", at="max_backlog"
            )
        if self.max_backlog.checkpoints > _MOST_PREPARED:
            found = (
                f"{self.max_backlog.checkpoints} checkpoints: their prepared transactions keep locks in the database"
            )
            raise wrong(found, f"at most {_MOST_PREPARED}", "commit: write-ahead-log", at="max_backlog")
        return self

    @property
    def where(self) -> str:
        """For people; the password is masked."""
        return f"{self.url}, table {self.table}"

    @property
    def database(self) -> object:
        """Equal for two sinks that one connection can write to. Contains the password."""
        return self.url.reveal()

    def servers(self, checkpoint: CheckpointSettings) -> list[str]:
        """Addresses that tasks connect to, as URLs. Contains the password."""
        del checkpoint
        return [self.url.reveal()]

    def arguments(self, checkpoint: CheckpointSettings, several_topics: bool | None) -> dict[str, object]:
        """What the connector is built with. Contains the password, and the credentials of an object store."""
        log = None if self.commit == "two-phase" else LogPlace(checkpoint.log_at, self.slots or SLOTS)
        told = {"url": self.url.reveal(), "log": log, "timeout_s": checkpoint.timeout_s}
        return {**self._table(checkpoint, several_topics), **told}


class MySqlEntry(ServerEntry):
    """`connector: mysql`: a table of MySQL or MariaDB."""

    connector: Literal["mysql"]
    url: Annotated[Url, database_url(_MYSQL_URL, _MYSQL_DRIVERS.__contains__)]
    """`mysql+pymysql://user:password@host:3306/database`; best as `${env:NAME}`. With `?login=aws-iam&aws_region=…` a
    token of AWS takes the password's place."""

    @property
    def target(self) -> tuple[object, ...]:
        """Equal for two sinks of one table, as far as the spec tells."""
        parts = urlsplit(self.url.reveal())
        database, _, table = self.table.rpartition(".")
        return (parts.hostname or "", parts.port or 3306, database or parts.path.strip("/"), table)


class PostgresEntry(ServerEntry):
    """`connector: postgresql`: a table of PostgreSQL."""

    connector: Literal["postgresql"]
    url: Annotated[Url, database_url(_POSTGRES_URL, _POSTGRES_DRIVERS.__contains__)]
    """`postgresql+psycopg://user:password@host:5432/database`; best as `${env:NAME}`. With
    `?login=aws-iam&aws_region=…` a token of AWS takes the password's place."""

    @property
    def target(self) -> tuple[object, ...]:
        """Equal for two sinks of one table, as far as the spec tells."""
        parts = urlsplit(self.url.reveal())
        schema, _, table = self.table.rpartition(".")
        return (parts.hostname or "", parts.port or 5432, parts.path.strip("/"), schema or "public", table)


class SqliteEntry(_KeyedEntry):
    """`connector: sqlite`: a table of a SQLite file on this machine."""

    connector: Literal["sqlite"]
    path: LocalPath
    """The database's file; exists beforehand."""
    commit: Annotated[
        Literal["write-ahead-log", "upsert"],
        refuse({"two-phase": _SQLITE_TWO_PHASE}),
    ]
    """How rows become visible: they wait in a log and are applied in one transaction for each checkpoint; with `upsert`
    a row takes the place of the one with its key."""

    @property
    def where(self) -> str:
        """For people."""
        return f"{self.path}, table {self.table}"

    @property
    def database(self) -> object:
        return self.path.resolve()

    def servers(self, checkpoint: CheckpointSettings) -> list[str]:
        """See MySqlEntry: a file has none."""
        del checkpoint
        return []

    @property
    def target(self) -> tuple[object, ...]:
        """Equal for two sinks of one table, as far as the spec tells."""
        return self.path.resolve(), self.table.casefold()

    def arguments(self, checkpoint: CheckpointSettings, several_topics: bool | None) -> dict[str, object]:
        """What the connector is built with. Contains the credentials of an object store."""
        return {**self._table(checkpoint, several_topics), "path": self.path, "log": LogPlace(checkpoint.log_at)}


SinkEntry = Annotated[MySqlEntry | PostgresEntry | SqliteEntry | KafkaSinkEntry, Field(discriminator="connector")]
