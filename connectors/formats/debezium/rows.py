"""The columns of a table's rows, from the images of rows that an event has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from connectors.formats.avro.cursor import Flags
from connectors.formats.debezium.casting import cast_each, flags, is_castable
from connectors.formats.debezium.outcome import Faults, add_faults
from connectors.formats.debezium.readings import Reading, reading_of
from connectors.formats.debezium.written import Written
from connectors.formats.json_values import JsonFormat
from connectors.spark_types import spark_type

Types = Mapping[str, Written]
"""The types that columns are written in, by column."""


class RowReader(Protocol):
    """Converts images of rows to columns. Pure and picklable."""

    @property
    def wire(self) -> pa.DataType:
        """The type of an image."""

    def columns(self, images: pa.Array, faults: Faults) -> list[pa.Array]:
        """Return a column for each of the schema's, and add the images with a value that does not fit to `faults`."""


@dataclass(frozen=True, slots=True)
class Struct:
    """Images with a field for each column: of relational databases."""

    schema: pa.Schema
    readings: tuple[Reading, ...]  # by column

    @classmethod
    def of(cls, schema: pa.Schema, declared: Types, found: Types | None = None) -> Struct:
        """`declared`: types of the spec. `found`: of the records' schema; None if they have none."""
        known = {name: declared.get(name) or (found or {}).get(name) for name in schema.names}
        return cls(schema, tuple(reading_of(field.type, known[field.name]) for field in schema))

    @property
    def wire(self) -> pa.DataType:
        """One field for each column. NOT NULL is checked later: the image of a deleted row may lack columns."""
        return pa.struct([(name, each.wire) for name, each in zip(self.schema.names, self.readings, strict=True)])

    def columns(self, images: pa.Array, faults: Faults) -> list[pa.Array]:
        return [
            _column(pc.struct_field(images, [at]), field, reading, faults)
            for at, (field, reading) in enumerate(zip(self.schema, self.readings, strict=True))
        ]


def _column(values: pa.Array, field: pa.Field, reading: Reading, faults: Faults) -> pa.Array:
    if reading.convert is None:
        return values
    column, wrong = reading.convert(values)
    add_faults(faults, wrong, f"{field.name}: {reading.reason}")
    return column


@dataclass(frozen=True, slots=True)
class Document:
    """Images that are the JSON text of a document: MongoDB."""

    schema: pa.Schema

    @property
    def wire(self) -> pa.DataType:
        return pa.string()

    def columns(self, images: pa.Array, faults: Faults) -> list[pa.Array]:
        decoded = JsonFormat(self.schema).decode(images.cast(pa.binary()))
        if not decoded.bad:
            return list(decoded.rows.columns)
        for each in decoded.bad:
            faults.setdefault(each.index, each.reason)
        bad = {each.index for each in decoded.bad}
        kept = iter(range(len(images)))
        places = pa.array([None if at in bad else next(kept) for at in range(len(images))], pa.int64())
        return [column.take(places) for column in decoded.rows.columns]


def converted(values: pa.Array, reading: Reading, target: pa.DataType) -> Reading | str:
    """Return the reading for values of a type that is not its wire type, or why it cannot be read."""
    if reading.convert is not None and _takes(reading.wire, values.type):
        return reading
    if not is_castable(values.type, target):
        return f"written as {spark_type(values.type)}, and the schema has {spark_type(target)}"
    return Reading(values.type, lambda column: cast_each(column, target), f"does not fit {spark_type(target)}")


def _takes(wire: pa.DataType, kind: pa.DataType) -> bool:
    return bool((pt.is_integer(wire) and pt.is_integer(kind)) or wire == kind)


PLACEHOLDER: Final = "__debezium_unavailable_value"
_PLACEHOLDERS: Final = (PLACEHOLDER, f'{{"{PLACEHOLDER}":"{PLACEHOLDER}"}}')


def unavailable(column: pa.Array) -> Flags | None:
    """Return where a value is the placeholder of a value that was not logged; None if no value is one.

    PostgreSQL does not log long values that an update leaves as they are, nor Oracle large objects.
    """
    kind = column.type
    if pt.is_list(kind) and kind.value_type == pa.string():
        inside = pc.equal(column.flatten(), PLACEHOLDER)
        owners = pc.list_parent_indices(column).filter(inside)
        return flags(pc.is_in(pa.array(range(len(column)), owners.type), owners)) if len(owners) else None
    if kind not in (pa.string(), pa.binary()):
        return None
    found = pc.is_in(column, pa.array(_PLACEHOLDERS, pa.string()).cast(kind))
    return flags(found) if found.true_count else None


def null_where(column: pa.Array, chosen: Flags) -> pa.Array:
    """Return the column with null at some places."""
    return pc.if_else(pa.array(chosen), pa.scalar(None, column.type), column)


def required(schema: pa.Schema, columns: Sequence[pa.Array], chosen: Flags, faults: Faults) -> None:
    """Add the chosen rows in which a column that is NOT NULL is null to `faults`."""
    for field, column in zip(schema, columns, strict=True):
        if not field.nullable and column.null_count:
            add_faults(faults, flags(column.is_null()) & chosen, f"{field.name} is NOT NULL, and null or absent")
