"""Between what Arrow's JSON parser can be asked for and what a schema says: other types to parse as, and the way back.

| schema | parsed as | then |
| --- | --- | --- |
| DECIMAL(p, s) | decimal256(38, s) | narrowed, which checks p |
| DATE, TIMESTAMP_NTZ | string | cast, which refuses a zone |
| BINARY | string | base64 |
| FLOAT, DOUBLE | themselves | refused unless finite: the parser takes NaN, and makes 1e39 an infinite FLOAT |
| MAP | ARRAY of STRUCT<key, value>, once `json_maps` has rewritten it | keys that are equal are refused |
| all others | themselves | |

Arrow (26) overflows in silence when it scales a JSON decimal up: `860` as decimal128(38, 37) becomes 9.29…. At most 38
digits scaled by at most 38 more are below 10**76, which 256 bits hold.
"""

from __future__ import annotations

import binascii

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from connectors.formats.json_maps import ITEM, KEY
from connectors.formats.json_text import has_repeats
from connectors.spark_types import spark_type
from eos.errors import SpecError

_DECIMAL_DIGITS = 38


def check(schema: pa.Schema) -> None:
    """Refuse, as SpecError, a schema that JSON cannot be decoded into."""
    if len(schema) == 0:
        raise SpecError("the schema has no columns", remedy='name at least one: "id BIGINT"')
    for field in schema:
        _check_type(field.name, field.type)


def _check_type(path: str, kind: pa.DataType) -> None:
    if pt.is_struct(kind):
        for child in kind:
            _check_type(f"{path}.{child.name}", child.type)
    elif pt.is_list(kind):
        _check_type(f"{path}[]", kind.value_type)
    elif pt.is_map(kind):
        if kind.key_type != pa.string():
            message = f"column {path}: the names of a JSON object are text, and the keys of the MAP are not"
            raise SpecError(message, remedy="write MAP<STRING, …>, and cast the keys in a step")
        _check_type(f"{path}{{}}", kind.item_type)
    elif not _is_scalar(kind):
        message = f"column {path}: {spark_type(kind)} is not supported in JSON"
        raise SpecError(message, remedy="write the schema as Spark DDL")


def _is_scalar(kind: pa.DataType) -> bool:
    return (
        pt.is_signed_integer(kind)
        or kind in (pa.bool_(), pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.date32())
        or kind in (pa.timestamp("us", "UTC"), pa.timestamp("us"))
        or pt.is_decimal128(kind)
    )


def parsed(schema: pa.Schema) -> pa.Schema:
    """The schema to parse with.

    NOT NULL stays on columns: the parser enforces it. It goes inside structs: there the parser asks for the field even
    where the whole struct is null.
    """
    return pa.schema([field.with_type(_parsed(field.type)) for field in schema])


def _parsed(kind: pa.DataType) -> pa.DataType:
    if pt.is_decimal128(kind):
        return pa.decimal256(_DECIMAL_DIGITS, kind.scale)
    if kind in (pa.date32(), pa.timestamp("us"), pa.binary()):
        return pa.string()
    if pt.is_struct(kind):
        return pa.struct([child.with_type(_parsed(child.type)).with_nullable(True) for child in kind])
    if pt.is_list(kind):
        return pa.list_(kind.value_field.with_type(_parsed(kind.value_type)))
    if pt.is_map(kind):
        return pa.list_(pa.struct([(KEY, pa.string()), (ITEM, _parsed(kind.item_type))]))
    return kind


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The parsed columns in the schema's types. Raises ValueError if any value does not fit, whole."""
    columns = [_fitted(batch.column(field.name), field.type) for field in schema]
    return pa.record_batch(columns, schema=schema)


def _fitted(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if pt.is_floating(kind):
        if not _holds(pc.is_finite(values)):
            raise ValueError(f"not a finite number, or out of the range of {spark_type(kind)}")
        return values
    if kind == pa.binary():
        return from_base64(values)
    if pt.is_struct(kind):
        children = [_fitted(_required(values, i, child), child.type) for i, child in enumerate(kind)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=values.is_null())
    if pt.is_list(kind):
        items = _fitted(values.values, kind.value_type)
        return pa.ListArray.from_arrays(values.offsets, items, type=kind, mask=values.is_null())
    if pt.is_map(kind):
        return _map(values, kind)
    return values if values.type == kind else values.cast(kind)


def _map(values: pa.ListArray, kind: pa.MapType) -> pa.MapArray:
    """Convert lists of entries. Raises ValueError if a key is there twice, or a value is null where none may be."""
    entries = values.values
    keys, items = entries.field(0), entries.field(1)
    if not kind.item_field.nullable and items.null_count:
        raise ValueError("a value of the MAP is null, and none may be")
    if len(keys) and has_repeats(values, keys):
        raise ValueError("a name is given twice")
    found = pa.MapArray.from_arrays(values.offsets, keys, _fitted(items, kind.item_type), type=kind)
    return found if not values.null_count else pc.if_else(values.is_valid(), found, pa.scalar(None, kind))


def _required(values: pa.Array, position: int, child: pa.Field) -> pa.Array:
    """A child of a struct column, having made sure that one which is NOT NULL is there wherever the struct is."""
    inside = values.field(position)
    if not child.nullable and pc.any(pc.and_(values.is_valid(), inside.is_null()), min_count=0).as_py():
        raise ValueError(f"{child.name} is NOT NULL and is null or absent")
    return inside


def _holds(mask: pa.Array) -> bool:
    """Whether a condition holds for every value that is not null; of no values at all it does."""
    return bool(pc.all(mask, min_count=0).as_py())


def from_base64(text: pa.Array) -> pa.Array:
    """Decode a string column of RFC 4648 base64, padded, in one call for all of it. Raises ValueError."""
    text = text.cast(pa.binary())
    lengths = pc.binary_length(text)
    padding = pc.add(_ends(text, b"="), _ends(text, b"=="))  # characters of padding: 0, 1 or 2
    if not _holds(pc.equal(pc.bit_wise_and(lengths, 3), 0)):
        raise ValueError("not base64: the length is not a multiple of 4")
    if not _holds(pc.equal(pc.count_substring(text, b"="), padding)):
        raise ValueError("not base64: '=' stands before the end")
    # Padding read as zero bits lets the whole column be decoded as one text; the bytes it makes are cut off after that.
    filled = _decoded(pc.replace_substring(text, b"=", b"A"))
    return pc.choose(padding, filled, pc.binary_slice(filled, 0, -1), pc.binary_slice(filled, 0, -2))


def _ends(text: pa.Array, suffix: bytes) -> pa.Array:
    return pc.ends_with(text, suffix).cast(pa.int8())


def _decoded(text: pa.Array) -> pa.Array:
    """Decode values whose lengths are multiples of 4 and that hold no padding: 4 characters to 3 bytes everywhere."""
    if len(text) == 0:  # its buffer may have any bytes
        return text
    validity, offsets_buffer, characters = text.buffers()
    offsets = pa.Array.from_buffers(pa.int32(), len(text) + 1, [None, offsets_buffer], offset=text.offset)
    data = binascii.a2b_base64(characters or b"", strict_mode=True)
    shorter = pc.multiply(pc.divide(offsets, 4), 3).cast(pa.int32())
    return pa.Array.from_buffers(text.type, len(text), [validity, shorter.buffers()[1], pa.py_buffer(data)])
