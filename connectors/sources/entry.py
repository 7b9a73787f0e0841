"""The base of the spec entries of small sources."""

from __future__ import annotations

from typing import Literal

from connectors.api.entry import SourceEntry
from connectors.sources.split_source import SplitSource


class SplitSourceEntry(SourceEntry):
    """Base of the entry of a source that is a `SplitSource`. A subclass declares its keys, `where` and `build`."""

    on_bad_record: Literal["fail"] = "fail"
    """A record that does not decode stops the pipeline."""

    def build(self) -> SplitSource:
        """Build the source. Opens no connection. Called at each start, on the driver."""
        raise NotImplementedError
