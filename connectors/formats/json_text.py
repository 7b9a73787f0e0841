"""Nested Arrow values as JSON text, column by column: no row passes through Python. All sinks write this text.

Whole numbers, booleans and null as JSON's own; doubles in the shortest form that reads back the same; decimals of up to
15 digits as numbers, longer ones as strings (MySQL reads a JSON number with a point as a double); dates and times as
ISO 8601 strings, with a Z where there is a zone; bytes as base64 strings; a map as an object, its keys as strings.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

EXACT_DIGITS: Final = 15
"""A decimal of more digits is a text."""
_FIRST_DAY: Final = -719_162
_LAST_DAY: Final = 2_932_896
"""Days from 1970 to the first day of the year 1, and to the last of the year 9999."""
_PER_DAY: Final = {unit: 86_400 * per_s for unit, per_s in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9))}
_ESCAPES: Final = (("\\", "\\\\"), ('"', '\\"'), *((chr(code), f"\\u{code:04x}") for code in range(0x20)))
_BASE64: Final = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", dtype=np.uint8)


def json_text(values: pa.Array) -> pa.Array:
    """Return the text of each value. NULL stays NULL at the top and becomes `null` inside.

    Raises ArrowInvalid for NaN, infinity, a map with equal keys, and a date or time outside of the years 1 to 9999.
    """
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
    """Whether `json_text` takes values of this type.

    It takes all but durations, bytes that are not inside another value, and a struct with two fields of one name.
    """
    if types.is_dictionary(kind):
        return supported(kind.value_type)
    if types.is_nested(kind) and not types.is_union(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        distinct = not types.is_struct(kind) or len({field.name for field in fields}) == len(fields)
        return distinct and all(is_bytes(field.type) or supported(field.type) for field in fields)
    tests = (types.is_null, types.is_boolean, types.is_integer, types.is_floating, types.is_decimal, types.is_date)
    texts = (types.is_time, types.is_timestamp, types.is_string, types.is_large_string, types.is_string_view)
    return any(test(kind) for test in (*tests, *texts))


def is_bytes(kind: pa.DataType) -> bool:
    """Whether values of this type are bytes, which become base64 inside another value."""
    tests = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary, types.is_binary_view)
    return any(test(kind) for test in tests)


def escape(texts: pa.Array, escapes: tuple[tuple[str, str], ...]) -> pa.Array:
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
        return check_finite(values).cast(pa.float64()).cast(pa.string())
    if types.is_decimal(kind):
        text = values.cast(pa.string())
        return text if kind.precision <= EXACT_DIGITS else _quoted(text)
    if types.is_timestamp(kind):
        zone = "Z" if kind.tz is not None else ""
        check_dates(values)
        text = pc.replace_substring(values.cast(pa.timestamp(kind.unit)).cast(pa.string()), " ", "T")
        return pc.binary_join_element_wise('"', text, zone + '"', "")
    if is_bytes(kind):
        return pc.binary_join_element_wise('"', _base64(values.cast(pa.binary())), '"', "")
    return _quoted((check_dates(values) if types.is_date(kind) else values).cast(pa.string()))


def check_finite(values: pa.Array) -> pa.Array:
    """The values themselves. Raises ArrowInvalid if one is NaN or infinite."""
    if pc.all(pc.is_finite(values)).as_py() is False:
        raise pa.ArrowInvalid("NaN and infinity cannot be written")
    return values


def check_dates(values: pa.Array) -> pa.Array:
    """Return dates, or dates with a time. Raises ArrowInvalid if one is not in the years 1 to 9999.

    Arrow's text of others is not ISO 8601: years below 1 have a sign, and far ones are `<value out of range: …>`.
    """
    kind = values.type
    per_day = 1 if types.is_date32(kind) else _PER_DAY["ms" if types.is_date64(kind) else kind.unit]
    found = pc.min_max(values.cast(pa.int32() if types.is_date32(kind) else pa.int64()))
    low, high = found["min"].as_py(), found["max"].as_py()
    if low is not None and (low < _FIRST_DAY * per_day or high >= (_LAST_DAY + 1) * per_day):
        raise pa.ArrowInvalid("not in the years 1 to 9999")
    return values


def _quoted(text: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', escape(text, _ESCAPES), '"', "")


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
    values = _own_items(values)
    items = _or_null(json_text(values.values))
    return _joined(values, items, "[", "]")


def _own_items(lists: pa.Array) -> pa.Array:
    """Return lists or maps whose items are all in one of them. A slice of a column has the items of the whole column,
    of which one may be refused."""
    lengths = np.diff(lists.offsets.to_numpy())[lists.is_valid().to_numpy(zero_copy_only=False)]
    count = len(lists.items if types.is_map(lists.type) else lists.values)
    return lists if lengths.sum() == count else lists.take(pa.array(np.arange(len(lists))))


def _map(values: pa.MapArray) -> pa.Array:
    values = _own_items(values)
    keys = _key_text(values.keys)
    _refuse_equal(values, keys)
    pairs = pc.binary_join_element_wise(_quoted(keys), _or_null(json_text(values.items)), ":")
    return _joined(values, pairs, "{", "}")


def _key_text(keys: pa.Array) -> pa.Array:
    """Return the names that the keys of a map get. A nested key gets its whole JSON text as its name."""
    kind = keys.type
    if types.is_dictionary(kind):
        return _key_text(keys.dictionary_decode())
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return keys.cast(pa.string())
    text = json_text(keys)
    return text if types.is_nested(kind) else pc.replace_substring(text, '"', "")


def _refuse_equal(values: pa.MapArray, keys: pa.Array) -> None:
    """Raise ArrowInvalid if two keys of one map are equal: a reader of the object would get one of them."""
    if has_repeats(values, keys):
        raise pa.ArrowInvalid("a map with two equal keys, of which a JSON object keeps one")


def has_repeats(lists: pa.ListArray | pa.MapArray, items: pa.Array) -> bool:
    """Return whether one of the lists has two equal items. `items`: of all lists, as the offsets count them."""
    ends = lists.offsets.to_numpy()
    owners = np.repeat(np.arange(len(lists)), np.diff(ends))
    coded = items.slice(ends[0], ends[-1] - ends[0]).dictionary_encode()
    together = owners * max(1, len(coded.dictionary)) + pc.fill_null(coded.indices, 0).to_numpy()
    if lists.null_count:
        together = together[lists.is_valid().to_numpy(zero_copy_only=False)[owners]]
    ordered = np.sort(together)
    return bool((ordered[1:] == ordered[:-1]).any())


def _joined(values: pa.Array, items: pa.Array, left: str, right: str) -> pa.Array:
    """Join the items of each list of `values`."""
    lists = pa.ListArray.from_arrays(values.offsets, items)
    return _valid(values, pc.binary_join_element_wise(left, pc.binary_join(lists, ","), right, ""))


def _valid(values: pa.Array, texts: pa.Array) -> pa.Array:
    """The texts, NULL where `values` are."""
    return pc.if_else(values.is_valid(), texts, pa.scalar(None, texts.type)) if values.null_count else texts


def _base64(values: pa.Array) -> pa.Array:
    """Return the base64 text of each value of a `binary` column. Arrow has no function for it."""
    start, size = values.offset, len(values)
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[start : start + size + 1].astype(np.int64)
    raw = np.frombuffer(data, dtype=np.uint8)[ends[0] : ends[-1]] if data is not None else np.empty(0, np.uint8)
    lengths = np.diff(ends)
    groups = -(-lengths // 3)  # of three bytes, each of which becomes four digits; the last one of a value is filled up
    firsts = np.concatenate(([0], np.cumsum(groups)))
    whole = np.zeros(firsts[-1] * 3, np.uint8)
    whole[np.arange(len(raw)) + np.repeat(firsts[:-1] * 3 - (ends[:-1] - ends[0]), lengths)] = raw
    one, two, three = whole.reshape(-1, 3).T
    sextets = (one >> 2, (one & 3) << 4 | two >> 4, (two & 15) << 2 | three >> 6, three & 63)
    text = _BASE64[np.stack(sextets, axis=1)]
    lacking = groups * 3 - lengths
    text[firsts[1:][lacking >= 1] - 1, 3] = ord("=")
    text[firsts[1:][lacking == 2] - 1, 2] = ord("=")
    positions = pa.py_buffer((firsts * 4).astype(np.int32).tobytes())
    found = pa.Array.from_buffers(pa.string(), size, [None, positions, pa.py_buffer(text.tobytes())])
    return pc.if_else(values.is_valid(), found, pa.scalar(None, pa.string())) if values.null_count else found
