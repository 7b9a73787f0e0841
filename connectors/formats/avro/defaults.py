"""Defaults of a schema's fields, in Avro's binary encoding: a field that a writer does not have is decoded from it."""

from __future__ import annotations

import struct
from typing import Any

from connectors.formats.avro.nodes import Array, Enum, Fixed, Map, Node, Primitive, Record, Schema, Union
from eos.errors import SpecError


def encode_default(schema: Schema, node: Node, value: Any) -> bytes:
    """Encode a default, which is JSON by the rules of "Complex Types: Records" in the specification.

    Raises SpecError if the value is not one of the type.
    """
    try:
        return _encode(schema, node, value)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, struct.error, UnicodeError) as error:
        raise SpecError(f"the Avro default {value!r} is not of the type of its field") from error


def _encode(schema: Schema, node: Node, value: Any) -> bytes:
    node = schema.follow(node)
    match node:
        case Primitive("null"):
            return _checked(b"", value is None)
        case Primitive("boolean"):
            return _checked(bytes([value is True]), isinstance(value, bool))
        case Primitive("int" | "long"):
            return _checked(_long(int(value)), isinstance(value, int) and not isinstance(value, bool))
        case Primitive("float" | "double"):
            return struct.pack("<f" if node.type == "float" else "<d", value)
        case Primitive("string"):
            return _sized(value.encode())
        case Primitive("bytes"):
            return _sized(value.encode("latin-1"))
        case Fixed():
            content = value.encode("latin-1")
            return _checked(content, len(content) == node.size)
        case Enum():
            return _long(node.symbols.index(value))
        case Array():
            return _block([_encode(schema, node.items, each) for each in value])
        case Map():
            return _block([_sized(key.encode()) + _encode(schema, node.values, each) for key, each in value.items()])
        case Union():
            return _long(0) + _encode(schema, node.branches[0], value)
        case Record():
            return b"".join(_encode(schema, each.type, value.get(each.name, each.default)) for each in node.fields)
    raise TypeError(type(node).__name__)


def _checked(content: bytes, fits: bool) -> bytes:
    if not fits:
        raise ValueError
    return content


def _long(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    content = bytearray()
    while number > 0x7F:
        content.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*content, number])


def _sized(content: bytes) -> bytes:
    return _long(len(content)) + content


def _block(items: list[bytes]) -> bytes:
    return (_long(len(items)) + b"".join(items) if items else b"") + b"\0"
