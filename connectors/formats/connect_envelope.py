"""Records of Kafka Connect's JsonConverter, by their schemas.

The rest of a record behind its head is its payload only if the record is as JsonConverter writes it: the schema first,
nothing behind.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.connect_heads import BAD_SCHEMA, KEPT, heads_of, is_kept, payloads_of, read_head
from connectors.formats.spans import Flags, Ints

NO_ENVELOPE: Final = "not in the envelope of Connect's JsonConverter: its `schema` first, then its `payload`"
_DEEPEST: Final = 64


@dataclass(frozen=True, slots=True)
class Enveloped:
    """Payloads of records with one schema."""

    places: Ints  # in the batch
    payloads: pa.Array  # binary
    schema: str  # JSON text with sorted keys; `null` for records without a schema
    reason: str = ""  # why all of them are bad


def split(values: pa.Array, places: Ints) -> Iterator[Enveloped]:
    """Yield the payloads of a binary column without nulls, by schema. Each value is in one of the groups."""
    heads, numbers = heads_of(values)
    for number, head in enumerate(heads):
        chosen = numbers == number
        if not chosen.any():
            continue
        found = places if chosen.all() else places[chosen]
        group = values if chosen.all() else values.filter(pa.array(chosen))
        schema, reason = ("", NO_ENVELOPE) if head is None else _schema_of(head)
        if head is None or reason:
            yield Enveloped(found, group, schema, reason)
            continue
        payloads, complete = _payloads(group, len(head))
        if not complete.all():
            yield Enveloped(found[~complete], group.filter(pa.array(~complete)), schema, NO_ENVELOPE)
            found, payloads = found[complete], payloads.filter(pa.array(complete))
        yield Enveloped(found, payloads, schema)


def _schema_of(head: bytes) -> tuple[str, str]:
    return _parsed(head) if is_kept(head) else _parsed.__wrapped__(head)


@lru_cache(KEPT)
def _parsed(head: bytes) -> tuple[str, str]:
    """Return the text of the schema, and why it is not usable; one of both is empty."""
    try:
        schema, has_more = read_head(head)
        if has_more:
            return "", NO_ENVELOPE
        if schema is not None and not is_struct(schema):
            return "", BAD_SCHEMA
        return json.dumps(schema, sort_keys=True), ""
    except (ValueError, RecursionError):
        return "", BAD_SCHEMA


def is_struct(schema: Any, depth: int = 0) -> bool:
    """Whether any JSON is the schema of a Connect struct, and each of its parts is a schema of Connect."""
    if not isinstance(schema, dict) or schema.get("type") != "struct":
        return False
    return _is_schema(schema, depth)


def _is_schema(schema: Any, depth: int) -> bool:
    if depth > _DEEPEST or not isinstance(schema, dict) or not isinstance(schema.get("type"), str):
        return False
    match schema["type"]:
        case "struct":
            fields = schema.get("fields")
            if not isinstance(fields, list) or not all(isinstance(each, dict) for each in fields):
                return False
            names = [each.get("field") for each in fields]
            is_named = all(isinstance(name, str) for name in names) and len(set(names)) == len(names)
            return is_named and all(_is_schema(each, depth + 1) for each in fields)
        case "array":
            return _is_schema(schema.get("items"), depth + 1)
        case "map":
            return _is_schema(schema.get("keys"), depth + 1) and _is_schema(schema.get("values"), depth + 1)
    return True


def _payloads(values: pa.Array, size: int) -> tuple[pa.Array, Flags]:
    """Return each value without `size` bytes at its begin and the brace that ends it, and whether it has the brace."""
    payloads, complete = payloads_of(values, size)
    if complete.all():
        return payloads, complete
    return payloads_of(pc.ascii_rtrim(values.view(pa.string()), " \t\r\n").view(pa.binary()), size)
