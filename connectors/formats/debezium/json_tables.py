"""Events in JSON of any table: the schema is in front of each event and of each key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from connectors.api.contracts import Finding
from connectors.formats.casting import flags
from connectors.formats.connect_heads import heads_of, is_kept
from connectors.formats.debezium.avro_schema import Declared
from connectors.formats.debezium.column_types import objects
from connectors.formats.debezium.debezium_format import DebeziumFormat
from connectors.formats.debezium.event_table import EventTable, key_problem, of_connect_schema
from connectors.formats.debezium.json_events import JsonEvents
from connectors.formats.debezium.schema_part import schema_in
from connectors.formats.debezium.table_events import TableEvents
from connectors.formats.debezium.written import Written
from connectors.formats.spans import Ints
from connectors.formats.tables import TablesOutcome, is_text
from connectors.grouping import by_group

_KEPT: Final = 1_000
"""Schemas of values, and of keys, whose tables and columns a process keeps."""
_NO_SCHEMA: Final = (
    "the event has no schema; let Debezium write it (value.converter.schemas.enable=true), or set `schema` in the spec"
)


@dataclass(frozen=True, slots=True)
class JsonTables:
    """Events of JsonConverter. The schema is in front of each event."""

    types: Mapping[str, Written] = field(default_factory=dict)
    """Types of the spec, by column."""

    @property
    def names_schemas(self) -> bool:
        return False

    def with_schemas(self, known: Mapping[str, str]) -> JsonTables:
        return self

    def check(self) -> Sequence[Finding]:
        return ()

    def tables(self, keys: pa.Array, values: pa.Array, outcome: TablesOutcome) -> Iterator[TableEvents]:
        heads, numbers = heads_of(values)
        declared = tuple(self.types.items())
        found = [_json_table(head, declared) for head in heads]
        key_heads, key_numbers = _key_heads(keys)
        fields = [_json_key(head) for head in key_heads]
        for (number, key_number), places in by_group(numbers, key_numbers):
            table, key = found[number], fields[key_number]
            if isinstance(table, str):
                outcome.reject(places, table)
            elif table is None:
                _add_others(values.take(pa.array(places)), places, heads[number], outcome)
            elif isinstance(key, str):
                outcome.reject(places, f"the record's key: {key}")
            elif problem := key_problem(key, table.row):
                outcome.reject(places, problem)
            else:
                yield TableEvents(table, key, JsonEvents(table.row, self.types), places)


_ANY_ROW: Final = pa.schema([("\N{NULL}", pa.string())])
"""A column that no row has: only the parts of an event around its row are checked."""


def _add_others(values: pa.Array, places: Ints, head: bytes | None, outcome: TablesOutcome) -> None:
    """Add records without a schema, or with one that is not of a table. Debezium's own records are omitted."""
    kept = outcome.add_others(places, DebeziumFormat(_ANY_ROW, JsonEvents(_ANY_ROW)).decode(values))
    outcome.reject(places[kept], _NO_SCHEMA if head is None or schema_in(head) is None else "its schema has no `after`")


def _key_heads(keys: pa.Array) -> tuple[list[bytes | None], Ints]:
    given = flags(keys.is_valid())
    if given.all():
        return heads_of(keys)
    numbers = np.zeros(len(keys), np.int64)
    found, numbers[given] = heads_of(keys.filter(pa.array(given)))
    numbers[~given] = len(found)
    return [*found, None], numbers


def _json_table(head: bytes | None, declared: Declared) -> EventTable | str | None:
    """Return the table; None for records without a schema or of another schema; or why they are bad."""
    return _kept_table(head, declared) if is_kept(head) else _kept_table.__wrapped__(head, declared)


@lru_cache(_KEPT)
def _kept_table(head: bytes | None, declared: Declared) -> EventTable | str | None:
    if head is None:
        return None
    schema = schema_in(head)
    if schema is None or isinstance(schema, str):
        return schema
    found = of_connect_schema(schema, declared)
    return f"its schema: {found}" if isinstance(found, str) else found


def _json_key(head: bytes | None) -> tuple[str, ...] | str:
    """Return the columns of a key, empty if it has no schema; or why the records are bad."""
    return _kept_key(head) if is_kept(head) else _kept_key.__wrapped__(head)


@lru_cache(_KEPT)
def _kept_key(head: bytes | None) -> tuple[str, ...] | str:
    schema: Any = None if head is None else schema_in(head)
    if schema is None or isinstance(schema, str):
        return schema or ()
    return _checked(tuple(str(each.get("field")) for each in objects(schema["fields"])))


def _checked(key: tuple[str, ...]) -> tuple[str, ...] | str:
    if not all(map(is_text, key)):
        return "a field's name is not Unicode"
    return key if len(set(key)) == len(key) else "two of its fields have one name"
