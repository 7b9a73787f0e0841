"""Events and keys in JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.api.contracts import Finding
from connectors.formats.casting import flags
from connectors.formats.debezium.events import Events, KeyRows
from connectors.formats.debezium.rows import Document, RowReader, Struct, Types
from connectors.formats.debezium.schema_part import Group, groups
from connectors.formats.debezium.source_position import SOURCE
from connectors.formats.debezium.written import Written
from connectors.formats.json_images import name_column
from connectors.formats.json_values import JsonFormat
from connectors.formats.outcome import Outcome
from connectors.formats.spans import Flags, Ints


@dataclass(frozen=True, slots=True)
class JsonEvents:
    """Events of JsonConverter, with schemas or without."""

    schema: pa.Schema  # of the table's rows
    types: Mapping[str, Written] = field(default_factory=dict)
    """Types of the spec, by column. They count before the types of a record's schema."""
    documents: bool = False
    """Whether images are the texts of documents."""

    def events(self, values: pa.Array, places: Ints, outcome: Outcome) -> Iterator[Events]:
        for group in groups(values, places, self.schema.names, outcome):
            reader = self._reader(group.types)
            decoder = JsonFormat(_envelope(reader.wire))
            found, payloads, rows = _decoded(_without_null(group, outcome), decoder, outcome)
            ops = rows.column("op")
            if ops.null_count:
                omitted = flags(ops.is_null())
                omitted[omitted] = _no_rows(payloads.filter(pa.array(omitted)))
                outcome.omit(found[omitted])
                found, rows = found[~omitted], rows.filter(pa.array(~omitted))
            parts = {name: rows.column(name) for name in rows.schema.names}
            yield Events(found, parts["op"], parts["before"], parts["after"], parts["source"], reader)

    def rows(self, values: pa.Array, outcome: Outcome) -> Iterator[KeyRows]:
        """Yield the rows of values that are rows themselves. A payload that is null is omitted."""
        for group in groups(values, np.arange(len(values)), self.schema.names, outcome):
            yield from self._keys(_without_null(group, outcome), outcome)

    def keys(self, keys: pa.Array, places: Ints, outcome: Outcome) -> Iterator[KeyRows]:
        numbered = np.arange(len(places))
        refused = Outcome(self.schema)
        for group in groups(keys, numbered, self.schema.names, refused):
            yield from self._document_keys(group, refused) if self.documents else self._keys(group, refused)
        outcome.reject_each(places, {at: f"the record's key: {reason}" for at, reason in refused.bad.items()})

    @property
    def names_schemas(self) -> bool:
        return False

    def with_schemas(self, known: Mapping[str, str]) -> JsonEvents:
        return self

    def check(self) -> Sequence[Finding]:
        return ()

    def _reader(self, found: Types | None) -> RowReader:
        return Document(self.schema) if self.documents else Struct.of(self.schema, self.types, found)

    def _keys(self, group: Group, refused: Outcome) -> Iterator[KeyRows]:
        reader = Struct.of(self.schema, self.types, group.types)
        found, _, rows = _decoded(group, JsonFormat(pa.schema(list(reader.wire))), refused)
        yield KeyRows(found, pa.StructArray.from_arrays(rows.columns, fields=list(reader.wire)), reader)

    def _document_keys(self, group: Group, refused: Outcome) -> Iterator[KeyRows]:
        """The key of a document is the JSON text of its `_id`."""
        found, _, rows = _decoded(group, JsonFormat(pa.schema([("id", pa.string())])), refused)
        yield KeyRows(found, Document.key_images(rows.column("id")), Document.of_keys(self.schema))


def _envelope(image: pa.DataType) -> pa.Schema:
    return pa.schema([("op", pa.string()), ("before", image), ("after", image), ("source", SOURCE)])


def _without_null(group: Group, outcome: Outcome) -> Group:
    """A payload that is null is a tombstone."""
    null = flags(pc.equal(group.payloads, pa.scalar(b"null")))
    if group.types is None or not null.any():
        return group
    outcome.omit(group.places[null])
    return Group(group.places[~null], group.payloads.filter(pa.array(~null)), group.types)


def _decoded(group: Group, decoder: JsonFormat, outcome: Outcome) -> tuple[Ints, pa.Array, pa.RecordBatch]:
    """Return the places, payloads and rows of the payloads that decode."""
    decoded = decoder.decode(group.payloads)
    if not decoded.bad:
        return group.places, group.payloads, decoded.rows
    outcome.reject_each(
        group.places,
        {each.index: name_column(each.reason, group.payloads, each.index, decoder, _IMAGES) for each in decoded.bad},
    )
    kept = np.ones(len(group.places), np.bool_)
    kept[[each.index for each in decoded.bad]] = False
    return group.places[kept], group.payloads.filter(pa.array(kept)), decoded.rows


_IMAGES: Final = ("after", "before")
_HEARTBEAT: Final = r'^\s*\{(\s*"ts_(ms|us|ns)"\s*:\s*[0-9]+\s*,?)+\}\s*$'
_TRANSACTION: Final = (r'"status"\s*:\s*"(BEGIN|END)"', r'"event_count"\s*:', r'"data_collections"\s*:')
_SCHEMA_CHANGE: Final = (r'"source"\s*:\s*\{', r'"tableChanges"\s*:', r'"ddl"\s*:')


def _no_rows(payloads: pa.Array) -> Flags:
    """Return which payloads are heartbeats, borders of transactions or changes of a schema: Debezium's own records.

    Called for events without `op` only, which are JSON objects.
    """
    found = flags(pc.match_substring_regex(payloads, _HEARTBEAT))
    for patterns in (_TRANSACTION, _SCHEMA_CHANGE):
        every = np.ones(len(payloads), np.bool_)
        for pattern in patterns:
            every &= flags(pc.match_substring_regex(payloads, pattern))
        found |= every
    return found
