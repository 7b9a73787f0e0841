"""The format `avro` without a schema in the spec: each record names its schema, which a registry keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa

from connectors.api.contracts import Finding
from connectors.api.decoding import Decoded, DecodedTables
from connectors.formats.avro.arrow_types import ArrowTypes
from connectors.formats.avro.avro_format import AvroFormat, columns_of
from connectors.formats.avro.inlining import inlined
from connectors.formats.avro.nodes import Record
from connectors.formats.avro.writers import RegisteredWriters, Writer
from connectors.formats.tables import TablesOutcome, columns_problem, common_rows
from eos.errors import SpecError

_KEPT: Final = 1_000
"""Schemas whose tables a process keeps."""


@dataclass(frozen=True, slots=True)
class SelfDescribingAvro:
    """`AvroFormat` decodes the rows of each record type, with the writer's schema as the reader's.

    The name of a table is the full name of the record. Its key is empty: a record's key need not be a part of the row.
    Bad is also a tombstone, which names no schema, and a record of a schema whose values are not records.
    """

    writers: RegisteredWriters
    truncate: bool = False  # nanoseconds

    @property
    def schema(self) -> pa.Schema:
        """No column: records of several schemas need not have one in common."""
        return pa.schema([])

    @property
    def names_schemas(self) -> bool:
        """Always. See NamedSchemas."""
        return True

    def with_schemas(self, known: Mapping[str, str]) -> SelfDescribingAvro:
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
        values = values if outcome.given.all() else values.filter(pa.array(outcome.given))
        header = self.writers.header
        ids, marked = header.keys(values)
        outcome.reject(np.flatnonzero(~marked), header.missing)
        for key, writer in self.writers.find(np.unique(ids[marked]).tolist()).items():
            name = header.schema_name.format(key)
            outcome.schemas[name] = writer.fingerprint
            places = np.flatnonzero(marked & (ids == np.uint64(key)))
            table = _table(writer)
            if isinstance(table, str):
                outcome.reject(places, f"written with {name}: {table}")
            else:
                group = values if len(places) == len(values) else values.take(pa.array(places))
                decoder = AvroFormat(table.reader, self.writers, self.truncate)
                outcome.add(table.name, (), places, decoder.decode(group))
        return outcome.decoded()


@dataclass(frozen=True, slots=True)
class _Table:
    name: str
    reader: str  # JSON text


@lru_cache(_KEPT)
def _table(writer: Writer) -> _Table | str:
    """Return the table of the records of one schema, or why they are bad."""
    if isinstance(writer.schema, str) or writer.registered is None:
        return str(writer.schema)
    root = writer.schema.follow(writer.schema.root)
    if not isinstance(root, Record):
        return "its values are not records; set `schema`"
    try:
        ArrowTypes(writer.schema).columns()  # first: the text in one piece is nested as deeply as the types
        reader = inlined(writer.registered.text, writer.registered.references)
        problem = columns_problem(columns_of(reader).names)
    except SpecError as error:
        return error.message
    return problem or _Table(root.name, reader)
