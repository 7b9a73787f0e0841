"""The spec entry `connector: files`. Imports neither obstore nor pyarrow: `eos validate` loads this module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from eos.plugin import SplitSourceEntry

if TYPE_CHECKING:
    from eos_files_source.source import FilesSource


class FilesEntry(SplitSourceEntry):
    """`connector: files`: JSON Lines and Parquet files, in the order of their names."""

    api_version: ClassVar[int] = 1
    task_modules: ClassVar[Sequence[str]] = ("eos_files_source.source",)

    connector: Literal["files"]
    url: str = Field(min_length=1)
    """A folder (`/data/clicks`), or a place in an object store (`s3://bucket/clicks`)."""
    options: dict[str, str] = Field(default_factory=dict, repr=False)
    """Settings of the object store, as obstore names them (`region`, `access_key_id`, `endpoint`, …)."""
    symlinks: Literal["inside", "refuse", "follow"] = "inside"
    """Symbolic links in a folder. `inside`: only to files below the folder. `refuse`: none. `follow`: to any file."""
    ddl: str = Field(alias="schema", min_length=1)
    """Columns and types as Spark SQL writes them: `id BIGINT NOT NULL, name STRING, at TIMESTAMP`."""

    @property
    def where(self) -> str:
        """See Entry."""
        return self.url

    @property
    def columns(self) -> Sequence[str]:
        """See SourceEntry."""
        return [str(name) for name in self.build().schema.names]

    @property
    def description(self) -> Mapping[str, str]:
        """See Entry."""
        return {"connector": self.connector, "url": self.url, "schema": self.ddl}

    def build(self) -> FilesSource:
        """See SourceEntry."""
        from eos.plugin import parse_ddl  # loads pyarrow
        from eos_files_source.source import FilesSource

        return FilesSource(self.url, parse_ddl(self.ddl), tuple(sorted(self.options.items())), self.symlinks)
