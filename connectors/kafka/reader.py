"""Reading offset ranges into Arrow batches: messages gathered, decoded, and the wanted columns built."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from typing import Final, Literal

import pyarrow as pa
from confluent_kafka import Message

from connectors.formats import Format
from connectors.kafka import bad_records, columns
from connectors.kafka.client import Client
from connectors.kafka.ranges import messages
from connectors.kafka.splits import split_of
from twophase.values import OffsetRange

OnBadRecord = Literal["fail", "skip", "dead-letter"]
"""The spec's `on_bad_record`."""

_MAX_ROWS: Final = 20_000
_MAX_BYTES: Final = 16 * 1024 * 1024


def read_ranges(
    client: Client,
    ranges: Sequence[OffsetRange],
    decoder: Format,
    schema: pa.Schema,
    on_bad_record: OnBadRecord,
    *,
    skip_lost: bool = False,
    put_aside: Callable[[int], None] = lambda _count: None,
) -> Iterator[pa.RecordBatch]:
    """Yield the records as batches of `schema` (columns of the format, then of METADATA), in order of each split.

    A batch is of one split; it has at most `_MAX_ROWS` rows and `_MAX_BYTES` of values, but for a single record that is
    larger. Every value is decoded whole: whether a record is bad does not depend on the columns that are wanted.
    `put_aside` is told how many were left out of a batch for `bad_records_of`.
    """
    for group in _gathered(messages(client, ranges, skip_lost=skip_lost)):
        batch = _batch(group, decoder, schema, on_bad_record, put_aside)
        if batch.num_rows:
            yield batch


def bad_records_of(
    client: Client, offsets: OffsetRange, decoder: Format, source: str, *, skip_lost: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the records of the range that do not decode, as `dead_letters.RECORD`, in offset order."""
    for group in _gathered(messages(client, [offsets], skip_lost=skip_lost)):
        bad = decoder.decode(columns.values_of(group)).bad
        if bad:
            yield bad_records.letters(source, [group[each.index] for each in bad], [each.reason for each in bad])


def records_of(client: Client, offsets: OffsetRange, wanted: Set[int], source: str) -> Iterator[pa.RecordBatch]:
    """Yield those records of the range that are wanted and still there, as `dead_letters.RECORD`; see Source."""
    for group in _gathered(messages(client, [offsets], skip_lost=True)):
        found = [message for message in group if message.offset() in wanted]
        if found:
            yield bad_records.letters(source, found, [""] * len(found))


def _gathered(chunks: Iterator[list[Message]]) -> Iterator[list[Message]]:
    """Join small chunks of a split, and halve large ones. A failed read gives up what is gathered: it is read again."""
    gathered: list[Message] = []
    size_bytes = 0
    for chunk in chunks:
        chunk_bytes = sum(map(len, chunk))
        is_full = len(gathered) + len(chunk) > _MAX_ROWS or size_bytes + chunk_bytes > _MAX_BYTES
        if gathered and (is_full or split_of(gathered[0]) != split_of(chunk[0])):
            yield gathered
            gathered, size_bytes = [], 0
        if chunk_bytes > _MAX_BYTES:
            yield from _halved(chunk)
        else:
            gathered = gathered + chunk if gathered else chunk
            size_bytes += chunk_bytes
    if gathered:
        yield gathered


def _halved(chunk: list[Message]) -> Iterator[list[Message]]:
    if len(chunk) == 1 or sum(map(len, chunk)) <= _MAX_BYTES:
        yield chunk
        return
    half = len(chunk) // 2
    yield from _halved(chunk[:half])
    yield from _halved(chunk[half:])


def _batch(
    group: Sequence[Message],
    decoder: Format,
    schema: pa.Schema,
    on_bad_record: OnBadRecord,
    put_aside: Callable[[int], None],
) -> pa.RecordBatch:
    decoded = decoder.decode(columns.values_of(group))
    if decoded.bad:
        if on_bad_record == "fail":
            raise bad_records.stop_at(group, decoded.bad)
        if on_bad_record == "skip":
            bad_records.skip(group, decoded.bad)
        put_aside(len(decoded.bad))
        left_out = {entry.index for entry in decoded.bad}
        group = [message for index, message in enumerate(group) if index not in left_out]
        if not group:
            return pa.RecordBatch.from_pylist([], schema=schema)
    return pa.record_batch([_column(name, group, decoded.rows) for name in schema.names], schema=schema)


def _column(name: str, group: Sequence[Message], rows: pa.RecordBatch) -> pa.Array:
    return columns.metadata_of(name, group) if name in columns.METADATA.names else rows.column(name)
