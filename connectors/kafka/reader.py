"""Reading offset ranges into Arrow batches: messages gathered, decoded, and the wanted columns built."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Final, Literal

import numpy as np
import pyarrow as pa
from confluent_kafka import Message

from connectors.api.decoding import Decoded, DecodedTables, Format, KeyedFormat, SelfDescribingFormat, Undecodable
from connectors.formats.spans import Ints
from connectors.kafka import bad_records, columns
from connectors.kafka.client import Client
from connectors.kafka.columns import Metadata
from connectors.kafka.ranges import messages, size_of
from connectors.kafka.splits import split_of
from connectors.kafka.table_batches import Batch, table_batches
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
    on_bad_records: Callable[[int], None] = lambda _count: None,
    on_schemas: Callable[[Mapping[str, str]], None] = lambda _schemas: None,
) -> Iterator[pa.RecordBatch]:
    """Yield the records as batches of `schema` (columns of the format, then of METADATA), in order of each split.

    Where records bring their own schema, a batch has its columns too, and there are several, each of one table.
    A batch is of one split; it has at most `_MAX_ROWS` rows. Its keys and values have at most `_MAX_BYTES`, unless one
    record is larger. The rows of a record may be in two batches. Every value is decoded whole: whether it is bad does
    not depend on the columns that are wanted. Metadata is bad only where it is wanted: a pipeline that does without it
    pays nothing for it, and is not stopped by it.
    `on_bad_records` is told how many were left out of a batch for `bad_records_of`, and `on_schemas` the schemas that
    its records name, if they name any.
    """
    for group in _gathered(messages(client, ranges, skip_lost=skip_lost)):
        for batch in _batches(group, decoder, schema, on_bad_record, on_bad_records, on_schemas):
            for start in range(0, batch.num_rows, _MAX_ROWS):  # a record may have many rows
                yield batch.slice(start, _MAX_ROWS)


def bad_records_of(
    client: Client, offsets: OffsetRange, decoder: Format, schema: pa.Schema, source: str, *, skip_lost: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the records that `read_ranges` with this `schema` leaves out, as `dead_letters.RECORD`, in offset order."""
    may_be_bad = [name for name in schema.names if name in columns.MAY_BE_UNFIT]
    for group in _gathered(messages(client, [offsets], skip_lost=skip_lost)):
        decoded = _decoded(group, decoder)
        if decoded.bad or may_be_bad:
            metadata = Metadata.of(group, columns.METADATA.names)
            unfit = metadata.why(may_be_bad).keys() - set(decoded.omitted)
            reasons = dict.fromkeys(unfit, "") | {each.index: each.reason for each in decoded.bad}
            if reasons:
                yield bad_records.letters(source, group, dict(sorted(reasons.items())), metadata)


def records_of(client: Client, offsets: OffsetRange, wanted: Set[int], source: str) -> Iterator[pa.RecordBatch]:
    """Yield those records of the range that are wanted and still there, as `dead_letters.RECORD`; see Source."""
    for group in _gathered(messages(client, [offsets], skip_lost=True)):
        found = [message for message in group if message.offset() in wanted]
        if found:
            yield bad_records.letters(source, found, dict.fromkeys(range(len(found)), ""))


def _gathered(chunks: Iterator[list[Message]]) -> Iterator[list[Message]]:
    """Join small chunks of a split, and halve large ones. A failed read gives up what is gathered: it is read again."""
    gathered: list[Message] = []
    size_bytes = 0
    for chunk in chunks:
        chunk_bytes = size_of(chunk)
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
    if len(chunk) == 1 or size_of(chunk) <= _MAX_BYTES:
        yield chunk
        return
    half = len(chunk) // 2
    yield from _halved(chunk[:half])
    yield from _halved(chunk[half:])


def _decoded(group: Sequence[Message], decoder: Format) -> Decoded | DecodedTables:
    values = columns.values_of(group)
    if isinstance(decoder, SelfDescribingFormat):
        return decoder.decode_tables(columns.keys_of(group), values)
    return (
        decoder.decode_records(columns.keys_of(group), values)
        if isinstance(decoder, KeyedFormat)
        else decoder.decode(values)
    )


def _batches(
    group: Sequence[Message],
    decoder: Format,
    schema: pa.Schema,
    on_bad_record: OnBadRecord,
    on_bad_records: Callable[[int], None],
    on_schemas: Callable[[Mapping[str, str]], None] = lambda _schemas: None,
) -> list[pa.RecordBatch]:
    decoded = _decoded(group, decoder)
    if decoded.schemas:
        on_schemas(decoded.schemas)
    undecoded = {entry.index for entry in decoded.bad}.union(decoded.omitted)
    places = [index for index in range(len(group)) if index not in undecoded] if undecoded else range(len(group))
    names = [name for name in schema.names if name in columns.METADATA.names]
    metadata = Metadata.of([group[place] for place in places] if undecoded else group, names)
    if isinstance(decoded, DecodedTables):
        batches = table_batches(decoded.tables, places, metadata.columns)
    else:
        numbers = _numbers(decoded, len(group), places)
        rows = pa.record_batch([*_parts(decoded.rows, metadata, numbers, schema)], schema=schema)
        batches = [Batch(rows, np.arange(len(rows)) if numbers is None else numbers)]
    if not (decoded.bad or metadata.unfit):
        return [each.rows for each in batches]
    unfit = metadata.why(names)
    reasons = (Undecodable(places[number], "; ".join(why)) for number, why in unfit.items())
    bad = sorted([*decoded.bad, *reasons], key=lambda entry: entry.index)
    if on_bad_record == "fail":
        first = places.index(bad[0].index) if bad[0].index in places else None
        raise bad_records.stop_at(group, bad, [name for name in names if first in metadata.unfit.get(name, ())])
    if on_bad_record == "skip":
        bad_records.skip(group, bad)
    on_bad_records(len(bad))
    return [each.without(unfit) if unfit else each.rows for each in batches]


def _numbers(decoded: Decoded, count: int, places: Sequence[int]) -> Ints | None:
    """Return by row the number of its record among `places`; None if each of them has one row."""
    if decoded.records is None:
        return None
    return np.searchsorted(np.asarray(places, np.int64), decoded.record_indices(count))


def _parts(rows: pa.RecordBatch, metadata: Metadata, numbers: Ints | None, schema: pa.Schema) -> Iterator[pa.Array]:
    """Yield the columns of `schema`. Each row has the metadata of its record."""
    of_rows = None if numbers is None else pa.array(numbers)
    for name in schema.names:
        if name not in metadata.columns:
            yield rows.column(name)
        else:
            column = metadata.columns[name]
            yield column if of_rows is None else column.take(of_rows)
