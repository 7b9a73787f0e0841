"""Change events as columns, of any encoding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from connectors.api.contracts import Finding
from connectors.formats.debezium.rows import RowReader
from connectors.formats.outcome import Outcome
from connectors.formats.spans import Ints


@dataclass(frozen=True, slots=True)
class Events:
    """Events whose images have one type."""

    places: Ints  # in the batch
    ops: pa.Array  # text
    before: pa.Array  # images, or null
    after: pa.Array
    source: pa.StructArray  # of source_position.SOURCE
    reader: RowReader


@dataclass(frozen=True, slots=True)
class KeyRows:
    """Columns of rows that are known by their keys only: null where the key has no such column."""

    places: Ints  # among the keys that were given
    images: pa.Array
    reader: RowReader


class Encoding(Protocol):
    """How the values and keys of events are written. Immutable and picklable."""

    def events(self, values: pa.Array, places: Ints, outcome: Outcome) -> Iterator[Events]:
        """Yield the events of a binary column without nulls. Other values are added to `outcome`.

        May block where this process meets a schema for the first time. Raises SourceError if a registry does not
        answer.
        """

    def keys(self, keys: pa.Array, places: Ints, outcome: Outcome) -> Iterator[KeyRows]:
        """Yield the rows of a binary column of keys without nulls. `places`: of the records, for `outcome`."""

    @property
    def names_schemas(self) -> bool:
        """Whether records name schemas. See NamedSchemas."""

    def with_schemas(self, known: Mapping[str, str]) -> Encoding:
        """Return this encoding with pinned schemas. See NamedSchemas."""

    def check(self) -> Sequence[Finding]:
        """Return the findings for `eos doctor`."""
