"""Formats without a schema in the spec, whose records name their schema in a registry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Self, TypeVar

import pyarrow as pa

from connectors.api.contracts import Finding
from connectors.api.decoding import Decoded, DecodedTables
from connectors.formats.registered import PinnedRegistry
from connectors.formats.tables import TablesOutcome, common_rows

_Writers = TypeVar("_Writers", bound=PinnedRegistry)


@dataclass(frozen=True, slots=True)
class RegisteredTables(ABC, Generic[_Writers]):
    """See SelfDescribingFormat. Records without a value are bad: they name no schema.

    The key of each table is empty: a record's key need not be a part of the row.
    """

    writers: _Writers

    @abstractmethod
    def _add_tables(self, values: pa.Array, outcome: TablesOutcome) -> None:
        """Decode a column without nulls into `outcome`."""

    @property
    def schema(self) -> pa.Schema:
        """No column: records of several schemas need not have one in common."""
        return pa.schema([])

    @property
    def names_schemas(self) -> bool:
        """Always. See NamedSchemas."""
        return True

    def with_schemas(self, known: Mapping[str, str]) -> Self:
        """Return this format with pinned schemas. See NamedSchemas."""
        return replace(self, writers=replace(self.writers, pinned=known))

    def check(self) -> Sequence[Finding]:
        """Return the findings for `eos doctor`: whether the registry answers."""
        return self.writers.check()

    def decode(self, values: pa.Array) -> Decoded:
        """Decode rows without columns: which records are rows."""
        return common_rows(self.decode_tables(pa.nulls(len(values), pa.binary()), values), self.schema)

    def decode_tables(self, keys: pa.Array, values: pa.Array) -> DecodedTables:
        """Decode a batch, all records of one schema at once. See SelfDescribingFormat."""
        outcome = TablesOutcome(values)
        outcome.reject_tombstones("a record without a value names no schema, and belongs to no table")
        self._add_tables(values if outcome.given.all() else values.filter(pa.array(outcome.given)), outcome)
        return outcome.decoded()
