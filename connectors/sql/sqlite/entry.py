"""The entries of `sinks` and `dead_letter` for SQLite. Imports no driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

from connectors.api.database import Database
from connectors.api.entry import SinkEntry
from connectors.api.fields import LocalPath
from connectors.api.guarantee import PipelineContext
from connectors.api.model import refuse
from connectors.api.template import Template
from connectors.log.place import LogPlace
from connectors.sql.entry import LOG, LOG_PROMISE, UPSERT, UPSERT_PROMISE, TableDeadLetter, TableEntry

if TYPE_CHECKING:
    from connectors.api.contracts import Sink
    from connectors.dead_letters import DeadLetter

_NO_TWO_PHASE: Final = "SQLite has no prepared transactions, so that 'two-phase' cannot hold; use 'write-ahead-log'"


class SqliteDatabase(Database):
    """SQLite, for `checkpoint.head`."""

    api_version: ClassVar[int] = 1

    @classmethod
    def kind(cls) -> object:
        from connectors.sql.sqlite.kind import KIND  # loads the driver

        return KIND


class SqliteEntry(TableEntry):
    """`connector: sqlite`: a table of a SQLite file on this machine."""

    api_version: ClassVar[int] = 1
    task_modules: ClassVar[Sequence[str]] = ("connectors.sql.sqlite.sink",)
    promises: ClassVar[Mapping[str, str]] = {LOG: LOG_PROMISE, UPSERT: UPSERT_PROMISE}
    log_visible: ClassVar[str] = "all of its rows at once"
    log_limits: ClassVar[tuple[str, ...]] = ("one writer at a time holds the database file; others wait",)

    template: ClassVar[Template | None] = Template(
        title="SQLite",
        variable="DATABASE",
        example="/path/of/database.db",
        entry="""\
    connector: sqlite
    path: ${env:DATABASE}
    table: "<table>"
    create: if-missing  # or never: `eos doctor` shows the statement, to make the table by hand
    commit: write-ahead-log  # rows wait in a log and are applied in one transaction for each checkpoint
""",
    )

    connector: Literal["sqlite"]
    path: LocalPath
    """The database's file. With `create: if-missing` a start creates a missing file; its folder exists."""
    commit: Annotated[
        Literal["write-ahead-log", "upsert"],
        refuse({"two-phase": _NO_TWO_PHASE}),
    ]
    """How rows become visible: they wait in a log and are applied in one transaction for each checkpoint; with `upsert`
    a row takes the place of the one with its key."""

    @classmethod
    def dead_letter_model(cls) -> type[SinkEntry]:
        return SqliteDeadLetter

    @property
    def where(self) -> str:
        return f"{self.path}, table {self.table}"

    @property
    def datasets(self) -> Sequence[tuple[str, str]]:
        return ((f"sqlite://{self.path.resolve()}", self.table),)

    @property
    def database(self) -> object:
        return self.path.resolve()

    @property
    def target(self) -> tuple[object, ...]:
        return self.path.resolve(), self.table.casefold()

    @property
    def is_local_file(self) -> bool:
        return True

    def arguments(self, context: PipelineContext) -> dict[str, Any]:
        arguments = super().arguments(context)
        del arguments["widen"]  # the widest types are SQLite's only ones: an INTEGER has 64 bits, a REAL is a double
        return {**arguments, "path": self.path, "log": LogPlace(context.log_at)}

    def _sink(self, arguments: dict[str, Any]) -> Sink:
        from connectors.sql.sqlite.sink import SqliteSink  # loads SQLAlchemy

        return SqliteSink(**arguments)

    def read_dead_letters(self) -> list[DeadLetter]:
        from connectors.sql.dead_letters import read_dead_letters  # loads SQLAlchemy

        return list(read_dead_letters(self.path, self.table, self.columns))

    def newest_dead_letters(self, most: int, reached: int) -> list[DeadLetter]:
        from connectors.sql.dead_letters import read_dead_letters  # loads SQLAlchemy

        return read_dead_letters(self.path, self.table, self.columns, most, reached)


class SqliteDeadLetter(TableDeadLetter, SqliteEntry):
    """`connector: sqlite`: a table of a SQLite file on this machine."""
