"""The format `canal`: a document has the rows of a statement, or some of them, with all values as texts.

Source: Canal's `MQMessageUtils.messageConverter`, and `LogEventConvert.parseOneRow` for the texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.api.decoding import Decoded
from connectors.formats.binlog_json.canal_values import from_text
from connectors.formats.binlog_json.documents import Documents, omit_known
from connectors.formats.binlog_json.images import CREATE, DELETE, UPDATE, Images, TableRows
from connectors.formats.binlog_json.positions import of_gtid
from connectors.formats.casting import Faults, add_faults, flags
from connectors.formats.outcome import Outcome, with_nulls
from connectors.formats.spans import Flags, Ints

_OPS: Final = {"INSERT": CREATE, "UPDATE": UPDATE, "DELETE": DELETE}
_TYPES: Final = pa.array(list(_OPS))
_TRUNCATE: Final = "TRUNCATE"
_OMITTED: Final = (
    *("CREATE", "ALTER", "ERASE", "RENAME", "CINDEX", "DINDEX", "QUERY"),
    *("GTID", "XACOMMIT", "XAROLLBACK", "MHEARTBEAT"),
)
"""Types of documents that describe no row: changes of a schema, statements without rows, and Canal's own."""

_TRUNCATED: Final = (
    "the table was truncated, and one record cannot delete all rows; leave such records out with truncate: skip"
)
_EMPTY: Final = "no rows in `data`; the server must log rows (binlog_format=ROW), not statements"
_UNEVEN: Final = "`old` has another number of rows than `data`, so the rows do not match"


@dataclass(frozen=True)
class CanalFormat:
    """One row for each row of a document of the table, in their order, and two for an update of its key.

    Omitted are documents of other tables and of a schema's change. A document of the table is bad, with all its rows:

    - without rows;
    - if a row lacks the key;
    - if a value does not fit its column, or is null where the schema has NOT NULL.
    """

    rows: TableRows
    table: tuple[str, str]  # database and name
    truncate: Literal["refuse", "skip"] = "refuse"

    @property
    def schema(self) -> pa.Schema:
        return self.rows.schema

    @cached_property
    def _documents(self) -> Documents:
        data, old = (_texts(names) for names in (self.rows.row.names, self.rows.key))
        parts = (("data", data), ("old", old), ("es", pa.int64()), ("gtid", pa.string()))
        return Documents(self.table, (("isDdl", pa.bool_()),), parts)

    def decode(self, values: pa.Array) -> Decoded:
        """Decode a batch: one parse, unless a document is bad."""
        outcome = Outcome(self.schema)
        given = flags(values.is_valid())
        outcome.omit(np.flatnonzero(~given))
        documents = values if given.all() else values.filter(pa.array(given))
        places, found = self._documents.parse(documents, np.flatnonzero(given), self._has_rows, outcome)
        counts, old_counts = (_counts(found.column(name)) for name in ("data", "old"))
        empty = counts <= 0
        outcome.reject(places[empty], _EMPTY)
        is_update = flags(pc.equal(found.column("type"), "UPDATE"))
        uneven = ~empty & is_update & (old_counts >= 0) & (old_counts != counts)
        outcome.reject(places[uneven], _UNEVEN)
        kept = ~(empty | uneven)
        if not kept.all():
            places, found = places[kept], found.filter(pa.array(kept))
        faults: Faults = {}
        self.rows.add(self._images(places, found, faults), faults, outcome)
        return outcome.decoded()

    def _has_rows(self, rows: pa.RecordBatch, places: Ints, outcome: Outcome) -> Flags:
        types = rows.column("type")
        is_ddl = flags(pc.fill_null(rows.column("isDdl"), False))
        truncates = flags(pc.equal(types, _TRUNCATE))
        if self.truncate == "skip":
            outcome.omit(places[truncates])
        else:
            outcome.reject(places[truncates], _TRUNCATED)
        outcome.omit(places[is_ddl & ~truncates])
        chosen = flags(pc.is_in(types, _TYPES)) & ~is_ddl
        others = ~(chosen | truncates | is_ddl)
        omit_known(rows.filter(pa.array(others)), places[others], _OMITTED, outcome)
        return chosen

    def _images(self, places: Ints, found: pa.RecordBatch, faults: Faults) -> Images:
        data = found.column("data")
        parents = pc.list_parent_indices(data).to_numpy(zero_copy_only=False).astype(np.int64)
        images = data.flatten()
        add_faults(faults, flags(images.is_null()), "a row of `data` is null")
        of_documents = pa.array(parents)
        old = _old_images(found, parents)
        row = self.rows.row
        return Images(
            records=places[parents],
            ops=pa.array(list(_OPS.values())).take(pc.index_in(found.column("type"), _TYPES)).take(of_documents),
            columns=[_column(images, row.field(name), faults) for name in row.names],
            old_keys=[_column(old, row.field(name), faults) for name in self.rows.key],
            positions=of_gtid(found.column("gtid")).take(of_documents),
            millis=found.column("es").take(of_documents),
        )


def _texts(names: list[str] | tuple[str, ...]) -> pa.DataType:
    return pa.list_(pa.struct([(name, pa.string()) for name in names]))


def _counts(lists: pa.Array) -> Ints:
    """Return the number of items of each list, -1 for null."""
    counts: Ints = pc.fill_null(pc.list_value_length(lists), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return counts


def _old_images(found: pa.RecordBatch, parents: Ints) -> pa.Array:
    """Return the values before an update, by image; null where the document has none."""
    old = found.column("old")
    has_old = flags(old.is_valid()) & flags(pc.equal(found.column("type"), "UPDATE"))
    updates = old.filter(pa.array(has_old))
    return with_nulls(updates.flatten(), pa.array(has_old[parents], pa.bool_()))


def _column(images: pa.Array, field: pa.Field, faults: Faults) -> pa.Array:
    column, wrong = from_text(pc.struct_field(images, [field.name]), field.type)
    if wrong.any():
        from connectors.spark_types import spark_type

        add_faults(faults, wrong, f"{field.name}: does not fit {spark_type(field.type)}")
    return column
