"""The format `avro` without a schema in the spec: each record names its schema, which a registry keeps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa

from connectors.formats.avro.arrow_types import ArrowTypes
from connectors.formats.avro.avro_format import AvroFormat, columns_of
from connectors.formats.avro.inlining import inlined
from connectors.formats.avro.nodes import Record
from connectors.formats.avro.writers import RegisteredWriters, Writer
from connectors.formats.registered_tables import RegisteredTables
from connectors.formats.tables import TablesOutcome, columns_problem
from connectors.grouping import taken
from eos.errors import SpecError

_KEPT: Final = 1_000
"""Schemas whose tables a process keeps."""


@dataclass(frozen=True, slots=True)
class SelfDescribingAvro(RegisteredTables[RegisteredWriters]):
    """`AvroFormat` decodes the rows of each record type, with the writer's schema as the reader's.

    The name of a table is the full name of the record. Bad is also a record of a schema whose values are not records.
    """

    truncate: bool = False  # nanoseconds

    def _add_tables(self, values: pa.Array, outcome: TablesOutcome) -> None:
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
                decoder = AvroFormat(table.reader, self.writers, self.truncate)
                outcome.add(table.name, (), places, decoder.decode(taken(values, places)))


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
