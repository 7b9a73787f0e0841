"""The records that refused rows were made of, read again from a real broker: as they were, gone, not known."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from connectors.dead_letters import RECORD, SCHEMA, decode_headers, encode_refused_row
from connectors.formats.ddl import parse_ddl
from connectors.formats.json_values import JsonFormat
from connectors.formats.plain import StringFormat
from connectors.kafka.source import KafkaSource
from eos.errors import SourceError
from integration_tests.conftest import TopicFactory
from integration_tests.harness.odd_records import produce_with_client_library
from integration_tests.services import Services
from spark_jobs.batch.source_records import SourceRecords
from spark_jobs.session.failures import TOKEN, CarriedError, translate
from twophase.values import OffsetRange

pytestmark = pytest.mark.any_server

_AT_MS = 1_700_000_000_123
_HEADERS: list[tuple[str, str | bytes | None]] = [("a", b"\xff"), ("a", None)]


@pytest.fixture
def records(topic: TopicFactory, services: Services) -> str:
    """A topic of two partitions, whose record n of each has the value `n\\xff`."""
    name = topic(partitions=2)
    producer = Producer({"bootstrap.servers": services.kafka_bootstrap})
    for number in range(20):
        value = b"%d\xff" % (number // 2)
        producer.produce(name, value, b"k" if number else None, number % 2, timestamp=_AT_MS, headers=_HEADERS)
    assert producer.flush(30) == 0
    return name


def _letter(number: int, *place: object) -> pa.RecordBatch:
    columns = dict(zip(("_topic", "_partition", "_offset"), place, strict=False))
    return encode_refused_row(
        "out", pa.RecordBatch.from_pylist([{"n": number}]), "too large", pa.RecordBatch.from_pylist([columns])
    )


def _again(originals: SourceRecords, letters: list[pa.RecordBatch]) -> dict[int, dict[str, Any]]:
    """By the row's own number. As Spark hands them over, under names of its own."""
    batches: Iterator[pa.RecordBatch] = (each.rename_columns([f"c{n}" for n in range(len(RECORD))]) for each in letters)
    out = pa.Table.from_batches(originals(batches), schema=RECORD).to_pylist()
    found = {}
    for each in out:
        row = each["value"] if each["source"] is None else each["error"].rpartition("the row: ")[2]
        found[json.loads(row)["n"]] = each
    assert len(found) == len(out) == len(letters)
    return found


def test_a_record_is_told_as_it_was(records: str, services: Services) -> None:
    """With each of its rows; and the row alone where it is gone, or where nothing certain is known of it."""
    source = KafkaSource("in", services.kafka_bootstrap, (records,), StringFormat())
    twice = KafkaSource("other", services.kafka_bootstrap, (records,), StringFormat())
    ranges: list[tuple[Any, OffsetRange]] = [
        (source, OffsetRange(f"{records}/0", 1, 8)),
        (source, OffsetRange(f"{records}/1", 0, 10)),
    ]
    ranges.append((twice, OffsetRange(f"{records}/1", 5, 6)))
    admin = AdminClient({"bootstrap.servers": services.kafka_bootstrap})
    (deleted,) = admin.delete_records([TopicPartition(records, 0, 3)]).values()
    deleted.result(30)
    letters = [
        *(_letter(1, records, 0, 5), _letter(2, records, 1, 4), _letter(3, records, 0, 5), _letter(4, records, 0, 7)),
        *(_letter(5, records, 0, 2), _letter(6, records, 1, 5), _letter(7, records, 0, 9), _letter(8, "other", 0, 5)),
        *(_letter(9), _letter(10, records, 0, None)),
    ]
    found = _again(SourceRecords(ranges, TOKEN), letters)
    for number, value in ((1, b"5\xff"), (2, b"4\xff"), (3, b"5\xff"), (4, b"7\xff")):
        each = found[number]
        assert (each["source"], each["sink"], each["key"], each["value"]) == ("in", "out", b"k", value)
        assert decode_headers(each["headers"]) == _HEADERS
        assert each["timestamp"] == datetime.fromtimestamp(_AT_MS // 1000, UTC).replace(microsecond=123_000)
        assert each["error"] == f'too large; the row: {{"n": {number}}}'
        assert each["offset"] == int(value[:1])
    for number in (5, 6, 7, 8, 9, 10):
        each = found[number]
        assert (each["source"], each["value"], each["headers"]) == (None, b'{"n": %d}' % number, None)
        assert each["error"] == "too large" + "; its record is gone, the value is the row" * (number == 5)
    assert _again(SourceRecords(ranges, TOKEN), []) == {}
    assert set(RECORD.names) | {"checkpoint_id"} == set(SCHEMA.names)


def test_headers_that_the_client_cannot_read_block_nothing(topic: TopicFactory, services: Services) -> None:
    """Kafka says nothing of the bytes of a header's name. Of such a record all else is told."""
    name = topic()
    for header in (b"a", b"\xff", b"b"):
        produce_with_client_library(services.kafka_bootstrap, name, header)
    source: Any = KafkaSource("in", services.kafka_bootstrap, (name,), JsonFormat(parse_ddl("id BIGINT")))
    (bad,) = source.bad_records(OffsetRange(f"{name}/0", 0, 3))
    found = _again(
        SourceRecords([(source, OffsetRange(f"{name}/0", 0, 3))], TOKEN), [_letter(n, name, 0, n) for n in range(3)]
    )
    for letters in (bad.to_pylist(), [found[n] for n in range(3)]):
        assert [each["value"] for each in letters] == [b"v"] * 3
        assert [decode_headers(each["headers"]) for each in letters] == [[("a", b"x")], [], [("b", b"x")]]
        assert ["its headers cannot be read" in each["error"] for each in letters] == [False, True, False]


def test_a_source_that_is_away_loses_nothing(records: str) -> None:
    """The error is one after which the checkpoint is tried again."""
    away: Any = KafkaSource("in", "127.0.0.1:9", (records,), StringFormat(), connect_timeout_s=1.0, read_timeout_s=1.0)
    with pytest.raises(CarriedError) as caught:
        _again(SourceRecords([(away, OffsetRange(f"{records}/0", 0, 8))], TOKEN), [_letter(1, records, 0, 5)])
    error = translate(caught.value, "reading")
    assert isinstance(error, SourceError)
    assert error.retriable
