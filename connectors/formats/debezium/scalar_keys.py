"""Keys of records that are a number or a text, and not an object: the value of one column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from connectors.formats.casting import Faults, add_faults, cast_each, flags
from connectors.formats.debezium.avro_events import AvroEvents
from connectors.formats.debezium.events import KeyRows
from connectors.formats.debezium.json_events import JsonEvents
from connectors.formats.debezium.readings import Reading
from connectors.formats.debezium.rows import Struct
from connectors.formats.debezium.schema_part import SCALAR, groups
from connectors.formats.json_values import JsonFormat
from connectors.formats.outcome import Outcome
from connectors.formats.spans import as_text

_SCALAR: Final = r'^[ \t\r\n]*(-?[0-9][0-9.eE+-]*|"([^"\\]|\\.)*")[ \t\r\n]*$'
"""JSON of one number or one text. Anything else could bring further fields into the document below."""

_NO_SCALAR: Final = "not one number or text in JSON"
_WHOLE: Final = r"^-?[0-9]+$"


@dataclass(frozen=True, slots=True)
class JsonScalars:
    """A number or a text in JSON, as Connect's JsonConverter writes it, with a schema or without."""

    records: JsonEvents
    column: str

    def rows(self, keys: pa.Array, outcome: Outcome) -> Iterator[KeyRows]:
        """Yield the column. Other keys are added to the bad records."""
        field = self.records.schema.field(self.column)
        for group in groups(keys, np.arange(len(keys)), (SCALAR,), outcome):
            is_scalar = flags(pc.match_substring_regex(group.payloads, _SCALAR))
            outcome.reject(group.places[~is_scalar], _NO_SCALAR)
            found = {self.column: group.types[SCALAR]} if group.types else {}
            reader = Struct.of(pa.schema([field]), self.records.types, found)
            documents = pc.binary_join_element_wise(b'{"v":', group.payloads.filter(pa.array(is_scalar)), b"}", b"")
            decoded = JsonFormat(pa.schema([("v", reader.wire.field(0).type)])).decode(documents)
            places = group.places[is_scalar]
            outcome.reject_each(places, {each.index: each.reason for each in decoded.bad})
            yield self._rows(places[decoded.record_indices(len(documents))], decoded.rows.column(0), reader)

    def _rows(self, places: np.ndarray, values: pa.Array, reader: Struct) -> KeyRows:
        images = pa.StructArray.from_arrays([values], names=[self.column])
        return KeyRows(places, images, _only(self.records.schema, self.column, reader.readings[0]))


@dataclass(frozen=True, slots=True)
class TextScalars:
    """Text in UTF-8 as it is, as Connect's StringConverter writes it. A whole number is written in digits."""

    schema: pa.Schema  # of the table's rows
    column: str

    def rows(self, keys: pa.Array, outcome: Outcome) -> Iterator[KeyRows]:
        """Yield the column. Other keys are added to the bad records."""
        texts, wrong = as_text(keys)
        faults: Faults = {}
        if wrong is not None:
            add_faults(faults, wrong, "not UTF-8")
        kind = self.schema.field(self.column).type
        if pt.is_integer(kind):
            odd = ~flags(pc.match_substring_regex(texts, _WHOLE))
            texts, lost = cast_each(pc.if_else(pa.array(odd), pa.scalar(None, pa.string()), texts), kind)
            add_faults(faults, odd | lost, "not a whole number that fits its column")
        places = np.arange(len(keys))
        outcome.reject_each(places, faults)
        left = np.ones(len(keys), np.bool_)
        left[list(faults)] = False
        images = pa.StructArray.from_arrays([texts.filter(pa.array(left))], names=[self.column])
        yield KeyRows(places[left], images, _only(self.schema, self.column, Reading(kind)))


@dataclass(frozen=True, slots=True)
class AvroScalars:
    """A number or a text in Avro, behind the id of its schema."""

    records: AvroEvents
    column: str

    def rows(self, keys: pa.Array, outcome: Outcome) -> Iterator[KeyRows]:
        """Yield the column. Other keys are added to the bad records."""
        yield from self.records.scalars(keys, self.column, outcome)


def _only(schema: pa.Schema, column: str, reading: Reading | None) -> Struct:
    """Return a reader of images with one column."""
    return Struct(schema, tuple(reading if name == column else None for name in schema.names))
