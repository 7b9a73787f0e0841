"""The format `protobuf` without a schema in the spec: each record names its schema and its message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa

from connectors.api.contracts import Finding
from connectors.api.decoding import Decoded, DecodedTables
from connectors.formats.framing import CONFLUENT
from connectors.formats.protobuf.descriptors import name_at
from connectors.formats.protobuf.indexes import FAULTS, Headers
from connectors.formats.protobuf.protobuf_format import ProtobufFormat, Reader
from connectors.formats.protobuf.writers import RegisteredWriters, Writer
from connectors.formats.tables import TablesOutcome, columns_problem, common_rows
from connectors.schema_registry.client import check_registry
from eos.errors import SpecError

_KEPT: Final = 1_000
"""Messages of schemas whose tables a process keeps."""


@dataclass(frozen=True, slots=True)
class SelfDescribingProtobuf:
    """`ProtobufFormat` decodes the rows of each message, with the writer's schema as the reader's.

    The name of a table is the name of the message, with its package. Its key is empty: a record's key need not be a
    part of the row. Bad is also a tombstone, which names no schema, and a message that cannot have columns.
    """

    writers: RegisteredWriters
    as_bytes: frozenset[str] = frozenset()  # messages that become BINARY, as far as a schema has them
    truncate: bool = False  # nanoseconds

    @property
    def schema(self) -> pa.Schema:
        """No column: records of several messages need not have one in common."""
        return pa.schema([])

    @property
    def names_schemas(self) -> bool:
        """Always. See NamedSchemas."""
        return True

    def with_schemas(self, known: Mapping[str, str]) -> SelfDescribingProtobuf:
        """Return this format with pinned schemas. See NamedSchemas."""
        return replace(self, writers=replace(self.writers, pinned=known))

    def check(self) -> Sequence[Finding]:
        """Return the findings for `eos doctor`: whether the registry answers."""
        return [check_registry(self.writers.registry)]

    def decode(self, values: pa.Array) -> Decoded:
        """Decode rows without columns: which records are rows."""
        return common_rows(self.decode_tables(pa.nulls(len(values), pa.binary()), values), self.schema)

    def decode_tables(self, keys: pa.Array, values: pa.Array) -> DecodedTables:
        """Decode a batch, all records of one message of a schema at once. See SelfDescribingFormat."""
        outcome = TablesOutcome(values)
        outcome.reject_tombstones("a record without a value names no schema, and belongs to no table")
        values = values if outcome.given.all() else values.filter(pa.array(outcome.given))
        headers = Headers(values)
        for number, reason in enumerate(FAULTS):
            outcome.reject(np.flatnonzero(headers.fault == number), reason)
        found = list(headers.by_message())
        writers = self.writers.find(sorted({written.schema_id for written, _ in found}))
        for written, places in found:
            writer, name = writers[written.schema_id], CONFLUENT.schema_name.format(written.schema_id)
            outcome.schemas[name] = writer.fingerprint
            reader = _reader(writer, written.path, self.as_bytes, self.truncate)
            if isinstance(reader, str):
                outcome.reject(places, f"written with {name}: {reader}")
            else:
                group = values if len(places) == len(values) else values.take(pa.array(places))
                outcome.add(reader.message, (), places, ProtobufFormat(reader, self.writers).decode(group))
        return outcome.decoded()


@lru_cache(_KEPT)
def _reader(writer: Writer, path: tuple[int, ...], as_bytes: frozenset[str], truncate: bool) -> Reader | str:
    """Return the message at a path of a schema, or why records of it are bad."""
    if isinstance(writer.descriptors, str):
        return writer.descriptors
    message = name_at(writer.descriptors, path)
    if message is None:
        return f"it has no message at {list(path)}"
    reader = Reader(writer.descriptors, message, as_bytes, truncate)
    try:
        problem = columns_problem(ProtobufFormat(reader).schema.names)
    except SpecError as error:
        return error.message
    return problem or reader
