"""Records that Connect's JsonConverter wrote: with a `schema` in front of the `payload`, or as the payload only.

What is left of a record behind its head is its payload only if the record is as JsonConverter writes it: the schema
first, nothing behind.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.casting import flags
from connectors.formats.connect_heads import BAD_SCHEMA, KEPT, heads_of, is_kept, payloads_of, read_head
from connectors.formats.debezium.written import Written, columns_of, of_connect
from connectors.formats.outcome import Outcome
from connectors.formats.spans import Ints

_BEGIN: Final = r'^[ \t\r\n]*\{[ \t\r\n]*"(schema|payload)"[ \t\r\n]*:'
_NO_PAYLOAD: Final = "it begins with `schema` or `payload`, and is not as Connect's JsonConverter writes it"

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
    heads, numbers = heads_of(values)
    types = [_types_of(head, frozenset(names)) for head in heads]
    sizes = np.array([len(head or b"") for head in heads], np.int64)[numbers]
    kinds = {kind: number for number, kind in enumerate(dict.fromkeys(types))}
    of_each = np.array([kinds[each] for each in types], np.int64)[numbers]
    for kind, number in kinds.items():
        chosen = of_each == number
        if isinstance(kind, str):
            outcome.reject(places[chosen], kind)
            continue
        payloads, complete = payloads_of(values.filter(pa.array(chosen)), sizes[chosen])
        found = places[chosen]
        outcome.reject(found[~complete], _NO_PAYLOAD)
        yield Group(found[complete], payloads.filter(pa.array(complete)), None if kind is None else dict(kind))


def _types_of(head: bytes | None, names: frozenset[str]) -> tuple[tuple[str, Written], ...] | str | None:
    return _types(head, names) if is_kept(head) else _types.__wrapped__(head, names)


@lru_cache(KEPT)
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
        return BAD_SCHEMA
    return tuple(sorted(((name, found[name]) for name in names & found.keys()), key=lambda each: each[0]))


def schema_in(head: bytes | None) -> Mapping[str, Any] | str | None:
    """Return the schema of a struct; None for a schema that is null; or why the records are bad."""
    try:
        schema = _parsed(head)
    except _BadHeadError as error:
        return error.reason
    if schema is None:
        return None
    found: Mapping[str, Any] | str = BAD_SCHEMA if columns_of(schema) is None else schema
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
        schema, has_more = read_head(head)
    except ValueError as error:
        raise _BadHeadError(str(error)) from None
    if has_more:
        raise _BadHeadError(_NO_PAYLOAD)
    return schema
