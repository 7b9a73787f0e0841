"""The bytes in front of a record that name the writer's schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Header:
    """A marker, and behind it the key of a schema."""

    name: str  # for messages
    marker: bytes
    key_type: str  # numpy's type of the key, with its byte order

    @property
    def size(self) -> int:
        """Bytes of marker and key."""
        return len(self.marker) + np.dtype(self.key_type).itemsize

    def keys(self, values: pa.Array) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """Return the key of each value of a binary column without nulls, and whether the value has the header."""
        offsets = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4).astype(np.int64)
        padded = np.frombuffer((values.buffers()[2] or pa.py_buffer(b"")).to_pybytes() + bytes(self.size), np.uint8)
        heads = padded[offsets[:-1, None] + np.arange(self.size)]
        marked = (heads[:, : len(self.marker)] == np.frombuffer(self.marker, np.uint8)).all(axis=1)
        keys = np.ascontiguousarray(heads[:, len(self.marker) :]).view(self.key_type).reshape(-1)
        return keys.astype(np.uint64), marked & (np.diff(offsets) >= self.size)


SINGLE_OBJECT: Final = Header("Avro's single-object encoding", b"\xc3\x01", "<u8")
"""The key is the CRC-64-AVRO fingerprint of the schema. Source: Avro 1.12 specification, "Single-object encoding"."""

CONFLUENT: Final = Header("Confluent's wire format", b"\0", ">u4")
"""The key is the id of the schema in a registry. Source: Confluent Schema Registry, "Wire format"."""
