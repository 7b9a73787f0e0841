"""The entries of `sinks` and `dead_letter` for PostgreSQL. Imports no driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal
from urllib.parse import urlsplit

from connectors.api.database import Database
from connectors.api.entry import SinkEntry
from connectors.api.fields import database_url
from connectors.api.masking import Url
from connectors.api.template import Template
from connectors.sql.entry import PROTOCOL_TABLES, ServerEntry, TableDeadLetter
from connectors.sql.postgres.database import FILES, PostgresDatabase

if TYPE_CHECKING:
    from connectors.api.contracts import Sink

_URL: Final = "postgresql+psycopg://user:password@host:5432/database"
_DRIVERS: Final = frozenset({"postgresql", "postgresql+psycopg"})


class PostgresEntry(ServerEntry):
    """`connector: postgresql`: a table of PostgreSQL."""

    api_version: ClassVar[int] = 1
    task_modules: ClassVar[Sequence[str]] = ("connectors.sql.postgres.sink",)
    kind_of_table: ClassVar[str] = "a logged table"
    kind: ClassVar[type[Database]] = PostgresDatabase
    file_options: ClassVar[tuple[str, ...]] = FILES
    dataset_scheme: ClassVar[str] = "postgres"

    template: ClassVar[Template | None] = Template(
        title="PostgreSQL",
        variable="DATABASE",
        example="postgresql+psycopg://user:password@localhost:5432/database",
        entry="""\
    connector: postgresql
    url: ${env:DATABASE}
    table: "<table>"
    create: if-missing  # or never: `eos doctor` shows the statement, to make the table by hand
    commit: two-phase  # prepared transactions: the server needs max_prepared_transactions above 0
""",
    )

    connector: Literal["postgresql"]
    url: Annotated[Url, database_url(_URL, _DRIVERS.__contains__)]
    """`postgresql+psycopg://user:password@host:5432/database`; best as `${env:NAME}`. With
    `?login=aws-iam&aws_region=…` a token of AWS takes the password's place."""

    @classmethod
    def dead_letter_model(cls) -> type[SinkEntry]:
        return PostgresDeadLetter

    @property
    def target(self) -> tuple[object, ...]:
        parts = urlsplit(self.url.reveal())
        schema, _, table = self.table.rpartition(".")
        return (parts.hostname or "", parts.port or self.kind.port, parts.path.strip("/"), schema or "public", table)

    def _sink(self, arguments: dict[str, Any]) -> Sink:
        from connectors.sql.postgres.sink import PostgresSink  # loads the driver

        return PostgresSink(**arguments)

    def _two_phase_needs(self) -> tuple[str, ...]:
        return (
            "max_prepared_transactions of twice the tasks that write at once (the server's default is 0), fsync=on",
            PROTOCOL_TABLES,
        )

    def _two_phase_limits(self) -> tuple[str, ...]:
        return ("prepared transactions hold back VACUUM: do not leave a pipeline down for days",)


class PostgresDeadLetter(TableDeadLetter, PostgresEntry):
    """`connector: postgresql`: a table of PostgreSQL."""
