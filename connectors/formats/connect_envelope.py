"""Records of Kafka Connect's JsonConverter: `{"schema": …, "payload": …}`.

The schema is equal in most records of a topic. So the bytes in front of the payload are cut off, and parsed once. The
rest of a record is its payload only if the record is as JsonConverter writes it: the schema first, nothing behind.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.spans import Flags, Ints, binary_of

NO_ENVELOPE: Final = "not in the envelope of Connect's JsonConverter: its `schema` first, then its `payload`"
_BAD_SCHEMA: Final = "its `schema` is not one of Connect's"
_DEEPEST: Final = 64
_KEPT: Final = 500
"""Heads that a process keeps."""
_LONGEST_KEPT: Final = 100_000
"""Bytes of a head that is kept."""
_HEAD: Final = r'^[ \t\r\n]*\{[ \t\r\n]*"schema"[ \t\r\n]*:(?s:.*?)"payload"[ \t\r\n]*:[ \t\r\n]*'
_CUT: Final = re.compile(rb',[ \t\r\n]*"payload"[ \t\r\n]*:[ \t\r\n]*$')
_END: Final = r"[ \t\r\n]*\}[ \t\r\n]*$"


@dataclass(frozen=True, slots=True)
class Enveloped:
    """Payloads of records with one schema."""

    places: Ints  # in the batch
    payloads: pa.Array  # binary
    schema: str  # JSON text with sorted keys; `null` for records without a schema
    reason: str = ""  # why all of them are bad


def split(values: pa.Array, places: Ints) -> Iterator[Enveloped]:
    """Yield the payloads of a binary column without nulls, by schema. Each value is in one of the groups."""
    heads, numbers = _heads(values)
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


def _heads(values: pa.Array) -> tuple[list[bytes | None], Ints]:
    """Return the different texts in front of payloads, and by value the number of its text. None: a value has none."""
    if len(values) == 0:
        return [], np.empty(0, np.int64)
    first = re.match(_HEAD.encode(), values[0].as_py())
    if first is not None and pc.all(pc.starts_with(values, first[0])).as_py():
        return [first[0]], np.zeros(len(values), np.int64)
    found = pc.struct_field(pc.extract_regex(values, f"(?P<head>{_HEAD})"), [0]).dictionary_encode()
    heads = [*found.dictionary.to_pylist(), None]
    return heads, found.indices.fill_null(len(heads) - 1).to_numpy(zero_copy_only=False).astype(np.int64)


def _schema_of(head: bytes) -> tuple[str, str]:
    return _parsed(head) if len(head) <= _LONGEST_KEPT else _parsed.__wrapped__(head)


@lru_cache(_KEPT)
def _parsed(head: bytes) -> tuple[str, str]:
    """Return the text of the schema, and why it is not usable; one of both is empty."""
    try:
        document: Any = json.loads(_CUT.sub(b"}", head))
        schema = document.pop("schema")
        if document:
            return "", NO_ENVELOPE
        if schema is not None and not is_struct(schema):
            return "", _BAD_SCHEMA
        return json.dumps(schema, sort_keys=True), ""
    except (ValueError, RecursionError, AttributeError, KeyError):
        return "", _BAD_SCHEMA


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
    offsets = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4).astype(np.int64)
    data = np.frombuffer(values.buffers()[2] or b"\0", np.uint8)
    starts, ends = offsets[:-1] + size, offsets[1:] - 1
    complete = (ends > starts) & (data[np.maximum(ends, 0)] == ord("}"))
    if not complete.all():  # white space behind it
        lengths = pc.binary_length(pc.struct_field(pc.extract_regex(values, f"(?P<end>{_END})"), [0])).fill_null(0)
        ends = offsets[1:] - lengths.to_numpy()
        complete = (lengths.to_numpy() > 0) & (ends > starts)
    return binary_of(data, (starts, np.maximum(starts, ends))), complete
