"""Rows to messages, in a task, and messages to a producer, on the driver.

In a task everything is found that Kafka would refuse (a topic that does not exist, a message that is too large), for
after the decision it would be too late. No row passes through Python there; on the driver a message is one call of
librdkafka (0.8 million a second and more: its own call for batches is slower, and knows no headers).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Producer
from numpy.typing import NDArray
from pyarrow import types

from connectors.api.encoding import Part, UnencodableError
from connectors.bad_values import bad_value
from connectors.dead_letters import decode_headers
from connectors.formats.json_rows import json_column, json_objects
from connectors.formats.outcome import with_nulls
from connectors.kafka.sink.formats import Encoders
from connectors.kafka.sink.layout import HEADERS, VALUE, Layout
from connectors.kafka.sink.target import Topics

_ROOM: Final = 256  # bytes that a batch of one message and its own frame take at most
_HEADER_ROOM: Final = 10  # of the lengths of a header's name and value
_TOPIC: Final = b"topic"
_ROWS: Final = 20_000  # handed to a producer at once, at most
_BYTES: Final = 2 * 1024 * 1024  # of them, about


@dataclass(frozen=True, slots=True)
class Messages:
    """See connectors.log.writer.Form: a segment's rows are messages."""

    layout: Layout
    rows: pa.Schema
    topics: Topics
    encoders: Encoders = field(default_factory=dict)

    @property
    def schema(self) -> pa.Schema:
        """See Form. With the columns that are used; the topic of all is in the schema's metadata."""
        layout = self.layout
        fields = [
            (layout.topic_column, pa.field("topic", pa.string())),
            (layout.partition, pa.field("partition", pa.int32())),
            (layout.timestamp, pa.field("timestamp", pa.int64())),  # milliseconds since 1970
            (layout.key, pa.field("key", pa.binary())),
            (True, pa.field("value", pa.binary())),
            (layout.headers or layout.carried, pa.field("headers", HEADERS)),
        ]
        metadata = None if layout.topic is None else {_TOPIC: layout.topic.encode()}
        return pa.schema([each for used, each in fields if used], metadata=metadata)

    def convert(self, batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
        parts = {
            "topic": self._topic,
            "partition": self._partition,
            "timestamp": self._timestamp,
            "key": self._key,
            "value": self._value,
            "headers": self._headers,
        }
        schema = self.schema
        arrays = [parts[field.name](batch, first_row).cast(field.type) for field in schema]
        messages = pa.record_batch(arrays, schema=schema)
        self._check_keys(batch, messages, first_row)
        self._check_sizes(batch, messages, first_row)
        return messages

    def _topic(self, batch: pa.RecordBatch, first_row: int) -> pa.Array:
        name = self.layout.topic_column
        topics = batch.column(name)
        for topic in pc.unique(topics):
            if reason := self.topics.refusal(topic.as_py()):
                at = pc.index(topics, topic).as_py() if topic.is_valid else pc.index(pc.is_null(topics), True).as_py()
                raise bad_value(str(name), first_row + at, reason)
        return topics

    def _partition(self, batch: pa.RecordBatch, first_row: int) -> pa.Array:
        name = self.layout.partition
        partitions = batch.column(name).cast(pa.int64())
        for topic, rows in self._by_topic(batch):
            most = self.topics.of(topic).partitions
            wrong = pc.and_(rows, pc.or_kleene(pc.less(partitions, 0), pc.greater_equal(partitions, most)))
            if pc.any(wrong).as_py():
                reason = f"topic {topic} has partitions 0 to {most - 1}"
                raise bad_value(str(name), first_row + pc.index(wrong, True).as_py(), reason)
        return partitions

    def _by_topic(self, batch: pa.RecordBatch) -> list[tuple[str, pa.Array]]:
        if self.layout.topic is not None:
            return [(self.layout.topic, pa.repeat(pa.scalar(True), batch.num_rows))]
        topics = batch.column(self.layout.topic_column)
        return [(topic.as_py(), pc.equal(topics, topic)) for topic in pc.unique(topics)]

    def _timestamp(self, batch: pa.RecordBatch, first_row: int) -> pa.Array:
        name = self.layout.timestamp
        column = batch.column(name)
        whole = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
        stamps = whole.cast(pa.int64())
        now_ms = time.time_ns() // 1_000_000
        refused = [
            (pc.less_equal(stamps, 0), "a message has no time before 1970-01-01 00:00:00.001"),
            (pc.not_equal(whole.cast(column.type), column), "a message's time has milliseconds, and no more decimals"),
        ]
        for topic, rows in self._by_topic(batch):
            facts = self.topics.of(topic)
            if facts.before_ms is not None:
                reason = f"topic {topic} takes no message older than {facts.before_ms:,} ms"
                refused.append((pc.and_(rows, pc.less(stamps, now_ms - facts.before_ms)), reason))
            if facts.after_ms is not None:
                reason = f"topic {topic} takes no message from later than in {facts.after_ms:,} ms"
                refused.append((pc.and_(rows, pc.greater(stamps, now_ms + facts.after_ms)), reason))
        for wrong, reason in refused:
            if pc.any(wrong).as_py():
                raise bad_value(str(name), first_row + pc.index(wrong, True).as_py(), reason)
        return stamps

    def _key(self, batch: pa.RecordBatch, first_row: int) -> pa.Array:
        if "key" in self.encoders:
            return self._encoded("key", batch.select(self.layout.key), first_row)
        (name, *more) = self.layout.key
        if more:
            with _bad_rows(first_row):
                return json_objects(batch.select(self.layout.key))
        column = batch.column(name)
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            return column
        if pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type):
            return column.cast(pa.binary())
        with _bad_rows(first_row):
            return json_column(name, column)

    def _value(self, batch: pa.RecordBatch, first_row: int) -> pa.Array:
        names = self.layout.value_columns(self.rows)
        if "value" in self.encoders:
            return self._encoded_value(batch, names, first_row)
        if self.layout.format == "json":
            with _bad_rows(first_row):
                values = json_objects(batch.select(names))
        else:
            values = batch.column(VALUE)
        values = values.cast(pa.binary())
        if self.layout.deleted is None:
            return values
        gone = pc.fill_null(batch.column(self.layout.deleted), False)
        return pc.if_else(gone, pa.scalar(None, pa.binary()), values)

    def _encoded_value(self, batch: pa.RecordBatch, names: Sequence[str], first_row: int) -> pa.Array:
        """Encode the rows that are not deleted: a tombstone's columns may hold nothing that the schema takes."""
        rows = batch.select(names)
        if self.layout.deleted is None:
            return self._encoded("value", rows, first_row)
        kept = pc.invert(pc.fill_null(batch.column(self.layout.deleted), False))
        found = self._encoded("value", rows.filter(kept), first_row, np.flatnonzero(kept))
        return with_nulls(found, kept)

    def _encoded(
        self, part: Part, rows: pa.RecordBatch, first_row: int, places: NDArray[np.int64] | None = None
    ) -> pa.Array:
        """Encode a part of the messages. `places`: where the rows are in the batch; None: all of them."""
        with _bad_rows(first_row, places):
            return self.encoders[part].encode(rows)

    def _headers(self, batch: pa.RecordBatch, first_row: int) -> pa.Array:
        """Each header's column becomes every so-manieth entry of one long list, which is then cut into rows."""
        del first_row
        if self.layout.carried is not None:
            return self._with_carried(batch, self.layout.carried)
        count, rows = len(self.layout.headers), batch.num_rows
        order = (np.arange(rows)[:, None] + np.arange(count)[None, :] * rows).ravel()
        values = pa.concat_arrays([_header(batch.column(name)) for name in self.layout.headers.values()])
        names = pa.array(list(self.layout.headers)).take(pa.array(np.tile(np.arange(count), rows)))
        entries = pa.StructArray.from_arrays([names, values.take(pa.array(order))], fields=list(HEADERS.value_type))
        ends = pa.array(np.arange(0, (rows + 1) * count, count), pa.int32())
        return pa.ListArray.from_arrays(ends, entries)

    def _with_carried(self, batch: pa.RecordBatch, carried: str) -> pa.Array:
        """Row by row: only of records that were put aside."""
        own = [(name, _header(batch.column(column)).to_pylist()) for name, column in self.layout.headers.items()]
        rows = [
            [*decode_headers(text), *((name, values[row]) for name, values in own if values[row] is not None)]
            for row, text in enumerate(batch.column(carried).to_pylist())
        ]
        return pa.array(rows, HEADERS)

    def _check_keys(self, batch: pa.RecordBatch, messages: pa.RecordBatch, first_row: int) -> None:
        for topic, rows in self._by_topic(batch):
            if not self.topics.of(topic).compacted:
                continue
            keyless = pc.and_(rows, pc.is_null(messages.column("key"))) if self.layout.key else rows
            if pc.any(keyless).as_py():
                reason = f"topic {topic} is compacted, and takes no message without a key"
                at = first_row + pc.index(keyless, True).as_py()
                raise bad_value(self.layout.key[0] if self.layout.key else "key", at, reason)

    def _check_sizes(self, batch: pa.RecordBatch, messages: pa.RecordBatch, first_row: int) -> None:
        frame = _ROOM + sum(len(header.encode()) + _HEADER_ROOM for header in self.layout.headers)
        headers = [*self.layout.headers.values(), *([self.layout.carried] if self.layout.carried else [])]
        columns = [_header(batch.column(name)) for name in headers]
        columns += [messages.column(name) for name in ("key", "value") if name in messages.schema.names]
        sizes = pa.repeat(pa.scalar(frame, pa.int64()), batch.num_rows)
        for column in columns:
            length = pc.fill_null(pc.binary_length(column), 0)
            sizes = pc.add(sizes, length.cast(pa.int64()))
        most = self.topics.max_bytes
        if (pc.max(sizes).as_py() or 0) > most:
            at = pc.index(pc.greater(sizes, most), True).as_py()
            reason = f"a message of some {sizes[at].as_py():,} bytes, where Kafka takes {most:,}"
            raise bad_value("value", first_row + at, reason)


@contextmanager
def _bad_rows(first_row: int, places: NDArray[np.int64] | None = None) -> Iterator[None]:
    """Raise BadRowError for a value that cannot be encoded."""
    try:
        yield
    except UnencodableError as error:
        at = error.index if places is None else int(places[error.index])
        raise bad_value(error.column, first_row + at, error.reason) from error


def parts(messages: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """As many as a producer is handed at once."""
    rows = max(1, min(_ROWS, messages.num_rows * _BYTES // max(messages.nbytes, 1)))
    for start in range(0, messages.num_rows, rows):
        yield messages.slice(start, rows)


def _header(values: pa.Array) -> pa.Array:
    """The bytes of a header."""
    if types.is_timestamp(values.type):
        values = pc.strftime(values.cast(pa.timestamp("us", "UTC")), format="%Y-%m-%dT%H:%M:%SZ")
    return (values.cast(pa.string()) if types.is_integer(values.type) else values).cast(pa.binary())


def sender(messages: pa.RecordBatch) -> Callable[[Producer], None]:
    """What hands these messages to a producer, in their order."""
    columns = {name: messages.column(name).to_pylist() for name in messages.schema.names if name != "headers"}
    if "headers" in messages.schema.names:
        columns["headers"] = _pairs(messages.column("headers"))
    topic = (messages.schema.metadata or {}).get(_TOPIC, b"").decode()
    if set(columns) == {"value"}:
        return lambda producer: _send_values(producer, topic, columns["value"])
    if set(columns) == {"key", "value"}:
        return lambda producer: _send_pairs(producer, topic, columns["key"], columns["value"])
    return lambda producer: _send(producer, topic, columns)


def _pairs(headers: pa.ListArray) -> list[list[tuple[str, bytes | None]]]:
    """Name and value of each message's headers. Ten times as fast as `to_pylist` of all."""
    entries = headers.flatten()
    pairs = list(zip(entries.field("key").to_pylist(), entries.field("value").to_pylist(), strict=True))
    ends = headers.offsets.to_pylist()
    return [pairs[start - ends[0] : end - ends[0]] for start, end in pairwise(ends)]


def _send_values(producer: Producer, topic: str, values: Sequence[bytes | None]) -> None:
    produce = producer.produce
    for value in values:
        produce(topic, value)


def _send_pairs(producer: Producer, topic: str, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> None:
    produce = producer.produce
    for key, value in zip(keys, values, strict=True):
        produce(topic, value, key)


def _send(producer: Producer, topic: str, columns: Mapping[str, Sequence[Any]]) -> None:
    """With what a message seldom has: measured, it is slower by a third."""
    produce, values = producer.produce, columns["value"]
    none = [None] * len(values)
    topics = columns.get("topic") or [topic] * len(values)
    rest = [columns.get(name) or none for name in ("key", "partition", "timestamp", "headers")]
    for topic, value, key, partition, timestamp, headers in zip(topics, values, *rest, strict=True):
        produce(
            topic,
            value,
            key,
            -1 if partition is None else partition,
            timestamp=timestamp or 0,
            headers=headers or [],
        )
