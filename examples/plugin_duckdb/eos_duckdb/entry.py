"""The entry of `sinks` for DuckDB. Imports neither DuckDB nor pyarrow: `eos validate` loads this module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from pydantic import Field, field_validator

from eos.plugin import (
    Guarantee,
    LocalPath,
    PipelineContext,
    SinkEntry,
    Title,
    at_least_once,
    log_needs,
    with_each_checkpoint,
)

if TYPE_CHECKING:
    from eos import Sink

_LOG: Final = "write-ahead-log"
_OWN: Final = frozenset({"eos_token", "eos_rows"})
_PROMISE: Final = "exactly-once: rows wait in a log and are applied in one transaction with their token"


class DuckDbEntry(SinkEntry):
    """`connector: duckdb`: a table of a DuckDB file on this machine."""

    api_version: ClassVar[int] = 1
    task_modules: ClassVar[Sequence[str]] = ("eos_duckdb.store",)
    promises: ClassVar[Mapping[str, str]] = {_LOG: _PROMISE}

    connector: Literal["duckdb"]
    path: LocalPath
    """The database's file. It is created if it is missing; its folder exists."""
    table: Title
    """The target."""
    table_schema: Title = Field("main", alias="schema")
    """The table's schema in the file. It exists."""
    create: Literal["never", "if-missing"] = "never"
    """`if-missing`: the first rows create the table, with DuckDB's types for their columns."""
    commit: Literal["write-ahead-log"] = "write-ahead-log"
    """How rows become visible: they wait in a log, and a checkpoint is applied in one transaction."""

    @field_validator("table")
    @classmethod
    def _is_not_ours(cls, table: str) -> str:
        if table.casefold() in _OWN:
            message = f"{table} is a table of this connector's own: write to another one"
            raise ValueError(message)
        return table

    @property
    def where(self) -> str:
        """See Entry."""
        schema = "" if self.table_schema == "main" else f"{self.table_schema}."
        return f"{self.path}, table {schema}{self.table}"

    @property
    def target(self) -> tuple[object, ...]:
        """See SinkEntry."""
        return ("duckdb", self.path.resolve(), self.table_schema.casefold(), self.table.casefold())

    @property
    def is_local_file(self) -> bool:
        """See SinkEntry."""
        return True

    def build(self, context: PipelineContext, dead_letters: Sink | None = None) -> Sink:
        """See SinkEntry."""
        from eos.plugin import LogPlace, StoreSink  # loads pyarrow
        from eos_duckdb.store import DuckDbStore  # loads DuckDB

        store = DuckDbStore(self.path, self.table, create=self.create == "if-missing", schema=self.table_schema)
        return StoreSink(self.name, store, LogPlace(context.log_at))

    def guarantee(self, context: PipelineContext) -> Guarantee:
        """See SinkEntry."""
        needs = ("no other program has the file open for long: DuckDB lets one process write, others wait",)
        if context.at_least_once:
            return at_least_once(context, self.name, needs)
        visible = with_each_checkpoint(context, "all of its rows at once")
        return Guarantee(self.name, _PROMISE, visible, (*needs, log_needs(context)), ())
