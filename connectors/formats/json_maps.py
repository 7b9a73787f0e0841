"""JSON objects that become maps: their texts are rewritten as arrays of entries, which Arrow's parser can read.

`{"a": 1, "b": 2}` becomes `[{"key":"a","value": 1},{"key": "b","value": 2}]`. Only brackets, colons and commas of these
objects change. An object that is not well-formed in them is refused here: rewritten, it could become JSON by chance.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from connectors.formats.json_tokens import COLON, COMMA, OPEN, OPEN_LIST, QUOTE, Tokens, tokens_of
from connectors.formats.spans import Bytes, Flags, Ints, binary_of

KEY: Final = "key"
ITEM: Final = "value"
"""The names of the fields of an entry."""
_BEGIN, _MIDDLE, _NEXT, _END = b'[{"key":', b',"value":', b'},{"key":', b"}]"
_NOT_AN_OBJECT: Final = "expected object, found array"
_NOT_JSON: Final = "an object that is not JSON"


@dataclass(slots=True)
class _Node:
    """A type that has maps inside."""

    kind: pa.DataType
    fields: dict[str, int] = field(default_factory=dict)  # of a STRUCT: name -> node
    inside: int = -1  # of an ARRAY or MAP: the node of its items; -1: no maps inside


@lru_cache(100)
def _nodes(schema: pa.Schema) -> Sequence[_Node]:
    """Return the types with maps inside. The first one is the record."""
    nodes: list[_Node] = []

    def add(kind: pa.DataType) -> int:
        if not has_maps(kind):
            return -1
        nodes.append(_Node(kind))
        at = len(nodes) - 1
        if pt.is_struct(kind):
            nodes[at].fields = {each.name: add(each.type) for each in kind if has_maps(each.type)}
        else:
            nodes[at].inside = add(kind.item_type if pt.is_map(kind) else kind.value_type)
        return at

    add(pa.struct(list(schema)))
    return nodes


def has_maps(kind: pa.DataType) -> bool:
    """Whether a type is a map, or has one inside."""
    if pt.is_struct(kind):
        return any(has_maps(each.type) for each in kind)
    return has_maps(kind.value_type) if pt.is_list(kind) else bool(pt.is_map(kind))


def rewrite_maps(text: bytes, ends: Ints, schema: pa.Schema) -> bytes:
    """Return the texts with arrays of entries in place of the objects that are maps in the schema.

    `ends`: where each of the joined texts ends. Raises ValueError if a map is not a well-formed object.
    """
    tokens = tokens_of(np.frombuffer(text, np.uint8), ends)
    maps = _maps(tokens, _nodes(schema))
    return _rewritten(tokens, maps) if len(maps) else text


def _maps(tokens: Tokens, nodes: Sequence[_Node]) -> Ints:
    """Return the opening brackets of the objects that are maps."""
    opening = np.flatnonzero((tokens.kind == OPEN) | (tokens.kind == OPEN_LIST))
    node_of = np.full(len(tokens.at), -1, np.int64)
    node_of[opening[tokens.depth[opening] == 0]] = 0
    left = opening[tokens.depth[opening] > 0]
    depth = 1
    while True:  # one turn for each level of the schema
        here = left[(tokens.depth[left] == depth) & (node_of[tokens.parent[left]] >= 0)]
        if len(here) == 0:
            break
        of_parent = node_of[tokens.parent[here]]
        for number in np.unique(of_parent).tolist():
            chosen = here[of_parent == number]
            node = nodes[number]
            node_of[chosen] = _by_name(tokens, chosen, node) if node.fields else node.inside
        depth += 1
    is_map = np.array([bool(pt.is_map(each.kind)) for each in nodes])
    found: Ints = opening[(node_of[opening] >= 0) & is_map[node_of[opening]]]
    if (tokens.kind[found] != OPEN).any():
        raise ValueError(_NOT_AN_OBJECT)
    return found


def _by_name(tokens: Tokens, values: Ints, node: _Node) -> Ints:
    """Return the node of each value of an object, by its name. `values`: opening brackets."""
    names = values - 2  # a string and a colon are in front
    is_named = (names >= 0) & (tokens.kind[values - 1] == COLON) & (tokens.kind[names] == QUOTE)
    found = np.full(len(values), -1, np.int64)
    begins = names[is_named]
    coded = binary_of(tokens.text, (tokens.at[begins] + 1, tokens.string_end[begins])).dictionary_encode()
    known = [node.fields.get(_decoded(name), -1) for name in coded.dictionary.to_pylist()]
    found[is_named] = np.array(known, np.int64)[coded.indices.to_numpy()]
    return found


def _decoded(name: bytes) -> str:
    """Return the text between two quotes of JSON; an empty text if it is not JSON, which the parser refuses."""
    if b"\\" not in name:
        return name.decode(errors="replace")
    try:
        return str(json.loads(b'"%s"' % name))
    except ValueError:
        return ""


def _rewritten(tokens: Tokens, maps: Ints) -> bytes:
    is_map = np.zeros(len(tokens.at) + 1, np.bool_)  # the last one: for tokens without a bracket around them
    is_map[maps] = True
    closing = tokens.closing[maps]
    inside = is_map[tokens.parent]
    colons = np.flatnonzero(inside & (tokens.kind == COLON))
    commas = np.flatnonzero(inside & (tokens.kind == COMMA))
    is_empty = closing == maps + 1
    filled = maps[~is_empty]
    _check_entries(tokens, filled, commas, colons)
    if not tokens.gap_is_blank(tokens.at[maps[is_empty]] + 1, tokens.at[closing[is_empty]]).all():
        raise ValueError(_NOT_JSON)
    edits = [
        (tokens.at[filled], _BEGIN),
        (tokens.at[maps[is_empty]], b"["),
        (tokens.at[closing[~is_empty]], _END),
        (tokens.at[closing[is_empty]], b"]"),
        (tokens.at[colons], _MIDDLE),
        (tokens.at[commas], _NEXT),
    ]
    return _replace(tokens.text, edits)


def _check_entries(tokens: Tokens, filled: Ints, commas: Ints, colons: Ints) -> None:
    """Raise ValueError unless a name and a colon follow each opening bracket and each comma, and no other colon."""
    before = np.concatenate((filled, commas))
    if len(before) != len(colons) or (len(before) and before.max() + 2 >= len(tokens.at)):
        raise ValueError(_NOT_JSON)
    names, marks = before + 1, before + 2
    well_formed = (tokens.kind[names] == QUOTE) & (tokens.kind[marks] == COLON)
    if not well_formed.all():
        raise ValueError(_NOT_JSON)
    first = tokens.gap_is_blank(tokens.at[before] + 1, tokens.at[names])
    second = tokens.gap_is_blank(tokens.string_end[names] + 1, tokens.at[marks])
    if not (first & second).all():
        raise ValueError(_NOT_JSON)


def _replace(text: Bytes, edits: Sequence[tuple[Ints, bytes]]) -> bytes:
    """Return the text with bytes replaced by longer ones."""
    size = np.ones(len(text), np.uint8)
    kept: Flags = np.ones(len(text), np.bool_)
    for places, written in edits:
        size[places] = len(written)
        kept[places] = False
    total = int(size.sum(dtype=np.int64))
    starts = np.cumsum(size, dtype=np.int32 if total < 2**31 else np.int64)
    np.subtract(starts, size, out=starts)
    made = np.empty(total, np.uint8)
    made[starts[kept]] = text[kept]
    for places, written in edits:
        for at, byte in enumerate(written):
            made[starts[places] + at] = byte
    return made.tobytes()
