"""The format `avro`: values in Avro's binary encoding, of writers whose schemas are given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from connectors.api.decoding import Decoded, Undecodable
from connectors.formats.avro.arrow_types import ArrowTypes
from connectors.formats.avro.cursor import ALL, Cursor, Flags, Ints
from connectors.formats.avro.nested import RecordStep
from connectors.formats.avro.nodes import Schema, parse_schema
from connectors.formats.avro.resolution import IncompatibleError, resolve
from eos.errors import SpecError

_PLANS: Final = 1_000
"""Pairs of writer and reader whose plans a process keeps."""


@dataclass(frozen=True, slots=True)
class Header:
    """The bytes in front of a record that name the writer's schema: a marker, and behind it the key of the schema."""

    name: str  # for messages
    marker: bytes
    key_type: str  # numpy's type of the key, with its byte order

    @property
    def size(self) -> int:
        """Bytes of marker and key."""
        return len(self.marker) + np.dtype(self.key_type).itemsize

    def keys(self, values: pa.Array) -> tuple[NDArray[np.uint64], Flags]:
        """Return the key of each value of a binary column without nulls, and whether the value has the header."""
        offsets = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4).astype(np.int64)
        padded = np.frombuffer((values.buffers()[2] or pa.py_buffer(b"")).to_pybytes() + bytes(self.size), np.uint8)
        heads = padded[offsets[:-1, None] + np.arange(self.size)]
        marked = (heads[:, : len(self.marker)] == np.frombuffer(self.marker, np.uint8)).all(axis=1)
        keys = np.ascontiguousarray(heads[:, len(self.marker) :]).view(self.key_type).reshape(-1)
        return keys.astype(np.uint64), marked & (np.diff(offsets) >= self.size)


SINGLE_OBJECT: Final = Header("Avro's single-object encoding", b"\xc3\x01", "<u8")
"""The key is the CRC-64-AVRO fingerprint of the schema. Source: Avro 1.12 specification, "Single-object encoding"."""


@dataclass(frozen=True, slots=True)
class AvroFormat:
    """Records of one or more writers' schemas, in the columns of a reader's schema.

    A tombstone is a row of nulls, or a bad record if the reader's schema has a field that is never null. Bad is also a
    record of another length than its schema gives, or with a value that the reader's schema or Spark's type
    cannot hold.
    """

    reader: str  # JSON text
    writers: Sequence[str]  # JSON texts; exactly one without `header`
    header: Header | None = None
    truncate: bool = False  # nanoseconds

    @property
    def schema(self) -> pa.Schema:
        """The columns of the reader's schema. Raises SpecError if it is not valid."""
        return _columns(self.reader)

    def check(self) -> None:
        """Raise SpecError if a schema is not valid, or a writer's cannot be read with the reader's."""
        for writer in self.writers:
            _plan(writer, self.reader, self.truncate)

    def decode(self, values: pa.Array) -> Decoded:
        """Decode a batch, all records of one writer at once. Never blocks."""
        bad: dict[int, str] = {}
        parts: list[tuple[Ints, pa.RecordBatch]] = []
        is_given = values.is_valid().to_numpy(zero_copy_only=False)
        given = np.flatnonzero(is_given)
        if len(given) < len(values):
            self._add_tombstones(np.flatnonzero(~is_given), parts, bad)
            values = values.filter(pa.array(is_given))
        for plan, chosen in self._by_writer(values, given, bad):
            places = given[chosen]
            group = values if chosen.all() else values.filter(pa.array(chosen))
            cursor = Cursor(group, self.header.size if self.header else 0)
            columns = plan.columns(cursor, ALL)
            cursor.finish()
            rows = pa.record_batch(columns, schema=self.schema)
            if cursor.faults:
                bad |= {int(places[at]): reason for at, reason in cursor.faults.items()}
                kept = np.ones(len(group), np.bool_)
                kept[list(cursor.faults)] = False
                rows, places = rows.filter(pa.array(kept)), places[kept]
            parts.append((places, rows))
        return Decoded(_in_order(parts, self.schema), tuple(Undecodable(at, bad[at]) for at in sorted(bad)))

    def _add_tombstones(self, places: Ints, parts: list[tuple[Ints, pa.RecordBatch]], bad: dict[int, str]) -> None:
        never_null = [field.name for field in self.schema if not field.nullable]
        if never_null:
            bad |= dict.fromkeys(places.tolist(), f"a record without a value, and {never_null[0]} is never null")
        else:
            nulls = [pa.nulls(len(places), field.type) for field in self.schema]
            parts.append((places, pa.record_batch(nulls, schema=self.schema)))

    def _by_writer(self, values: pa.Array, places: Ints, bad: dict[int, str]) -> Iterator[tuple[RecordStep, Flags]]:
        """Yield the plan for each writer's schema, with its records. `places`: of the values, for `bad`."""
        if self.header is None:
            yield _plan(self.writers[0], self.reader, self.truncate), np.ones(len(values), np.bool_)
            return
        keys, marked = self.header.keys(values)
        bad |= dict.fromkeys(places[~marked].tolist(), f"not in {self.header.name}: another first byte, or too short")
        known = {_parsed(writer).fingerprint: writer for writer in self.writers}
        for key in np.unique(keys[marked]).tolist():
            chosen = marked & (keys == np.uint64(key))
            writer = known.get(int(key).to_bytes(8, "little"))
            if writer is None:
                reason = f"written with an unknown schema, of fingerprint {key:016x}"
                bad |= dict.fromkeys(places[chosen].tolist(), reason)
            else:
                yield _plan(writer, self.reader, self.truncate), chosen


@lru_cache(_PLANS)
def _parsed(text: str) -> Schema:
    return parse_schema(text)


@lru_cache(_PLANS)
def _columns(reader: str) -> pa.Schema:
    return ArrowTypes(_parsed(reader)).columns()


@lru_cache(_PLANS)
def _plan(writer: str, reader: str, truncate: bool) -> RecordStep:
    try:
        return resolve(_parsed(writer), _parsed(reader), truncate=truncate)
    except IncompatibleError as error:
        message = f"the writer's Avro schema cannot be read with the reader's: {error}"
        raise SpecError(message, remedy="give a reader's schema that is compatible with it") from error


def _in_order(parts: Sequence[tuple[Ints, pa.RecordBatch]], schema: pa.Schema) -> pa.RecordBatch:
    """Join the rows of several writers in the order of their places."""
    if len(parts) == 1:
        return parts[0][1]
    table = pa.Table.from_batches([rows for _, rows in parts], schema=schema)
    order = np.argsort(np.concatenate([np.empty(0, np.int64), *(places for places, _ in parts)]), kind="stable")
    batches = table.take(pa.array(order)).combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema)
