"""The format `debezium` without a schema in the spec: each event brings the schema of its table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa

from connectors.api.contracts import Finding
from connectors.api.decoding import Decoded, DecodedTables
from connectors.formats.change_rows import EVENT
from connectors.formats.debezium.debezium_format import DebeziumFormat
from connectors.formats.debezium.table_events import TableEncoding
from connectors.formats.tables import TablesOutcome, common_rows
from connectors.grouping import taken


@dataclass(frozen=True)
class SelfDescribingDebezium:
    """`DebeziumFormat` decodes the rows of each table, with the columns of the events' own schema.

    Bad is also an event without a schema, or whose schema has a column that a row cannot have. The key of a table are
    the fields of the schema of the records' keys. It is empty where keys have no schema.
    """

    encoding: TableEncoding
    truncate: Literal["refuse", "skip"] = "refuse"

    @property
    def schema(self) -> pa.Schema:
        """EVENT: the columns that every row has."""
        return EVENT

    @property
    def names_schemas(self) -> bool:
        """Whether a registry keeps the schemas of the records. See NamedSchemas."""
        return self.encoding.names_schemas

    def with_schemas(self, known: Mapping[str, str]) -> SelfDescribingDebezium:
        """Return this format with pinned schemas. See NamedSchemas."""
        return replace(self, encoding=self.encoding.with_schemas(known))

    def check(self) -> Sequence[Finding]:
        """Return the findings for `eos doctor`."""
        return self.encoding.check()

    def decode(self, values: pa.Array) -> Decoded:
        """Decode EVENT of records without keys."""
        return common_rows(self.decode_tables(pa.nulls(len(values), pa.binary()), values), self.schema)

    def decode_tables(self, keys: pa.Array, values: pa.Array) -> DecodedTables:
        """Decode a batch, all records with equal schemas at once. See SelfDescribingFormat."""
        outcome = TablesOutcome(values)
        outcome.omit_tombstones()
        if not outcome.given.all():
            mask = pa.array(outcome.given)
            keys, values = keys.filter(mask), values.filter(mask)
        for group in self.encoding.tables(keys, values, outcome):
            decoder = DebeziumFormat(group.table.row, group.encoding, self.truncate)
            own_keys, own_values = (taken(each, group.places) for each in (keys, values))
            outcome.add(group.table.name, group.key, group.places, decoder.decode_records(own_keys, own_values))
        return outcome.decoded()
