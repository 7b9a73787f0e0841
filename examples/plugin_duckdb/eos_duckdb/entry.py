"""The entry of `sinks` for DuckDB. Does not import DuckDB: `eos validate` loads this module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from eos.plugin import (
    Guarantee,
    LocalPath,
    LogPlace,
    PipelineContext,
    SinkEntry,
    StoreSink,
    Title,
    at_least_once,
    log_needs,
    with_each_checkpoint,
)

if TYPE_CHECKING:
    from eos import Sink

_LOG: Final = "write-ahead-log"
_PROMISE: Final = "exactly-once: rows wait in a log and are applied in one transaction with their token"


class DuckDbEntry(SinkEntry):
    """`connector: duckdb`: a table of a DuckDB file on this machine."""

    api_version: ClassVar[int] = 1
    task_modules: ClassVar[Sequence[str]] = ("eos.plugin", "eos_duckdb.store")
    promises: ClassVar[Mapping[str, str]] = {_LOG: _PROMISE}

    connector: Literal["duckdb"]
    path: LocalPath
    """The database's file. It is created if it is missing; its folder exists."""
    table: Title
    """The target, in the schema `main`."""
    create: Literal["never", "if-missing"] = "never"
    """`if-missing`: the first rows create the table, with DuckDB's types for their columns."""
    commit: Literal["write-ahead-log"] = "write-ahead-log"
    """How rows become visible: they wait in a log, and a checkpoint is applied in one transaction."""

    @property
    def where(self) -> str:
        """See Entry."""
        return f"{self.path}, table {self.table}"

    @property
    def target(self) -> tuple[object, ...]:
        """See SinkEntry."""
        return ("duckdb", self.path.resolve(), self.table.casefold())

    @property
    def is_local_file(self) -> bool:
        """See SinkEntry."""
        return True

    def build(self, context: PipelineContext, dead_letters: Sink | None = None) -> Sink:
        """See SinkEntry."""
        from eos_duckdb.store import DuckDbStore  # loads DuckDB

        store = DuckDbStore(self.path, self.table, create=self.create == "if-missing")
        return StoreSink(self.name, store, LogPlace(context.log_at))

    def guarantee(self, context: PipelineContext) -> Guarantee:
        """See SinkEntry."""
        needs = ("no other program has the file open for long: DuckDB lets one process write, others wait",)
        if context.at_least_once:
            return at_least_once(context, self.name, needs)
        visible = with_each_checkpoint(context, "all of its rows at once")
        return Guarantee(self.name, _PROMISE, visible, (*needs, log_needs(context)), ())
