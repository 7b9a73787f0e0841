"""How the rows of a segment take their places in a table, as the segment itself says: a spec may change meanwhile."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

import pyarrow as pa

GONE: Final = "__gone"
"""Column of a segment: the row's key is to be deleted. Other columns have no value, except `Merge.marked`."""

_KEY: Final = b"key"
_MERGE: Final = b"merge"
"""Entries of a segment's metadata: the key alone, or all of Merge where it has more. An older version knows only the
first one, and refuses rows with the second: the table has no column GONE."""


@dataclass(frozen=True, slots=True)
class Merge:
    """How rows are merged, by columns of the table.

    Created by: MergingRowWriter, in the metadata of its segments. Read by: the store that applies them.
    """

    key: tuple[str, ...]
    order_by: str | None = None
    """A row takes the place of one whose value here is NULL or not greater. None: of any stored row."""
    text_order: bool = False
    """The order is text, which compares byte by byte in UTF-8."""
    deleted_at: str | None = None
    """A deletion writes this column, and keeps the row. None: it deletes the row."""
    keep: bool = False
    """A row that is there stays. Invariant: then there are no deletions, and no order."""

    @property
    def marked(self) -> tuple[str, ...]:
        """The columns that a deletion writes, the key first."""
        return (*self.key, *(each for each in (self.deleted_at, self.order_by) if each is not None))

    @property
    def stores_deletions(self) -> bool:
        """Whether a deletion is put as a row is, also without a stored row: an older row may arrive later."""
        return self.order_by is not None

    @property
    def may_leave_out(self) -> bool:
        """Whether the stored row may stay in place of a row that is put."""
        return self.keep or self.order_by is not None

    def metadata(self) -> Mapping[bytes, bytes]:
        """Return the metadata of a segment with such rows."""
        if self == Merge(self.key):
            return {_KEY: json.dumps(self.key).encode()}
        return {_MERGE: json.dumps(asdict(self)).encode()}


def merge_of(schema: pa.Schema) -> Merge | None:
    """Return how the rows of a segment are merged; None: they are appended."""
    metadata = schema.metadata or {}
    if _MERGE in metadata:
        found = json.loads(metadata[_MERGE])
        return Merge(**{**found, "key": tuple(found["key"])})
    return Merge(tuple(json.loads(metadata[_KEY]))) if _KEY in metadata else None
