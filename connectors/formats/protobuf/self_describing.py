"""The format `protobuf` without a schema in the spec: each record names its schema and its message."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa

from connectors.formats.framing import CONFLUENT
from connectors.formats.protobuf.descriptors import name_at
from connectors.formats.protobuf.indexes import FAULTS, Headers
from connectors.formats.protobuf.protobuf_format import ProtobufFormat, Reader
from connectors.formats.protobuf.writers import RegisteredWriters, Writer
from connectors.formats.registered_tables import RegisteredTables
from connectors.formats.tables import TablesOutcome, columns_problem
from connectors.grouping import taken
from eos.errors import SpecError

_KEPT: Final = 1_000
"""Messages of schemas whose tables a process keeps."""


@dataclass(frozen=True, slots=True)
class SelfDescribingProtobuf(RegisteredTables[RegisteredWriters]):
    """`ProtobufFormat` decodes the rows of each message, with the writer's schema as the reader's.

    The name of a table is the name of the message, with its package. Bad is also a message that cannot have columns.
    """

    as_bytes: frozenset[str] = frozenset()  # messages that become BINARY, as far as a schema has them
    truncate: bool = False  # nanoseconds

    def _add_tables(self, values: pa.Array, outcome: TablesOutcome) -> None:
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
                decoder = ProtobufFormat(reader, self.writers)
                outcome.add(reader.message, (), places, decoder.decode(taken(values, places)))


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
