"""The entries of `sinks` and `dead_letter` for MySQL and MariaDB. Imports no driver."""

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
from connectors.sql.mysql.database import FILES, MySqlDatabase

if TYPE_CHECKING:
    from connectors.api.contracts import Sink

_URL: Final = "mysql+pymysql://user:password@host:3306/database"
_DRIVERS: Final = frozenset({"mysql+pymysql", "mariadb+pymysql"})


_ENTRY: Final = """\
    connector: mysql
    url: ${env:DATABASE}
    table: "<table>"
    create: if-missing  # or never: `eos doctor` shows the statement, to make the table by hand
    commit: two-phase  # prepared transactions (XA): `eos doctor` says whether the server has them
"""


class MySqlEntry(ServerEntry):
    """`connector: mysql`: a table of MySQL or MariaDB."""

    api_version: ClassVar[int] = 1
    task_modules: ClassVar[Sequence[str]] = ("connectors.sql.mysql.sink",)
    kind_of_table: ClassVar[str] = "an InnoDB table"
    upsert_needs: ClassVar[tuple[str, ...]] = ("the privilege CREATE TEMPORARY TABLES",)
    kind: ClassVar[type[Database]] = MySqlDatabase
    file_options: ClassVar[tuple[str, ...]] = FILES
    dataset_scheme: ClassVar[str] = "mysql"

    template: ClassVar[Template | None] = Template(
        title="MySQL or MariaDB",
        variable="DATABASE",
        example="mysql+pymysql://user:password@localhost:3306/database",
        entry=_ENTRY,
        is_default=True,
    )

    connector: Literal["mysql"]
    url: Annotated[Url, database_url(_URL, _DRIVERS.__contains__)]
    """`mysql+pymysql://user:password@host:3306/database`; best as `${env:NAME}`. With `?login=aws-iam&aws_region=…` a
    token of AWS takes the password's place."""

    @classmethod
    def dead_letter_model(cls) -> type[SinkEntry]:
        return MySqlDeadLetter

    @property
    def target(self) -> tuple[object, ...]:
        parts = urlsplit(self.url.reveal())
        database, _, table = self.table.rpartition(".")
        return (parts.hostname or "", parts.port or self.kind.port, database or parts.path.strip("/"), table)

    def _sink(self, arguments: dict[str, Any]) -> Sink:
        from connectors.sql.mysql.sink import MySqlSink  # loads the driver

        return MySqlSink(**arguments)

    def _two_phase_needs(self) -> tuple[str, ...]:
        return (
            "MySQL: xa_detach_on_prepare=ON and the privilege XA_RECOVER_ADMIN",
            "durable commits: innodb_flush_log_at_trx_commit=1 and sync_binlog=1 (not MariaDB's defaults)",
            PROTOCOL_TABLES,
        )


class MySqlDeadLetter(TableDeadLetter, MySqlEntry):
    """`connector: mysql`: a table of MySQL or MariaDB."""


class MariaDbEntry(MySqlEntry):
    """`connector: mariadb`: the same as `connector: mysql`, under the name of the other server."""

    template: ClassVar[Template | None] = Template(
        title="MariaDB",
        variable="DATABASE",
        example="mariadb+pymysql://user:password@localhost:3306/database",
        entry=_ENTRY.replace("connector: mysql", "connector: mariadb"),
    )

    connector: Literal["mariadb"]  # type: ignore[assignment]  # the other name

    @classmethod
    def dead_letter_model(cls) -> type[SinkEntry]:
        return MariaDbDeadLetter


class MariaDbDeadLetter(TableDeadLetter, MariaDbEntry):
    """`connector: mariadb`: the same as `connector: mysql`, under the name of the other server."""
