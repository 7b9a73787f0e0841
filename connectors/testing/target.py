"""What the author of a sink provides for the tests: a target that they may fill, and an eye on it of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Protocol

import pyarrow as pa

from connectors.api.contracts import Sink
from connectors.testing.rows import SCHEMA, Row
from wal.storage import Storage


class Target(Protocol):
    """A place for rows of SCHEMA, empty at first, which refuses none of them."""

    keyed: bool
    """Whether a sink merges rows by `n` and deletes those that are `gone`; else it keeps all, equal ones too."""

    def sink(self, name: str) -> Sink:
        """A sink that writes there, not yet opened. Asked for several times, also under several names."""

    def rows(self) -> Counter[Row]:
        """What everybody sees there now. Shares no code with the sink."""

    def leave_foreign(self) -> Callable[[], None] | None:
        """Leave something prepared on the server as another program would; returns what asserts that it is still there
        and takes it away. None: nothing of that kind exists here."""


def leave_in_log(storage: Storage) -> Callable[[], None]:
    """`Target.leave_foreign` of a sink with a log: an object of somebody's."""
    writer = storage.create("README")
    writer.write(b"somebody's")
    writer.publish()

    def take_away() -> None:
        storage.open("README").close()
        storage.delete("README")

    return take_away


def schema_for(target: Target) -> pa.Schema:
    """Of the rows that its sink is opened with."""
    return SCHEMA if target.keyed else pa.schema([field for field in SCHEMA if field.name != "gone"])
