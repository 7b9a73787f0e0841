"""The format `maxwell`: one document for each changed row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.api.decoding import Decoded
from connectors.formats.binlog_json.documents import Documents, omit_known
from connectors.formats.binlog_json.images import CREATE, DELETE, READ, UPDATE, Images, TableRows
from connectors.formats.binlog_json.positions import in_file, of_gtid
from connectors.formats.casting import flags
from connectors.formats.outcome import Outcome
from connectors.formats.spans import Flags, Ints

_OPS: Final = {"insert": CREATE, "update": UPDATE, "delete": DELETE, "bootstrap-insert": READ}
_TYPES: Final = pa.array(list(_OPS))
_MOST_SECONDS: Final = 2**53
"""A time that no year has, and neither have later ones."""
_OMITTED: Final = (
    *("bootstrap-start", "bootstrap-complete"),
    *(f"{kind}-{change}" for kind in ("database", "table") for change in ("create", "alter", "drop")),
)
"""Types of documents that describe no row: the ends of a bootstrap, and changes of a schema."""


@dataclass(frozen=True)
class MaxwellFormat:
    """One row for each document of a row of the table, and two for an update of its key.

    Omitted are documents of other tables, of a schema's change, and of the begin and the end of a bootstrap. A document
    of the table is bad:

    - if it lacks the row or the key;
    - if a value does not fit its column, or is null where the schema has NOT NULL.
    """

    rows: TableRows
    table: tuple[str, str]  # database and name

    @property
    def schema(self) -> pa.Schema:
        return self.rows.schema

    @cached_property
    def _documents(self) -> Documents:
        row = self.rows.row
        image = pa.struct([field.with_nullable(True) for field in row])
        old = pa.struct([row.field(name).with_nullable(True) for name in self.rows.key])
        parts = (("data", image), ("old", old), ("ts", pa.int64()), ("position", pa.string()), ("gtid", pa.string()))
        return Documents(self.table, (), parts)

    def decode(self, values: pa.Array) -> Decoded:
        """Decode a batch: one parse, unless a document is bad."""
        outcome = Outcome(self.schema)
        given = flags(values.is_valid())
        outcome.omit(np.flatnonzero(~given))
        documents = values if given.all() else values.filter(pa.array(given))
        places, found = self._documents.parse(documents, np.flatnonzero(given), _has_rows, outcome)
        with_row = flags(found.column("data").is_valid())
        outcome.reject(places[~with_row], "no `data`: a change without its row")
        if not with_row.all():
            places, found = places[with_row], found.filter(pa.array(with_row))
        self.rows.add(self._images(places, found), {}, outcome)
        return outcome.decoded()

    def _images(self, places: Ints, found: pa.RecordBatch) -> Images:
        data, old = found.column("data"), found.column("old")
        return Images(
            records=places,
            ops=pa.array(list(_OPS.values())).take(pc.index_in(found.column("type"), _TYPES)),
            columns=[pc.struct_field(data, [name]) for name in self.rows.row.names],
            old_keys=[pc.struct_field(old, [name]) for name in self.rows.key],
            positions=pc.coalesce(in_file(found.column("position")), of_gtid(found.column("gtid"))),
            millis=pc.multiply(_bounded(found.column("ts")), 1000),
        )


def _bounded(seconds: pa.Array) -> pa.Array:
    """Return seconds whose milliseconds have 64 bits: Arrow's product would overflow silently."""
    least = pc.max_element_wise(seconds, -_MOST_SECONDS, skip_nulls=False)
    return pc.min_element_wise(least, _MOST_SECONDS, skip_nulls=False)


def _has_rows(rows: pa.RecordBatch, places: Ints, outcome: Outcome) -> Flags:
    chosen = flags(pc.is_in(rows.column("type"), _TYPES))
    omit_known(rows.filter(pa.array(~chosen)), places[~chosen], _OMITTED, outcome)
    return chosen
