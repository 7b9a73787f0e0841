"""Kinds of Arrow types, as the sinks tell them apart."""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types


def is_text(kind: pa.DataType) -> bool:
    """Strings of any layout."""
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_bytes(kind: pa.DataType) -> bool:
    """Byte strings of any layout."""
    tests = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary, types.is_binary_view)
    return any(test(kind) for test in tests)


def is_nested(kind: pa.DataType) -> bool:
    """Lists, maps and structs."""
    return bool(types.is_nested(kind))
