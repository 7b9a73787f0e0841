"""The format `upsert`: a value is the new row of its key, and a record without a value deletes the row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.api.decoding import Decoded
from connectors.formats.debezium.casting import Faults, add_faults, flags
from connectors.formats.debezium.debezium_format import DELETED
from connectors.formats.debezium.json_events import JsonEvents
from connectors.formats.debezium.rows import required, without_values
from connectors.formats.outcome import Outcome, with_nulls
from connectors.formats.spans import Flags

_NO_KEY = "a deletion, and the record's key has no column of the schema"


@dataclass(frozen=True)
class UpsertFormat:
    """One row for each record. Columns that a value lacks, and all columns of a deletion, come from the key.

    Bad are values and keys that do not decode, null where the schema has NOT NULL, and deletions without a key. NOT
    NULL does not hold for deleted rows, so no column of the result is NOT NULL.
    """

    row: pa.Schema
    records: JsonEvents

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the row, and `_deleted`."""
        return pa.schema([*self._columns, pa.field(DELETED, pa.bool_(), nullable=False)])

    @cached_property
    def _columns(self) -> pa.Schema:
        return pa.schema([field.with_nullable(True) for field in self.row])

    def decode(self, values: pa.Array) -> Decoded:
        """Decode records without keys."""
        return self.decode_records(pa.nulls(len(values), pa.binary()), values)

    def decode_records(self, keys: pa.Array, values: pa.Array) -> Decoded:
        """Decode a batch: all values at once, and all keys at once."""
        faults: Faults = {}
        of_values, deleted = self._rows(values, "", faults)
        of_keys, _ = self._rows(keys, "the record's key: ", faults)
        columns = [pc.coalesce(own, key) for own, key in zip(of_values, of_keys, strict=True)]
        add_faults(faults, deleted & without_values(columns, len(values)), _NO_KEY)
        required(self.row, columns, ~deleted, faults)
        outcome = Outcome(self.schema)
        rows = pa.record_batch([*columns, pa.array(deleted)], schema=self.schema)
        outcome.add(np.arange(len(values)), rows, faults)
        return outcome.decoded()

    def _rows(self, column: pa.Array, where: str, faults: Faults) -> tuple[list[pa.Array], Flags]:
        """Return the columns of a row for each text of a column, and which of them are null. Faults are null, too."""
        given = flags(column.is_valid())
        found = Outcome(self._columns)
        for each in self.records.rows(column.filter(pa.array(given)), found):
            wrong: Faults = {}
            columns = each.reader.columns(each.images, wrong)
            found.add(each.places, pa.record_batch(columns, schema=self._columns), wrong)
        decoded = found.decoded()
        places = np.flatnonzero(given)
        left = np.ones(len(places), np.bool_)
        for at in decoded.omitted:
            left[at] = False
        missing = ~given
        missing[places[~left]] = True
        for bad in decoded.bad:
            faults.setdefault(int(places[bad.index]), where + bad.reason)
            left[bad.index] = False
        is_row = np.zeros(len(column), np.bool_)
        is_row[places[left]] = True
        return [with_nulls(each, pa.array(is_row)) for each in decoded.rows.columns], missing
