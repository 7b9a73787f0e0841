"""Change events that bring the schema of their table, of any encoding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from connectors.api.contracts import Finding
from connectors.formats.debezium.event_table import EventTable
from connectors.formats.debezium.events import Encoding
from connectors.formats.spans import Ints
from connectors.formats.tables import TablesOutcome


@dataclass(frozen=True, slots=True)
class TableEvents:
    """Records with one schema of their values, and one of their keys."""

    table: EventTable
    key: tuple[str, ...]  # columns; empty if the keys do not have a schema
    encoding: Encoding
    places: Ints  # in the batch, ascending


class TableEncoding(Protocol):
    """How events and their schemas are written. Immutable and picklable."""

    def tables(self, keys: pa.Array, values: pa.Array, outcome: TablesOutcome) -> Iterator[TableEvents]:
        """Yield groups of records. The other records are added to `outcome`. `values`: without nulls.

        May block where this process meets a schema for the first time. Raises SourceError if a registry does not
        answer.
        """

    @property
    def names_schemas(self) -> bool:
        """Whether records name schemas. See NamedSchemas."""

    def with_schemas(self, known: Mapping[str, str]) -> TableEncoding:
        """Return this encoding with pinned schemas. See NamedSchemas."""

    def check(self) -> Sequence[Finding]:
        """Return the findings for `eos doctor`."""
