"""The columns of a table's rows, from the images of rows that an event has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from connectors.formats.casting import Faults, add_faults, flags
from connectors.formats.debezium.readings import Reading, reading_of
from connectors.formats.debezium.written import Written
from connectors.formats.json_values import JsonFormat
from connectors.formats.outcome import with_nulls
from connectors.formats.spans import Flags

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
    readings: tuple[Reading | None, ...]  # by column; None: the images lack the column

    @classmethod
    def of(cls, schema: pa.Schema, declared: Types, found: Types | None = None) -> Struct:
        """`declared`: types of the spec. `found`: of the records' schema; None if they have none."""
        known = {name: declared.get(name) or (found or {}).get(name) for name in schema.names}
        return cls(schema, tuple(reading_of(field.type, known[field.name]) for field in schema))

    @property
    def wire(self) -> pa.DataType:
        """One field for each column. NOT NULL is checked later: the image of a deleted row may lack columns."""
        named = zip(self.schema.names, self.readings, strict=True)
        return pa.struct([(name, each.wire) for name, each in named if each is not None])

    def columns(self, images: pa.Array, faults: Faults) -> list[pa.Array]:
        return [
            _column(images, field, reading, faults) for field, reading in zip(self.schema, self.readings, strict=True)
        ]


def _column(images: pa.StructArray, field: pa.Field, reading: Reading | None, faults: Faults) -> pa.Array:
    if reading is None:
        return pa.nulls(len(images), field.type)
    values = pc.struct_field(images, [field.name])
    if reading.convert is None:
        return values
    column, wrong = reading.convert(values)
    add_faults(faults, wrong, f"{field.name}: {reading.reason}")
    return column


@dataclass(frozen=True, slots=True)
class Document:
    """Images that are the JSON text of a document: MongoDB."""

    schema: pa.Schema

    @classmethod
    def of_keys(cls, schema: pa.Schema) -> Document:
        """Return the reader of `key_images`."""
        return cls(pa.schema([each.with_nullable(True) for each in schema]))

    @staticmethod
    def key_images(ids: pa.Array) -> pa.Array:
        """Return documents of an `_id` only, from the texts of keys, which are in JSON."""
        return pc.binary_join_element_wise('{"_id":', pc.fill_null(ids, "null"), "}", "")

    @property
    def wire(self) -> pa.DataType:
        return pa.string()

    def columns(self, images: pa.Array, faults: Faults) -> list[pa.Array]:
        decoded = JsonFormat(self.schema).decode(images.cast(pa.binary()))
        if not decoded.bad:
            return list(decoded.rows.columns)
        for each in decoded.bad:
            faults.setdefault(each.index, each.reason)
        is_row = np.ones(len(images), np.bool_)
        is_row[[each.index for each in decoded.bad]] = False
        return [with_nulls(column, pa.array(is_row)) for column in decoded.rows.columns]


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
