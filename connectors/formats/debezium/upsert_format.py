"""The format `upsert`: a value is the new row of its key, and a record without a value deletes the row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.api.contracts import Finding
from connectors.api.decoding import Decoded
from connectors.formats.casting import Faults, add_faults, flags
from connectors.formats.change_rows import DELETED, required, without_values
from connectors.formats.debezium.avro_events import AvroEvents
from connectors.formats.debezium.events import KeyRows
from connectors.formats.debezium.json_events import JsonEvents
from connectors.formats.debezium.scalar_keys import AvroScalars
from connectors.formats.outcome import Outcome, with_nulls
from connectors.formats.spans import Flags

_NO_KEY = "a deletion, and the record's key has no column of the schema"


class Rows(Protocol):
    """How values or keys become rows. Immutable and picklable."""

    def rows(self, values: pa.Array, outcome: Outcome, /) -> Iterator[KeyRows]:
        """Yield the rows of a binary column without nulls. Other values are added to `outcome`.

        May block where this process meets a schema for the first time. Raises SourceError if a registry does not
        answer.
        """


@dataclass(frozen=True)
class UpsertFormat:
    """One row for each record. Columns that a value lacks, and all columns of a deletion, come from the key.

    Bad are values and keys that do not decode, null where the schema has NOT NULL, and deletions without a key. NOT
    NULL does not hold for deleted rows, so no column of the result is NOT NULL.
    """

    row: pa.Schema
    records: JsonEvents | AvroEvents
    key_rows: Rows | None = None  # None: keys are written as values are

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the row, and `_deleted`."""
        return pa.schema([*self._columns, pa.field(DELETED, pa.bool_(), nullable=False)])

    @cached_property
    def _columns(self) -> pa.Schema:
        return pa.schema([field.with_nullable(True) for field in self.row])

    @property
    def names_schemas(self) -> bool:
        """Whether a registry keeps the schemas of the records. See NamedSchemas."""
        return self.records.names_schemas

    def with_schemas(self, known: Mapping[str, str]) -> UpsertFormat:
        """Return this format with pinned schemas. See NamedSchemas."""
        records = self.records.with_schemas(known)
        scalars = self.key_rows
        if isinstance(scalars, AvroScalars) and isinstance(records, AvroEvents):
            scalars = replace(scalars, records=records)
        return replace(self, records=records, key_rows=scalars)

    def check(self) -> Sequence[Finding]:
        """Return the findings for `eos doctor`."""
        return self.records.check()

    def decode(self, values: pa.Array) -> Decoded:
        """Decode records without keys."""
        return self.decode_records(pa.nulls(len(values), pa.binary()), values)

    def decode_records(self, keys: pa.Array, values: pa.Array) -> Decoded:
        """Decode a batch: all values at once, and all keys at once."""
        faults: Faults = {}
        schemas: dict[str, str] = {}
        of_values, deleted = self._rows(self.records, values, "", faults, schemas)
        of_keys, _ = self._rows(self.key_rows or self.records, keys, "the record's key: ", faults, schemas)
        columns = [pc.coalesce(own, key) for own, key in zip(of_values, of_keys, strict=True)]
        add_faults(faults, deleted & without_values(columns, len(values)), _NO_KEY)
        required(self.row, columns, ~deleted, faults)
        outcome = Outcome(self.schema, schemas=schemas)
        rows = pa.record_batch([*columns, pa.array(deleted)], schema=self.schema)
        outcome.add(np.arange(len(values)), rows, faults)
        return outcome.decoded()

    def _rows(
        self, records: Rows, column: pa.Array, where: str, faults: Faults, schemas: dict[str, str]
    ) -> tuple[list[pa.Array], Flags]:
        """Return the columns of a row for each text of a column, and which of them are null. Faults are null, too."""
        given = flags(column.is_valid())
        found = Outcome(self._columns, schemas=schemas)
        for each in records.rows(column.filter(pa.array(given)), found):
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
