"""The format `json` with `envelope: connect`: the payloads of Kafka Connect's JsonConverter."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.api.decoding import Decoded
from connectors.formats.casting import Faults, add_faults
from connectors.formats.connect_envelope import split
from connectors.formats.connect_readings import ConnectReading, NoScaleError, connect_reading, fields_of
from connectors.formats.json_values import JsonFormat
from connectors.formats.outcome import Outcome
from connectors.formats.spans import Ints

_PLANS: Final = 500
"""Pairs of a record's schema and the columns, whose readings a process keeps."""
_NULL: Final = b"null"


@dataclass(frozen=True)
class ConnectJsonFormat:
    """One object in Connect's envelope per value. Its `schema` part states what numbers and texts of columns are.

    A payload that is null is a row of nulls, as a record without a value, or bad where a column is NOT NULL. Bad is
    also a value without the envelope, and a schema that is not of a struct.
    """

    schema: pa.Schema

    def decode(self, values: pa.Array) -> Decoded:
        """Decode a batch, all records with one schema at once."""
        outcome = Outcome(self.schema)
        values, given = outcome.take_tombstones(values)
        for group in split(values, given):
            if group.reason:
                outcome.reject(group.places, group.reason)
                continue
            plan = _plan(self.schema, group.schema)
            if isinstance(plan, str):
                outcome.reject(group.places, plan)
            else:
                self._add(outcome, group.places, group.payloads, plan)
        return outcome.decoded()

    def _add(self, outcome: Outcome, places: Ints, payloads: pa.Array, plan: Sequence[ConnectReading]) -> None:
        wire = pa.schema([field.with_type(each.wire) for field, each in zip(self.schema, plan, strict=True)])
        is_null = pc.equal(payloads, pa.scalar(_NULL, pa.binary()))
        decoded = JsonFormat(wire).decode(pc.if_else(is_null, pa.scalar(None, pa.binary()), payloads))
        if decoded.bad:
            outcome.reject_each(places, {each.index: each.reason for each in decoded.bad})
            kept = np.ones(len(places), np.bool_)
            kept[[each.index for each in decoded.bad]] = False
            places = places[kept]
        faults: Faults = {}
        columns = []
        for name, values, each in zip(self.schema.names, decoded.rows.columns, plan, strict=True):
            if each.convert is not None:
                values, wrong = each.convert(values)
                add_faults(faults, wrong, f"field {name}: {each.reason}")
            columns.append(values)
        outcome.add(places, pa.RecordBatch.from_arrays(columns, schema=self.schema), faults)


@lru_cache(_PLANS)
def _plan(schema: pa.Schema, of_record: str) -> tuple[ConnectReading, ...] | str:
    """Return the reading of each column, or why no record with this schema can be read."""
    described = json.loads(of_record)
    fields = {} if described is None else fields_of(described)
    try:
        return tuple(connect_reading(field.type, fields.get(field.name)) for field in schema)
    except NoScaleError as error:
        return str(error)
