"""How the values of a column become its type, by the schema of Kafka Connect that a record brings.

JSON has neither bytes nor times. JsonConverter writes a Decimal as the base64 text of its unscaled number, and Date,
Time and Timestamp as whole numbers. The schema states which of them a number or a text is, at any depth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from connectors.formats.casting import flags
from connectors.formats.debezium.readings import reading_of
from connectors.formats.debezium.written import of_connect
from connectors.formats.spans import Flags

Convert = Callable[[pa.Array], tuple[pa.Array, Flags]]
"""Returns a column, and where a value does not fit, which is null then. Null stays null."""


class NoScaleError(ValueError):
    """A Decimal whose schema states no scale from 0 on: its value is not known."""


@dataclass(frozen=True, slots=True)
class ConnectReading:
    """How one column is read."""

    wire: pa.DataType  # of the values in JSON
    convert: Convert | None = None  # None: these are the column
    reason: str = ""  # why a value is wrong


def connect_reading(target: pa.DataType, schema: Mapping[str, Any] | None) -> ConnectReading:
    """Return the reading of a column of the type `target`. Pure. Raises NoScaleError.

    `schema`: Connect's, of the column; None if the record's schema lacks the column, or the record has no schema.
    """
    if schema is None:
        return ConnectReading(target)
    if pt.is_struct(target) and schema["type"] == "struct":
        return _struct(target, schema)
    if pt.is_list(target) and schema["type"] == "array":
        return _list(target, connect_reading(target.value_type, schema["items"]))
    written = of_connect(schema)
    if written.name == "Decimal" and pt.is_decimal(target) and written.scale is None:
        raise NoScaleError("its `schema` has a Decimal without a scale")
    found = reading_of(target, written)
    return ConnectReading(found.wire, found.convert, found.reason)


def fields_of(schema: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the schemas of the fields of a struct, by name."""
    return {each["field"]: each for each in schema["fields"]}


def _struct(target: pa.StructType, schema: Mapping[str, Any]) -> ConnectReading:
    fields = fields_of(schema)
    readings = [connect_reading(child.type, fields.get(child.name)) for child in target]
    if all(each.convert is None for each in readings):
        return ConnectReading(target)
    wire = pa.struct([child.with_type(each.wire) for child, each in zip(target, readings, strict=True)])

    def convert(values: pa.StructArray) -> tuple[pa.Array, Flags]:
        wrong = np.zeros(len(values), np.bool_)
        children = []
        for at, each in enumerate(readings):
            child = pc.struct_field(values, [at])
            if each.convert is not None:
                child, lost = each.convert(child)
                wrong |= lost
            children.append(child)
        return pa.StructArray.from_arrays(children, fields=list(target), mask=values.is_null()), wrong

    return ConnectReading(wire, convert, _first_reason(target, readings))


def _first_reason(target: pa.StructType, readings: list[ConnectReading]) -> str:
    inside = [(child.name, each) for child, each in zip(target, readings, strict=True) if each.convert is not None]
    if len(inside) == 1:
        return f"{inside[0][0]}: {inside[0][1].reason}"
    return "one of " + ", ".join(name for name, _ in inside) + " does not fit its type"


def _list(target: pa.ListType, items: ConnectReading) -> ConnectReading:
    convert_items = items.convert
    if convert_items is None:
        return ConnectReading(target)

    def convert(values: pa.ListArray) -> tuple[pa.Array, Flags]:
        found, wrong_items = convert_items(values.values)
        ends = values.offsets.to_numpy()
        before = np.concatenate(([0], np.cumsum(wrong_items)))
        wrong = (before[ends[1:]] > before[ends[:-1]]) & flags(values.is_valid())
        return pa.ListArray.from_arrays(values.offsets, found, type=target, mask=values.is_null()), wrong

    return ConnectReading(pa.list_(target.value_field.with_type(items.wire)), convert, f"[]: {items.reason}")
