"""Records that Connect's JsonConverter wrote: with a `schema` in front of the `payload`, or as the payload only.

The schema takes most of the bytes, and is equal in most records of a topic. So it is cut off and parsed once. What is
left of a record is its payload only if the record is as JsonConverter writes it: the schema first, nothing behind.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.casting import flags
from connectors.formats.debezium.written import Written, columns_of, of_connect
from connectors.formats.outcome import Outcome
from connectors.formats.spans import Flags, Ints, binary_of, content_of

_KEPT: Final = 500
"""Schemas that a process keeps."""
_LONGEST_KEPT: Final = 100_000
"""Bytes of a schema that is kept."""
_BEGIN: Final = r'^[ \t\r\n]*\{[ \t\r\n]*"(schema|payload)"[ \t\r\n]*:'
_HEAD: Final = r'(?P<head>^[ \t\r\n]*\{[ \t\r\n]*"schema"[ \t\r\n]*:(?s:.*?)"payload"[ \t\r\n]*:[ \t\r\n]*)'
_FIRST_HEAD: Final = re.compile(_HEAD.encode())
_SCHEMA: Final = b'{"schema":'
_PAYLOAD: Final = b'"payload":'
_SPACES: Final = np.frombuffer(b" \t\r\n", np.uint8)
_CUT: Final = re.compile(rb',[ \t\r\n]*"payload"[ \t\r\n]*:[ \t\r\n]*$')

_NO_PAYLOAD: Final = "it begins with `schema` or `payload`, and is not as Connect's JsonConverter writes it"
_BAD_SCHEMA: Final = "its `schema` is not one of Connect's"


SCALAR: Final = ""
"""Among the names of columns: the payload is a number or a text, whose type has this name in `Group.types`."""


@dataclass(frozen=True, slots=True)
class Group:
    """Records whose schemas state the same types."""

    places: Ints  # in the batch
    payloads: pa.Array  # binary
    types: Mapping[str, Written] | None  # by column; None without a schema


def groups(values: pa.Array, places: Ints, names: Collection[str], outcome: Outcome) -> Iterator[Group]:
    """Yield the payloads of these values, in groups. `values`: a binary column without nulls. `names`: of columns.

    Adds values that begin as JsonConverter's and differ later to the bad records.
    """
    wrapped = flags(pc.match_substring_regex(values, _BEGIN))
    if not wrapped.any():
        yield Group(places, values, None)
        return
    if not wrapped.all():
        yield Group(places[~wrapped], values.filter(pa.array(~wrapped)), None)
        values, places = values.filter(pa.array(wrapped)), places[wrapped]
    heads, numbers = _heads(values)
    types = [_types_of(head, frozenset(names)) for head in heads]
    sizes = np.array([len(head or b"") for head in heads], np.int64)[numbers]
    kinds = {kind: number for number, kind in enumerate(dict.fromkeys(types))}
    of_each = np.array([kinds[each] for each in types], np.int64)[numbers]
    for kind, number in kinds.items():
        chosen = of_each == number
        if isinstance(kind, str):
            outcome.reject(places[chosen], kind)
            continue
        payloads, complete = _payloads(values.filter(pa.array(chosen)), sizes[chosen])
        found = places[chosen]
        outcome.reject(found[~complete], _NO_PAYLOAD)
        yield Group(found[complete], payloads.filter(pa.array(complete)), None if kind is None else dict(kind))


def heads_of(values: pa.Array) -> tuple[list[bytes | None], Ints]:
    """Return the different schema parts of a binary column without nulls, and by value the number of its part.

    The part is the text up to the payload. None: a value has none.
    """
    wrapped = flags(pc.match_substring_regex(values, _BEGIN))
    if wrapped.all() and len(values):
        return _heads(values)
    numbers = np.zeros(len(values), np.int64)
    if not wrapped.any():
        return [None], numbers
    found, numbers[wrapped] = _heads(values.filter(pa.array(wrapped)))
    numbers[~wrapped] = len(found)
    return [*found, None], numbers


def _heads(values: pa.Array) -> tuple[list[bytes | None], Ints]:
    """Return the different texts before the payloads, and by value the number of its text. None: a value has none."""
    first = _FIRST_HEAD.match(values[0].as_py())
    head = first["head"] if first else None
    if head is not None:
        is_same = flags(pc.starts_with(values, head))
        if is_same.all():
            return [head], np.zeros(len(values), np.int64)
    found = (_compact_heads(values) or pc.struct_field(pc.extract_regex(values, _HEAD), [0])).dictionary_encode()
    heads = [*found.dictionary.to_pylist(), None]
    return heads, found.indices.fill_null(len(heads) - 1).to_numpy(zero_copy_only=False).astype(np.int64)


def _compact_heads(values: pa.Array) -> pa.Array | None:
    """Return what `_HEAD` finds, ten times as fast; None if a value is not written as JsonConverter writes it."""
    sizes = pc.find_substring(values, _PAYLOAD).to_numpy()
    is_compact = flags(pc.starts_with(values, _SCHEMA)) & (sizes >= 0)
    if not is_compact.all() or (pc.find_substring(values, _PAYLOAD[:-1]).to_numpy() != sizes).any():
        return None
    data, starts, _ = content_of(values)
    ends = starts + sizes + len(_PAYLOAD)
    return None if np.isin(data[ends], _SPACES).any() else binary_of(data, (starts, ends))


def _types_of(head: bytes | None, names: frozenset[str]) -> tuple[tuple[str, Written], ...] | str | None:
    return _types(head, names) if is_kept(head) else _types.__wrapped__(head, names)


@lru_cache(_KEPT)
def _types(head: bytes | None, names: frozenset[str]) -> tuple[tuple[str, Written], ...] | str | None:
    """Return the types of these columns; None for a schema that is null; or why the records are bad."""
    try:
        schema = _parsed(head)
    except _BadHeadError as error:
        return error.reason
    if schema is None:
        return None
    found = columns_of(schema)
    if found is None and SCALAR in names and isinstance(schema, dict) and "fields" not in schema:
        found = {SCALAR: of_connect(schema)}
    if found is None:
        return _BAD_SCHEMA
    return tuple(sorted(((name, found[name]) for name in names & found.keys()), key=lambda each: each[0]))


def schema_in(head: bytes | None) -> Mapping[str, Any] | str | None:
    """Return the schema of a struct; None for a schema that is null; or why the records are bad."""
    try:
        schema = _parsed(head)
    except _BadHeadError as error:
        return error.reason
    if schema is None:
        return None
    found: Mapping[str, Any] | str = _BAD_SCHEMA if columns_of(schema) is None else schema
    return found


class _BadHeadError(Exception):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def _parsed(head: bytes | None) -> Any:
    """Return the schema as JSON has it."""
    if head is None:
        raise _BadHeadError(_NO_PAYLOAD)
    try:
        document: Any = json.loads(_CUT.sub(b"}", head))
        schema = document.pop("schema")
    except (ValueError, RecursionError, AttributeError, KeyError):
        raise _BadHeadError(_BAD_SCHEMA) from None
    if document:
        raise _BadHeadError(_NO_PAYLOAD)
    return schema


def is_kept(head: bytes | None) -> bool:
    """Whether a process may keep a result for this schema part in a cache."""
    return head is None or len(head) <= _LONGEST_KEPT


def _payloads(values: pa.Array, sizes: Ints) -> tuple[pa.Array, Flags]:
    """Return each value without its head and its last byte, and whether this byte is the brace that ends it."""
    offsets = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4)
    data = np.frombuffer(values.buffers()[2] or b"\0", np.uint8)
    starts, ends = offsets[:-1] + sizes, offsets[1:] - 1
    complete = (ends > starts) & (data[np.maximum(ends, 0)] == ord("}"))
    return binary_of(data, (starts, np.maximum(starts, ends))), complete
