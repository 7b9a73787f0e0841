"""The entry of `sinks` for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from connectors.api.entry import SinkEntry
from connectors.api.fields import AtLeastOne
from connectors.api.guarantee import Guarantee, PipelineContext, log_needs, with_each_checkpoint
from connectors.api.template import Template
from connectors.log.place import LogPlace

if TYPE_CHECKING:
    from connectors.api.contracts import Sink

_LOG: Final = "write-ahead-log"
_NO_DIRECT: Final = "a task has no terminal: rows are printed by the driver, when their checkpoint is decided"


class PrintEntry(SinkEntry):
    """`connector: print`: the terminal of the driver, one line of JSON for each row."""

    api_version: ClassVar[int] = 1
    task_modules: ClassVar[Sequence[str]] = ("connectors.terminal.store",)
    promises: ClassVar[Mapping[str, str]] = {
        _LOG: "exactly-once, except that a kill while a checkpoint is printed prints it twice"
    }
    exactly_once_only: ClassVar[Mapping[str, str]] = {_LOG: _NO_DIRECT}
    target_key: ClassVar[str] = "name"

    template: ClassVar[Template | None] = Template(
        title="the terminal",
        variable="",
        example="",
        entry="""\
    connector: print
    rows: 20  # of each checkpoint; the others are only counted
""",
    )

    connector: Literal["print"]
    commit: Literal["write-ahead-log"] = "write-ahead-log"
    """Rows wait in a log, and are printed when their checkpoint is decided."""
    rows: AtLeastOne = 20
    """Rows of a checkpoint that are printed. The others are only counted, on stderr."""
    stream: Literal["stdout", "stderr"] = "stdout"
    """Where the rows are printed."""

    @property
    def where(self) -> str:
        return f"the terminal ({self.stream})"

    @property
    def target(self) -> tuple[object, ...]:
        return (self.connector, self.name)

    @property
    def rejects_after_decision(self) -> bool:
        return False

    def build(self, context: PipelineContext, dead_letters: Sink | None = None) -> Sink:
        from connectors.stores.sink import StoreSink  # loads pyarrow
        from connectors.terminal.store import TerminalStore

        store = TerminalStore(context.location / "print", self.rows, self.stream)
        return StoreSink(self.name, store, LogPlace(context.log_at))

    def guarantee(self, context: PipelineContext) -> Guarantee:
        return Guarantee(
            self.name,
            self.promises[self.commit],
            with_each_checkpoint(context, f"the first {self.rows} rows, on {self.stream}"),
            (log_needs(context),),
            ("a checkpoint whose printing is interrupted by a kill is printed once more at the next start",),
        )
