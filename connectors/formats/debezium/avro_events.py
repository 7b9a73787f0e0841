"""Events and keys in Avro, in Confluent's wire format: the id of the writer's schema is in front of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from connectors.api.contracts import Finding
from connectors.formats.avro.avro_format import AvroFormat
from connectors.formats.avro.writers import RegisteredWriters
from connectors.formats.debezium.avro_schema import OMITTED, AvroPlan, Declared, event_plan, key_plan, scalar_plan
from connectors.formats.debezium.events import Events, KeyRows
from connectors.formats.debezium.rows import Document, RowReader, Struct
from connectors.formats.debezium.source_position import SOURCE
from connectors.formats.debezium.written import Written
from connectors.formats.outcome import Outcome
from connectors.formats.spans import Ints
from connectors.schema_registry.client import RegisteredSchema

PlanOf = Callable[[RegisteredSchema, Declared], AvroPlan | str]


@dataclass(frozen=True, slots=True)
class AvroEvents:
    """Events of Connect's AvroConverter."""

    schema: pa.Schema  # of the table's rows
    writers: RegisteredWriters
    types: Mapping[str, Written] = field(default_factory=dict)
    documents: bool = False

    @property
    def names_schemas(self) -> bool:
        return True

    def with_schemas(self, known: Mapping[str, str]) -> AvroEvents:
        return replace(self, writers=replace(self.writers, pinned=known))

    def check(self) -> Sequence[Finding]:
        return self.writers.check()

    def events(self, values: pa.Array, places: Ints, outcome: Outcome) -> Iterator[Events]:
        for plan, found, rows in self._decoded(values, places, outcome, self._event_plan):
            parts = dict(zip(rows.schema.names, rows.columns, strict=True))
            image = next(parts[name] for name in ("before", "after") if name in parts)
            nothing = pa.nulls(len(found), image.type)
            before, after = parts.get("before", nothing), parts.get("after", nothing)
            source = _source(parts.get("source"), len(found))
            yield Events(found, parts["op"].cast(pa.string()), before, after, source, self._reader(plan))

    def rows(self, values: pa.Array, outcome: Outcome) -> Iterator[KeyRows]:
        """Yield the rows of values that are rows themselves."""
        for plan, found, rows in self._decoded(values, np.arange(len(values)), outcome, self._key_plan):
            yield KeyRows(found, pa.StructArray.from_arrays(rows.columns, fields=list(rows.schema)), self._reader(plan))

    def scalars(self, keys: pa.Array, column: str, outcome: Outcome) -> Iterator[KeyRows]:
        """Yield one column of keys that are its values."""

        def plan_of(found: RegisteredSchema, declared: Declared) -> AvroPlan | str:
            return scalar_plan(found.text, found.references, self.schema, declared, column)

        for plan, found, rows in self._decoded(keys, np.arange(len(keys)), outcome, plan_of):
            yield KeyRows(found, pa.StructArray.from_arrays(rows.columns, names=[column]), self._reader(plan))

    def keys(self, keys: pa.Array, places: Ints, outcome: Outcome) -> Iterator[KeyRows]:
        refused = Outcome(self.schema, schemas=outcome.schemas)
        for plan, found, rows in self._decoded(keys, np.arange(len(places)), refused, self._key_plan):
            if self.documents:
                yield KeyRows(found, Document.key_images(rows.column("id")), Document.of_keys(self.schema))
            else:
                images = pa.StructArray.from_arrays(rows.columns, fields=list(rows.schema))
                yield KeyRows(found, images, self._reader(plan))
        outcome.reject_each(places, {at: f"the record's key: {reason}" for at, reason in refused.bad.items()})

    def _reader(self, plan: AvroPlan) -> RowReader:
        return Document(self.schema) if self.documents else Struct(self.schema, plan.readings)

    def _event_plan(self, found: RegisteredSchema, declared: Declared) -> AvroPlan | str:
        plan = event_plan(found.text, found.references, self.schema, declared)
        if isinstance(plan, str) or plan is OMITTED or plan.has_texts == self.documents:
            return plan
        return f"its images are {'texts' if plan.has_texts else 'records'}, and the spec has another `documents`"

    def _key_plan(self, found: RegisteredSchema, declared: Declared) -> AvroPlan | str:
        schema = pa.schema([("id", pa.string())]) if self.documents else self.schema
        return key_plan(found.text, found.references, schema, declared)

    def _decoded(
        self, values: pa.Array, places: Ints, outcome: Outcome, plan_of: PlanOf
    ) -> Iterator[tuple[AvroPlan, Ints, pa.RecordBatch]]:
        """Yield the records of each writer's schema. Adds bad and omitted records, and the schemas, to the outcome."""
        header = self.writers.header
        ids, marked = header.keys(values)
        outcome.reject(places[~marked], header.missing)
        declared = tuple(self.types.items())
        for key, writer in self.writers.find(np.unique(ids[marked]).tolist()).items():
            name = header.schema_name.format(key)
            outcome.schemas[name] = writer.fingerprint
            chosen = marked & (ids == np.uint64(key))
            found = writer.registered
            plan = writer.schema if isinstance(writer.schema, str) or found is None else plan_of(found, declared)
            if plan is OMITTED:
                outcome.omit(places[chosen])
            elif isinstance(plan, AvroPlan):
                group = values if chosen.all() else values.filter(pa.array(chosen))
                decoded = AvroFormat(plan.reader, self.writers).decode(group)
                kept = np.ones(len(group), np.bool_)
                kept[[each.index for each in decoded.bad]] = False
                of_group = places[chosen]
                outcome.reject_each(of_group, {each.index: each.reason for each in decoded.bad})
                yield plan, of_group[kept], decoded.rows
            else:
                outcome.reject(places[chosen], f"written with {name}: {plan}")


def _source(found: pa.StructArray | None, length: int) -> pa.StructArray:
    """Return the parts of SOURCE. A part of another type is null."""
    parts = {} if found is None else dict(zip((each.name for each in found.type), found.flatten(), strict=True))
    columns = [_part(parts.get(each.name), each.type, length) for each in SOURCE]
    return pa.StructArray.from_arrays(columns, fields=list(SOURCE))


def _part(column: pa.Array | None, kind: pa.DataType, length: int) -> pa.Array:
    is_number = column is not None and pa.types.is_integer(column.type) and kind == pa.int64()
    if column is None or not (is_number or column.type == kind):
        return pa.nulls(length, kind)
    return column.cast(kind)
