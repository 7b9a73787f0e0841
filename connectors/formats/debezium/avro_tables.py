"""Events in Avro of any table: the ids of their schemas are in front of each event and of each key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from connectors.api.contracts import Finding
from connectors.formats.avro.writers import RegisteredWriters, Writer
from connectors.formats.casting import flags
from connectors.formats.debezium.avro_events import AvroEvents
from connectors.formats.debezium.avro_schema import Declared, record_of
from connectors.formats.debezium.event_table import EventTable, key_problem, of_avro_schema
from connectors.formats.debezium.table_events import TableEvents
from connectors.formats.debezium.written import Written
from connectors.formats.spans import Ints
from connectors.formats.tables import TablesOutcome
from connectors.grouping import by_group
from eos.errors import SpecError

_KEPT: Final = 1_000
"""Schemas of values, and of keys, whose tables and columns a process keeps."""


@dataclass(frozen=True, slots=True)
class AvroTables:
    """Events of AvroConverter. The id of the schema is in front of each event."""

    writers: RegisteredWriters
    types: Mapping[str, Written] = field(default_factory=dict)

    @property
    def names_schemas(self) -> bool:
        return True

    def with_schemas(self, known: Mapping[str, str]) -> AvroTables:
        return replace(self, writers=replace(self.writers, pinned=known))

    def check(self) -> Sequence[Finding]:
        return self.writers.check()

    def tables(self, keys: pa.Array, values: pa.Array, outcome: TablesOutcome) -> Iterator[TableEvents]:
        header = self.writers.header
        ids, numbers = self._ids(values)
        found = {key: _avro_table(writer, self._declared) for key, writer in self._find(ids, outcome).items()}
        has_table = np.array([each is not None and isinstance(found[each], EventTable) for each in ids], np.bool_)
        key_ids, key_numbers = self._ids(keys, has_table[numbers])
        fields = {key: _avro_key(writer) for key, writer in self._find(key_ids, outcome).items()}
        for (number, key_number), places in by_group(numbers, key_numbers):
            schema_id, key_id = ids[number], key_ids[key_number]
            if schema_id is None:
                outcome.reject(places, header.missing)
                continue
            table, key = found[schema_id], () if key_id is None else fields[key_id]
            if table is None:
                outcome.omit(places)
            elif isinstance(table, str):
                outcome.reject(places, f"written with {header.schema_name.format(schema_id)}: {table}")
            elif isinstance(key, str):
                outcome.reject(places, f"the record's key: written with {header.schema_name.format(key_id)}: {key}")
            elif problem := key_problem(key, table.row):
                outcome.reject(places, problem)
            else:
                yield TableEvents(table, key, AvroEvents(table.row, self.writers, self.types), places)

    @property
    def _declared(self) -> Declared:
        return tuple(self.types.items())

    def _find(self, ids: Sequence[int | None], outcome: TablesOutcome) -> Mapping[int, Writer]:
        found = self.writers.find([each for each in ids if each is not None])
        name = self.writers.header.schema_name
        outcome.schemas |= {name.format(key): each.fingerprint for key, each in found.items()}
        return found

    def _ids(self, values: pa.Array, wanted: Any = True) -> tuple[list[int | None], Ints]:
        """Return the different ids in front of values, and by value the number of its id. None: a value has none."""
        given = flags(values.is_valid()) & wanted
        numbers = np.zeros(len(values), np.int64)
        ids, marked = self.writers.header.keys(values if given.all() else values.filter(pa.array(given)))
        given[given] = marked
        found, numbers[given] = np.unique(ids[marked], return_inverse=True)
        numbers[~given] = len(found)
        return [*found.tolist(), None], numbers


@lru_cache(_KEPT)
def _avro_table(writer: Writer, declared: Declared) -> EventTable | str | None:
    if isinstance(writer.schema, str) or writer.registered is None:
        return str(writer.schema)
    return of_avro_schema(writer.registered.text, writer.registered.references, declared)


@lru_cache(_KEPT)
def _avro_key(writer: Writer) -> tuple[str, ...] | str:
    """Return the columns of a key, empty if it is not a record; or why the records are bad."""
    if isinstance(writer.schema, str) or writer.registered is None:
        return str(writer.schema)
    try:
        return record_of(writer.registered.text, writer.registered.references)[1]
    except SpecError:
        return ()
