"""Headers of records: bytes in front of a record that name the schema which it was written with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from connectors.formats.spans import Flags, content_of


@dataclass(frozen=True, slots=True)
class Header:
    """The bytes in front of a record that name the writer's schema: a marker, and behind it the key of the schema."""

    name: str  # for messages
    marker: bytes
    key_type: str  # numpy's type of the key, with its byte order
    schema_name: str  # for messages; formats the key

    @property
    def size(self) -> int:
        """Bytes of marker and key."""
        return len(self.marker) + np.dtype(self.key_type).itemsize

    @property
    def missing(self) -> str:
        """The reason why a record without this header is bad."""
        return f"not in {self.name}: another first byte, or too short"

    def keys(self, values: pa.Array) -> tuple[NDArray[np.uint64], Flags]:
        """Return the key of each value of a binary column without nulls, and whether the value has the header."""
        data, start, end = content_of(values)
        heads = data[start[:, None] + np.arange(self.size)]
        marked = (heads[:, : len(self.marker)] == np.frombuffer(self.marker, np.uint8)).all(axis=1)
        keys = np.ascontiguousarray(heads[:, len(self.marker) :]).view(self.key_type).reshape(-1)
        return keys.astype(np.uint64), marked & (end - start >= self.size)


CONFLUENT: Final = Header("Confluent's wire format", b"\0", ">u4", "schema {}")
"""The key is the id of the schema in a registry. Source: Confluent Schema Registry, "Wire format"."""


def ids_in(values: Sequence[bytes]) -> list[int] | None:
    """Return the ids in front of these values, ascending; None if a value is not in Confluent's wire format."""
    keys, marked = CONFLUENT.keys(pa.array(values, pa.binary()))
    found: list[int] = np.unique(keys).tolist()
    return found if marked.all() else None
