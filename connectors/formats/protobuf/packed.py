"""Repeated numbers in their packed form: the numbers of one field, one behind another."""

from __future__ import annotations

from typing import Final

import numpy as np

from connectors.formats.protobuf.faults import Faults
from connectors.formats.protobuf.walk import ENDS, FIXED32, FIXED64, LENGTH, OVERLONG, VARINT
from connectors.formats.protobuf.wire import Tokens, joined
from connectors.formats.spans import Bytes, Ints
from connectors.formats.varints import varints

_WIDTH: Final = {FIXED32: 4, FIXED64: 8}


def items_of(data: Bytes, tokens: Tokens, wire: int, what: str, faults: Faults) -> Tokens:
    """Return a token of the type `wire` for each number of each packed token. Other tokens stay as they are."""
    is_packed = tokens.wire == LENGTH
    if not is_packed.any():
        return tokens
    packed: Ints = np.flatnonzero(is_packed)
    unpack = _varints if wire == VARINT else _fixed
    items, origin = unpack(data, tokens.take(packed), wire, what, faults)
    if len(packed) == len(tokens):
        return items
    single: Ints = np.flatnonzero(~is_packed)
    order = np.argsort(np.concatenate([packed[origin], single]), kind="stable")
    return joined([items, tokens.take(single)]).take(order)


def _varints(data: Bytes, tokens: Tokens, wire: int, what: str, faults: Faults) -> tuple[Tokens, Ints]:
    start, end = tokens.spans
    cut_off = (end > start) & (data[end - 1] >= 0x80)
    faults.check(tokens.row, cut_off, f"{what}: {ENDS}")
    size = np.where(cut_off, 0, end - start)
    origin: Ints = np.repeat(np.arange(len(tokens)), size)
    at = _places(start, size, 1)
    ends_number = data[at] < 0x80
    begins = np.ones(len(at), np.bool_)
    begins[1:] = ends_number[:-1]  # also the first byte of each token: no token ends in a number
    at, origin = at[begins], origin[begins]
    values, _, overlong = varints(data, at)
    row = tokens.row[origin]
    faults.check(row, overlong, f"{what}: {OVERLONG}")
    return Tokens(row, tokens.number[origin], np.full(len(at), wire, np.uint8), values, at), origin


def _fixed(data: Bytes, tokens: Tokens, wire: int, what: str, faults: Faults) -> tuple[Tokens, Ints]:
    width = _WIDTH[wire]
    start, end = tokens.spans
    count, rest = np.divmod(end - start, width)
    faults.check(tokens.row, rest > 0, f"{what}: {ENDS}")
    origin: Ints = np.repeat(np.arange(len(tokens)), count)
    at = _places(start, count, width)
    none = np.zeros(len(at), np.uint64)
    return Tokens(tokens.row[origin], tokens.number[origin], np.full(len(at), wire, np.uint8), none, at), origin


def _places(start: Ints, count: Ints, width: int) -> Ints:
    """Return the places of `count` items of one width behind each start."""
    before = np.cumsum(count) - count
    places: Ints = np.arange(int(count.sum())) * width + np.repeat(start - before * width, count)
    return places
