"""Nested Arrow values as JSON text, column by column: no row passes through Python.

Whole numbers, booleans and null as JSON's own; doubles in the shortest form that reads back the same; decimals of up to
15 digits as numbers, longer ones as strings (MySQL reads a JSON number with a point as a double); dates and times as
ISO 8601 strings, with a Z where there is a zone; map keys as strings.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

_EXACT_DIGITS: Final = 15
_ESCAPES: Final = (("\\", "\\\\"), ('"', '\\"'), *((chr(code), f"\\u{code:04x}") for code in range(0x20)))


def json_text(values: pa.Array) -> pa.Array:
    """Text for each value; NULL stays NULL at the top and becomes `null` inside. Raises ArrowInvalid for NaN."""
    kind = values.type
    if types.is_dictionary(kind):
        return json_text(values.dictionary_decode())
    if types.is_struct(kind):
        return _struct(values)
    if types.is_map(kind):
        return _map(values)
    if types.is_nested(kind):
        return _list(values)
    return _scalar(values)


def supported(kind: pa.DataType) -> bool:
    """Whether `json_text` takes values of this type: everything but raw bytes and durations."""
    if types.is_dictionary(kind):
        return supported(kind.value_type)
    if types.is_nested(kind) and not types.is_union(kind):
        return all(supported(kind.field(at).type) for at in range(kind.num_fields))
    tests = (types.is_null, types.is_boolean, types.is_integer, types.is_floating, types.is_decimal, types.is_date)
    texts = (types.is_time, types.is_timestamp, types.is_string, types.is_large_string, types.is_string_view)
    return any(test(kind) for test in (*tests, *texts))


def escaped(texts: pa.Array, escapes: tuple[tuple[str, str], ...]) -> pa.Array:
    """Replace each first string by the second; costs a search through the bytes for what does not occur."""
    data = texts.buffers()[2]
    raw = data.to_pybytes() if data is not None else b""
    for plain, written in escapes:
        if plain.encode() in raw:
            texts = pc.replace_substring(texts, plain, written)
    return texts


def _scalar(values: pa.Array) -> pa.Array:
    kind = values.type
    if types.is_null(kind):
        return pa.nulls(len(values), pa.string())
    if types.is_boolean(kind) or types.is_integer(kind):
        return values.cast(pa.string())
    if types.is_floating(kind):
        return finite(values).cast(pa.float64()).cast(pa.string())
    if types.is_decimal(kind):
        text = values.cast(pa.string())
        return text if kind.precision <= _EXACT_DIGITS else _quoted(text)
    if types.is_timestamp(kind):
        zone = "Z" if kind.tz is not None else ""
        text = pc.replace_substring(values.cast(pa.timestamp(kind.unit)).cast(pa.string()), " ", "T")
        return pc.binary_join_element_wise('"', text, zone + '"', "")
    return _quoted(values.cast(pa.string()))


def finite(values: pa.Array) -> pa.Array:
    """The values themselves. Raises ArrowInvalid if one is NaN or infinite."""
    if pc.all(pc.is_finite(values)).as_py() is False:
        raise pa.ArrowInvalid("NaN and infinity cannot be written")
    return values


def _quoted(text: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', escaped(text, _ESCAPES), '"', "")


def _or_null(text: pa.Array) -> pa.Array:
    return pc.fill_null(text, "null")


def _struct(values: pa.StructArray) -> pa.Array:
    parts: list[pa.Array | str] = []
    for at, field in enumerate(values.type):
        key = _quoted(pa.array([field.name]))[0].as_py()
        parts += [("{" if at == 0 else ",") + key + ":", _or_null(json_text(pc.struct_field(values, [at])))]
    if not parts:
        parts = [pa.array(["{"] * len(values))]
    return _valid(values, pc.binary_join_element_wise(*parts, "}", ""))


def _list(values: pa.Array) -> pa.Array:
    kind = values.type
    if types.is_fixed_size_list(kind):
        return _list(values.cast(pa.list_(kind.value_type)))
    if types.is_large_list(kind):
        return _list(values.cast(pa.list_(kind.value_type)))
    items = _or_null(json_text(values.values))
    return _joined(values, items, "[", "]")


def _map(values: pa.MapArray) -> pa.Array:
    keys = values.keys
    text = keys if types.is_string(keys.type) else json_text(keys)
    if not types.is_string(keys.type) and not types.is_large_string(keys.type):
        text = pc.replace_substring(text, '"', "")
    pairs = pc.binary_join_element_wise(_quoted(text.cast(pa.string())), _or_null(json_text(values.items)), ":")
    return _joined(values, pairs, "{", "}")


def _joined(values: pa.Array, items: pa.Array, left: str, right: str) -> pa.Array:
    """Join the items of each list of `values`."""
    lists = pa.ListArray.from_arrays(values.offsets, items)
    return _valid(values, pc.binary_join_element_wise(left, pc.binary_join(lists, ","), right, ""))


def _valid(values: pa.Array, texts: pa.Array) -> pa.Array:
    """The texts, NULL where `values` are."""
    return pc.if_else(values.is_valid(), texts, pa.scalar(None, texts.type)) if values.null_count else texts
