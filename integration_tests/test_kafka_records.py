"""Records that are bad, the consumer group, the doctor and the settings, on a real broker."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient

from connectors.dead_letters import decode_headers
from connectors.formats.ddl import parse_ddl
from connectors.formats.json_values import JsonFormat
from connectors.formats.plain import StringFormat
from connectors.kafka import bad_records
from connectors.kafka.source import KafkaSource
from eos.errors import BadRecordError, SourceAccessError, SourceError
from integration_tests.conftest import TopicFactory
from integration_tests.harness.odd_records import produce_with_client_library
from integration_tests.services import Services
from twophase.values import OffsetRange, StartingPoint

pytestmark = pytest.mark.any_server

JSON = JsonFormat(parse_ddl("id BIGINT NOT NULL, name STRING"))


@pytest.fixture
def mixed(topic: TopicFactory, services: Services) -> str:
    """A topic of one partition with 1,000 good records and bad ones at 3 and 500."""
    name = topic()
    producer = Producer({"bootstrap.servers": services.kafka_bootstrap})
    for number in range(1000):
        good = b'{"id": %d, "name": "n%d"}' % (number, number)
        producer.produce(name, {3: b'{"id": "three\x01"}' + b"x" * 200, 500: b'{"id": 2.5}'}.get(number, good))
    producer.flush(10)
    return name


@pytest.fixture
def skipped() -> Iterator[list[bad_records.Skipped]]:
    told: list[bad_records.Skipped] = []
    bad_records.listeners.append(told.append)
    yield told
    bad_records.listeners.remove(told.append)


def test_a_bad_record_stops_the_reader(mixed: str, services: Services) -> None:
    source = KafkaSource("in", services.kafka_bootstrap, (mixed,), JSON)
    with pytest.raises(BadRecordError) as stopped:
        list(source.read([OffsetRange(f"{mixed}/0", 0, 1000)]))
    message = stopped.value.message
    assert f"topic {mixed}, partition 0, offset 3: not valid JSON: not a JSON object" in message
    assert r"{\"id\": \"three\x01\"}" in message.replace('"', r"\"")
    assert "x" * 100 not in message  # the first 100 bytes only
    assert not stopped.value.retriable
    with pytest.raises(BadRecordError, match=r"offset 500: field id: .2\.5. does not fit BIGINT"):
        list(source.read([OffsetRange(f"{mixed}/0", 4, 1000)]))
    good = [batch.num_rows for batch in source.read([OffsetRange(f"{mixed}/0", 4, 500)])]
    assert sum(good) == 496


def test_bad_records_are_left_out_and_told(
    mixed: str, services: Services, skipped: list[bad_records.Skipped], caplog: pytest.LogCaptureFixture
) -> None:
    source = KafkaSource("in", services.kafka_bootstrap, (mixed,), JSON, on_bad_record="skip")
    with caplog.at_level(logging.WARNING):
        rows = [row for batch in source.read([OffsetRange(f"{mixed}/0", 0, 1000)]) for row in batch.to_pylist()]
    assert [row["_offset"] for row in rows] == [row["id"] for row in rows]
    assert [row["id"] for row in rows] == [number for number in range(1000) if number not in (3, 500)]
    assert [offset for batch in skipped for offset in batch.offsets] == [3, 500]
    assert mixed in caplog.text
    assert "offsets 3" in caplog.text
    only_bad = KafkaSource("in", services.kafka_bootstrap, (mixed,), JSON, on_bad_record="skip")
    assert list(only_bad.read([OffsetRange(f"{mixed}/0", 500, 501)])) == []


def test_what_is_bad_does_not_depend_on_the_columns(mixed: str, services: Services) -> None:
    source = KafkaSource("in", services.kafka_bootstrap, (mixed,), JSON).select(["_offset"])
    with pytest.raises(BadRecordError):
        list(source.read([OffsetRange(f"{mixed}/0", 0, 10)]))


_NANOSECONDS, _MICROSECONDS, _LAST = 1_700_000_000_123_456_789, 1_700_000_000_123_456, 253_402_300_799_999


@pytest.fixture
def odd(topic: TopicFactory, services: Services) -> str:
    """A topic that takes any time. Times of 1, 3 and 6 are not milliseconds, names of headers of 4 and 7 not UTF-8, and
    6 and 7 do not decode, too.
    """
    name = topic(message_timestamp_after_max_ms=str(2**63 - 1))
    producer = Producer({"bootstrap.servers": services.kafka_bootstrap})
    times = {1: _NANOSECONDS, 2: _LAST, 3: _MICROSECONDS, 6: _NANOSECONDS}
    for number in range(9):
        value = b"{" if number in (6, 7) else b'{"id": %d}' % number
        if number in (4, 7):
            produce_with_client_library(services.kafka_bootstrap, name, b"\xff", value)
        else:
            producer.produce(name, value, b"k", timestamp=times.get(number, 1_700_000_000_123), headers=[("h", b"1")])
            assert producer.flush(10) == 0
    return name


def test_metadata_that_a_column_cannot_hold_stops_who_reads_it(odd: str, services: Services) -> None:
    """And nobody else: a pipeline that wants neither of the two reads the record."""
    source = KafkaSource("in", services.kafka_bootstrap, (odd,), JSON)
    for columns, start, end, fragment in (
        (["_timestamp"], 0, 6, f"offset 1: its timestamp, {_NANOSECONDS} ms since 1970, is not in the years 1 to 9999"),
        (["_timestamp"], 2, 6, f"offset 3: its timestamp, {_MICROSECONDS} ms"),
        (["id", "_headers"], 0, 6, "offset 4: its headers cannot be read: the name of one is not UTF-8"),
        (["_timestamp", "_headers"], 4, 9, "offset 4: its headers"),
        (["_timestamp", "_headers"], 5, 9, "offset 6: not valid JSON"),
    ):
        with pytest.raises(BadRecordError) as stopped:
            list(source.select(columns).read([OffsetRange(f"{odd}/0", start, end)]))
        assert f"topic {odd}, partition 0, {fragment}" in stopped.value.message
        unwanted = {"1": "_timestamp", "3": "_timestamp", "4": "_headers"}.get(fragment[7])
        assert ("let no step use" in stopped.value.remedy) is (unwanted is not None)
        assert f"use {unwanted};" in stopped.value.remedy or unwanted is None
        assert not stopped.value.retriable
    rows = [
        batch.to_pylist() for batch in source.select(["id", "_offset", "_key"]).read([OffsetRange(f"{odd}/0", 0, 6)])
    ]
    assert [row["id"] for batch in rows for row in batch] == [0, 1, 2, 3, 4, 5]


def test_records_of_odd_metadata_are_left_out(odd: str, services: Services, skipped: list[bad_records.Skipped]) -> None:
    source = KafkaSource("in", services.kafka_bootstrap, (odd,), JSON, on_bad_record="skip")
    (batch,) = source.read([OffsetRange(f"{odd}/0", 0, 9)])
    assert batch.schema == source.schema
    assert batch.column("id").to_pylist() == batch.column("_offset").to_pylist() == [0, 2, 5, 8]
    assert batch.column("_timestamp")[1].as_py().replace(tzinfo=None) == datetime(9999, 12, 31, 23, 59, 59, 999_000)
    assert batch.column("_headers").to_pylist() == [[{"key": "h", "value": b"1"}]] * 4
    assert [offset for each in skipped for offset in each.offsets] == [1, 3, 4, 6, 7]


@pytest.mark.parametrize(
    ("columns", "bad"),
    [
        (["id"], [6, 7]),
        (["id", "_timestamp"], [1, 3, 6, 7]),
        (["id", "_headers"], [4, 6, 7]),
        (["_timestamp", "_headers"], [1, 3, 4, 6, 7]),
    ],
)
def test_what_is_put_aside_is_found_again(odd: str, services: Services, columns: list[str], bad: list[int]) -> None:
    """By the source with the same columns. A letter says what of its record cannot be told."""
    whole = KafkaSource("in", services.kafka_bootstrap, (odd,), JSON, on_bad_record="dead-letter")
    source = whole.select([*columns, "_offset"])
    ranges = [OffsetRange(f"{odd}/0", start, start + 3) for start in (0, 3, 6)]
    aside: list[int] = []
    good = [
        row["_offset"] for each in ranges for batch in source.read([each], aside.append) for row in batch.to_pylist()
    ]
    found = [row for each in ranges for batch in source.bad_records(each) for row in batch.to_pylist()]
    assert good == [number for number in range(9) if number not in bad]
    assert [each["offset"] for each in found] == bad
    assert sum(aside) == len(bad)
    for each in found:
        is_timed, is_headed = each["offset"] not in (1, 3, 6), each["offset"] not in (4, 7)
        assert (each["timestamp"] is not None, decode_headers(each["headers"]) == [("h", b"1")]) == (
            is_timed,
            is_headed,
        )
        assert ("not valid JSON" in each["error"]) is (each["offset"] in (6, 7))
        assert each["error"].count("its timestamp, ") == (not is_timed)
        assert each["error"].count("its headers cannot be read") == (not is_headed)
        assert each["value"] == (b"{" if each["offset"] in (6, 7) else b'{"id": %d}' % each["offset"])


def test_positions_are_told_to_the_group(topic: TopicFactory, services: Services) -> None:
    name = topic(2)
    group_id = f"eos-test-{name}"
    source = KafkaSource("in", services.kafka_bootstrap, (name,), StringFormat(), group_id=group_id)
    for ends in ({f"{name}/0": 5, f"{name}/1": 7}, {f"{name}/0": 6}):
        source.commit_back(ends)
    admin = AdminClient({"bootstrap.servers": services.kafka_bootstrap})
    (asked,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group_id)]).values()
    assert {p.partition: p.offset for p in asked.result(10).topic_partitions} == {0: 6, 1: 7}
    assert any("committed for 2 splits" in finding.detail for finding in source.check())
    for deleted in admin.delete_consumer_groups([group_id]).values():
        deleted.result(10)
    KafkaSource("in", "127.0.0.1:9", (name,), StringFormat()).commit_back({f"{name}/0": 1})  # no group: asks nobody
    away = KafkaSource("in", "127.0.0.1:9", (name,), StringFormat(), group_id="g", connect_timeout_s=1.0)
    with pytest.raises(SourceError, match=r"commit to group g: no answer from Kafka at 127\.0\.0\.1:9"):
        away.commit_back({f"{name}/0": 1})


def test_the_doctor(topic: TopicFactory, services: Services) -> None:
    name = topic(3)
    source = KafkaSource("in", services.kafka_bootstrap, (name, f"{name}x"), StringFormat(), group_id="eos-unused")
    findings = {finding.check: finding for finding in source.check()}
    assert "cluster" in findings["in: reachable"].detail
    assert "3 partitions, replication 1, offsets 0: [0, 0)" in findings[f"in: topic {name}"].detail
    missing = findings[f"in: topic {name}x"]
    assert not missing.ok
    assert name in missing.detail
    assert findings["in: group eos-unused"].ok
    (away,) = KafkaSource("in", "127.0.0.1:9", (name,), StringFormat(), connect_timeout_s=1.0).check()
    assert (away.ok, away.fatal) == (False, True)
    (wrong,) = KafkaSource("in", "h:1", (name,), StringFormat(), properties={"fetch.max.wait": "1"}).check()
    assert 'No such configuration property: "fetch.max.wait"' in wrong.detail


def test_a_refusal_is_told_without_the_password(services: Services) -> None:
    """This broker speaks no SASL: whatever it is that refuses, the user is told so, and at once not to try again."""
    secret = "pass-word-0815"
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "me",
        "sasl.password": secret,
    }
    source = KafkaSource(
        "in", services.kafka_bootstrap, ("t",), StringFormat(), properties=properties, connect_timeout_s=3.0
    )
    with pytest.raises(SourceAccessError) as refused:
        source.horizon(StartingPoint())
    assert "SASL" in str(refused.value)
    assert not refused.value.retriable
    for text in (str(refused.value), repr(refused.value), repr(source), repr(source.connection), str(source.check())):
        assert secret not in text
