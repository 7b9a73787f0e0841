"""The format `json` with a schema registry: the id of a JSON Schema is in front of each JSON text.

Source: Confluent Schema Registry, "Wire format": a zero byte, the id, and the text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from connectors.api.contracts import Finding
from connectors.api.decoding import Decoded
from connectors.formats.framing import CONFLUENT
from connectors.formats.json_values import JsonFormat
from connectors.formats.outcome import Outcome
from connectors.formats.registered import fingerprint_of, pinned_schemas, unusable
from connectors.formats.spans import binary_of, content_of
from connectors.schema_registry.client import Connection, RegisteredSchema, check_registry

_KIND: Final = "JSON"
_CHECKED: Final = 1_000
"""Pairs of a registered schema and the columns, whose check a process keeps."""


@dataclass(frozen=True)
class RegisteredJsonFormat:
    """JSON objects behind the id of a JSON Schema.

    The id must name a JSON Schema that the registry has. The schema in the registry does not validate the text: the
    columns of the spec do. Refused is a schema in which Connect's converter declares a DECIMAL column as bytes.
    """

    schema: pa.Schema
    registry: Connection
    pinned: Mapping[str, str] = field(default_factory=dict)

    @property
    def names_schemas(self) -> bool:
        """Each record names its schema."""
        return True

    def with_schemas(self, known: Mapping[str, str]) -> RegisteredJsonFormat:
        """Return this format with pinned schemas. See NamedSchemas."""
        return replace(self, pinned=known)

    def check(self) -> Sequence[Finding]:
        """Return the findings for `eos doctor`: whether the registry answers."""
        return [check_registry(self.registry)]

    def decode(self, values: pa.Array) -> Decoded:
        """Decode a batch, all records at once.

        Blocks where this process meets a schema for the first time. Raises SourceError if the registry does not answer.
        """
        outcome = Outcome(self.schema)
        values, given = outcome.take_tombstones(values)
        keys, usable = CONFLUENT.keys(values)
        outcome.reject(given[~usable], CONFLUENT.missing)
        found = pinned_schemas(self.registry, np.unique(keys[usable]).tolist(), self.pinned)
        for key, schema in found.items():
            name = CONFLUENT.schema_name.format(key)
            outcome.schemas[name] = fingerprint_of(schema)
            if reason := unusable(schema, _KIND) or _unreadable(schema, self.schema):
                chosen = usable & (keys == np.uint64(key))
                outcome.reject(given[chosen], f"written with {name}: {reason}")
                usable &= ~chosen
        places = given[usable]
        data, start, end = content_of(values if usable.all() else values.filter(pa.array(usable)))
        texts = binary_of(data, (start + CONFLUENT.size, end))
        decoded = JsonFormat(self.schema).decode(texts)
        outcome.reject_each(places, {each.index: each.reason for each in decoded.bad})
        is_row = np.ones(len(places), np.bool_)
        is_row[[each.index for each in decoded.bad]] = False
        outcome.add(places[is_row], decoded.rows, {})
        return outcome.decoded()


@lru_cache(_CHECKED)
def _unreadable(schema: RegisteredSchema | None, columns: pa.Schema) -> str:
    """Return why records of a JSON Schema would be read wrongly; empty if they are not."""
    assert schema is not None
    try:
        found = json.loads(schema.text)
    except (ValueError, RecursionError):
        return ""  # it declares nothing
    column = next(_decimals_in_bytes(found, columns, ""), "")
    return column and f"its field {column} is written as bytes, and the column is DECIMAL; use BINARY"


def _decimals_in_bytes(schema: Any, fields: Sequence[pa.Field], path: str) -> Iterator[str]:
    """Yield the columns of decimals whose schema declares Connect's type `bytes`."""
    for described in _alternatives(schema):
        given = described.get("properties")
        properties = given if isinstance(given, dict) else {}
        for each in fields:
            inner = properties.get(each.name)
            if pt.is_decimal(each.type) and any(map(_is_base64, _alternatives(inner))):
                yield f"{path}{each.name}"
            elif pt.is_struct(each.type):
                yield from _decimals_in_bytes(inner, list(each.type), f"{path}{each.name}.")


def _is_base64(schema: Mapping[str, Any]) -> bool:
    """Whether Connect's converter wrote bytes as text; with `decimal.format: NUMERIC` they are a number."""
    return schema.get("connect.type") == "bytes" and schema.get("type") != "number"


def _alternatives(schema: Any) -> list[dict[str, Any]]:
    """Return the objects of a JSON Schema: itself, and the members of its `oneOf`."""
    if not isinstance(schema, dict):
        return []
    members = schema.get("oneOf")
    return [schema, *(each for each in (members if isinstance(members, list) else ()) if isinstance(each, dict))]
