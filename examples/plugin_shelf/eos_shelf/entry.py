"""The spec entry `connector: shelf`. Imports neither pyarrow nor the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import field_validator

from eos.plugin import (
    Guarantee,
    LocalPath,
    PipelineContext,
    SinkEntry,
    Title,
    at_least_once,
    log_needs,
    with_each_checkpoint,
    wrong,
)

if TYPE_CHECKING:
    from eos import Sink


class ShelfEntry(SinkEntry):
    """`connector: shelf`: a box on a shelf, which is a table of a SQLite file."""

    api_version: ClassVar[int] = 1
    task_modules: ClassVar[Sequence[str]] = ("eos_shelf.store",)
    promises: ClassVar[Mapping[str, str]] = {
        "write-ahead-log": "exactly-once: a checkpoint is one transaction",
    }
    target_key: ClassVar[str] = "box"

    connector: Literal["shelf"]
    path: LocalPath
    """The SQLite file, relative to the spec's folder."""
    box: Title
    """The table that takes the rows. It must exist."""
    commit: Literal["write-ahead-log"] = "write-ahead-log"
    """Rows wait in a log. A checkpoint is applied in one transaction."""

    @field_validator("box")
    @classmethod
    def _is_not_reserved(cls, box: str) -> str:
        if box.casefold() == "eos_token":
            raise wrong(f"box '{box}' holds the tokens of the sink", "another table")
        return box

    @property
    def where(self) -> str:
        return f"{self.path}, box {self.box}"

    @property
    def target(self) -> tuple[object, ...]:
        return ("shelf", self.path.resolve(), self.box.casefold())

    @property
    def is_local_file(self) -> bool:
        return True

    def build(self, context: PipelineContext, dead_letters: Sink | None = None) -> Sink:
        from eos.plugin import LogPlace, StoreSink  # loads pyarrow
        from eos_shelf.store import SqliteStore

        return StoreSink(self.name, SqliteStore(self.path, self.box), LogPlace(context.log_at))

    def guarantee(self, context: PipelineContext) -> Guarantee:
        if context.at_least_once:
            return at_least_once(context, self.name, ())
        visible = with_each_checkpoint(context, "all of its rows at once")
        return Guarantee(self.name, self.promises[self.commit], visible, (log_needs(context),), ())
