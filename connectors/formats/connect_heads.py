"""The part in front of the payload, in records of Kafka Connect's JsonConverter: `{"schema": …, "payload": …}`.

The schema takes most of the bytes, and is equal in most records of a topic. So the bytes in front of the payload, the
head, are cut off, and parsed once for all records that have them.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.casting import flags
from connectors.formats.spans import Flags, Ints, binary_of, content_of

KEPT: Final = 500
"""Heads whose schemas a process keeps."""
_LONGEST_KEPT: Final = 100_000
"""Bytes of a head that is kept."""

BAD_SCHEMA: Final = "its `schema` is not one of Connect's"
_HEAD: Final = r'(?P<head>^[ \t\r\n]*\{[ \t\r\n]*"schema"[ \t\r\n]*:(?s:.*?)"payload"[ \t\r\n]*:[ \t\r\n]*)'
_FIRST_HEAD: Final = re.compile(_HEAD.encode())
_SCHEMA: Final = b'{"schema":'
_PAYLOAD: Final = b'"payload":'
_SPACES: Final = np.frombuffer(b" \t\r\n", np.uint8)
_CUT: Final = re.compile(rb',[ \t\r\n]*"payload"[ \t\r\n]*:[ \t\r\n]*$')


def heads_of(values: pa.Array) -> tuple[list[bytes | None], Ints]:
    """Return the different heads of a binary column without nulls, and by value the number of its head.

    None: a value has none.
    """
    if len(values) == 0:
        return [], np.empty(0, np.int64)
    first = _FIRST_HEAD.match(values[0].as_py())
    if first is not None and flags(pc.starts_with(values, first["head"])).all():
        return [first["head"]], np.zeros(len(values), np.int64)
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


def read_head(head: bytes) -> tuple[Any, bool]:
    """Return the schema as JSON has it, and whether the head has other fields, too. Raises ValueError."""
    try:
        document: Any = json.loads(_CUT.sub(b"}", head))
        return document.pop("schema"), bool(document)
    except (ValueError, RecursionError, AttributeError, KeyError):
        raise ValueError(BAD_SCHEMA) from None


def is_kept(head: bytes | None) -> bool:
    """Whether a process may keep a result for this head in a cache."""
    return head is None or len(head) <= _LONGEST_KEPT


def payloads_of(values: pa.Array, sizes: Ints | int) -> tuple[pa.Array, Flags]:
    """Return each value without its head and its last byte, and whether this byte is the brace that ends it.

    `sizes`: bytes of the heads, or of the one that all values have.
    """
    offsets = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4)
    data = np.frombuffer(values.buffers()[2] or b"\0", np.uint8)
    starts, ends = offsets[:-1].astype(np.int64) + sizes, offsets[1:].astype(np.int64) - 1
    complete = (ends > starts) & (data[np.maximum(ends, 0)] == ord("}"))
    return binary_of(data, (starts, np.maximum(starts, ends))), complete
