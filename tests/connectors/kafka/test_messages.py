"""Rows become messages as they are, or are refused before the decision. Real brokers: integration_tests."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from connectors.dead_letters import encode_headers
from connectors.kafka.settings import Connection
from connectors.kafka.sink.layout import Layout
from connectors.kafka.sink.messages import Messages, parts, sender
from connectors.kafka.sink.target import Facts, Topics
from eos.errors import BadRowError, TargetError

FACTS = Facts(partitions=3, max_bytes=10_000, replication=1, before_ms=3_600_000, after_ms=3_600_000)
NOW = datetime.now(UTC).replace(microsecond=123_000)


class Calls:
    """What a producer is called with."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def produce(
        self, topic: str, value: Any, key: Any = None, partition: int = -1, timestamp: int = 0, headers: Any = ()
    ) -> None:
        names = ("topic", "value", "key", "partition", "timestamp", "headers")
        given = (topic, value, key, partition, timestamp, list(headers))
        self.sent.append(dict(zip(names, given, strict=True)))


def messages(layout: Layout, columns: dict[str, Any], facts: Facts = FACTS) -> pa.RecordBatch:
    batch = pa.record_batch(list(columns.values()), names=list(columns))
    layout.check("out", batch.schema)
    return Messages(layout, batch.schema, Topics(Connection("k:1", "g"), facts, "eos-markers")).convert(batch, 1)


def sent(layout: Layout, **columns: Any) -> list[dict[str, Any]]:
    calls = Calls()
    for part in parts(messages(layout, columns)):
        sender(part)(cast(Producer, calls))
    return calls.sent


def test_a_row_that_is_deleted_is_a_tombstone_and_no_other_is() -> None:
    gone = pa.array([True, False, None])
    found = sent(Layout("t", key=("k",), deleted="gone"), k=pa.array(["a", "b", "c"]), v=pa.array([1, 2, 3]), gone=gone)
    values = [(each["key"], each["value"]) for each in found]
    assert values == [(b"a", None), (b"b", b'{"k":"b","v":2}'), (b"c", b'{"k":"c","v":3}')]


@pytest.mark.parametrize(
    ("column", "key"),
    [
        (pa.array(["ü", None]), ["ü".encode(), None]),
        (pa.array([b"\xff", b""]), [b"\xff", b""]),
        (pa.array(["ü"], pa.large_string()), ["ü".encode()]),
        (pa.array([7, None]), [b"7", None]),
        (pa.array([{"a": 1}]), [b'{"a":1}']),
    ],
    ids=["text", "bytes", "large text", "number", "struct"],
)
def test_a_key_of_one_column_is_its_text_or_bytes_else_json(column: pa.Array, key: list[bytes | None]) -> None:
    layout = Layout("t", format="raw", key=("k",))
    assert [each["key"] for each in sent(layout, k=column, value=pa.array([b"v"] * len(column)))] == key


def test_a_key_of_several_columns_is_a_json_object() -> None:
    (found,) = sent(Layout("t", key=("k", "l")), k=pa.array(["a"]), l=pa.array([None], pa.int8()), v=pa.array([1]))
    assert json.loads(found["key"]) == {"k": "a", "l": None}
    assert json.loads(found["value"]) == {"k": "a", "l": None, "v": 1}


def test_everything_of_a_message_is_of_its_own_row() -> None:
    layout = Layout(
        "t",
        format="raw",
        key=("k",),
        headers={"one": "h1", "two": "h2"},
        partition="p",
        timestamp="at",
    )
    times = [NOW, NOW - timedelta(minutes=1), NOW + timedelta(minutes=1)]
    found = sent(
        layout,
        k=pa.array(["a", "b", "c"]),
        value=pa.array([b"v0", None, b"v2"]),
        h1=pa.array(["x0", "x1", None]),
        h2=pa.array([10, None, 12]),
        p=pa.array([2, None, 0]),
        at=pa.array(times, pa.timestamp("us", "UTC")),
    )
    assert [each["value"] for each in found] == [b"v0", None, b"v2"]
    assert [each["key"] for each in found] == [b"a", b"b", b"c"]
    assert [each["partition"] for each in found] == [2, -1, 0]
    assert [each["timestamp"] for each in found] == [int(at.timestamp() * 1000) for at in times]
    assert [each["headers"] for each in found] == [
        [("one", b"x0"), ("two", b"10")],
        [("one", b"x1"), ("two", None)],
        [("one", None), ("two", b"12")],
    ]


def test_headers_that_a_record_had_come_before_ours() -> None:
    carried = encode_headers([("a", b"\xff"), ("a", None)])
    layout = Layout("t", format="raw", headers={"ours": "h"}, carried="c")
    found = sent(layout, value=pa.array([b"1", b"2"]), h=pa.array(["x", None]), c=pa.array([carried, None]))
    assert [each["headers"] for each in found] == [[("a", b"\xff"), ("a", None), ("ours", b"x")], []]


def test_parts_are_all_of_the_messages_in_their_order() -> None:
    values = [b"%d" % n + b"x" * 5_000 for n in range(2_000)]
    made = messages(Layout("t", format="raw"), {"value": pa.array(values)})
    some = list(parts(made))
    assert len(some) > 3
    assert [value for part in some for value in part.column("value").to_pylist()] == values
    assert [each["value"] for each in sent(Layout("t", format="raw"), value=pa.array(values))] == values


def test_parts_keep_the_headers_of_their_rows() -> None:
    names = [f"h{n}" for n in range(2_000)]
    values = pa.array([b"x" * 5_000] * len(names))
    found = sent(Layout("t", format="raw", headers={"is": "h"}), value=values, h=pa.array(names))
    assert [each["headers"] for each in found] == [[("is", name.encode())] for name in names]


@pytest.mark.parametrize(
    ("layout", "columns", "said"),
    [
        ({"partition": "p"}, {"p": [0, 3]}, r"row 2, column 'p': .*partitions 0 to 2"),
        ({"partition": "p"}, {"p": [0, -1]}, r"row 2, column 'p': .*partitions 0 to 2"),
        ({"timestamp": "at"}, {"at": [NOW, NOW - timedelta(hours=2)]}, r"row 2, column 'at': .*no message older than"),
        ({"timestamp": "at"}, {"at": [NOW, NOW + timedelta(hours=2)]}, r"row 2, column 'at': .*later than in"),
        ({"timestamp": "at"}, {"at": [NOW, datetime(1969, 1, 1, tzinfo=UTC)]}, r"row 2, column 'at': .*before 1970"),
        ({"timestamp": "at"}, {"at": [NOW, NOW + timedelta(microseconds=1)]}, r"row 2, column 'at': .*milliseconds"),
        ({}, {"v": ["a", "x" * 10_000]}, r"row 2, column 'value': a message of some 10,\d\d\d bytes"),
        ({"key": ("v",)}, {"v": ["a", "x" * 5_000]}, r"row 2, column 'value': a message of some 10,\d\d\d bytes"),
        ({"headers": {"h": "v"}}, {"k": ["", ""], "v": ["", "x" * 10_000]}, r"row 2, column 'value': a message of"),
        ({}, {"v": [1.0, float("nan")]}, r"row 2, column 'v': .*NaN"),
    ],
)
def test_what_kafka_would_refuse_is_a_bad_row(layout: dict[str, Any], columns: dict[str, Any], said: str) -> None:
    columns = {"n": pa.array([1, 2]), **{name: pa.array(each) for name, each in columns.items()}}
    with pytest.raises(BadRowError, match=said):
        messages(Layout("t", **layout), columns)


@pytest.mark.parametrize("key", [(), ("k",)])
def test_a_compacted_topic_gets_no_message_without_a_key(key: tuple[str, ...]) -> None:
    compacted = Facts(3, 10_000, 1, compacted=True)
    rows = {"k": pa.array(["a", None]), "v": pa.array([1, 2])}
    with pytest.raises(BadRowError, match=f"row {2 if key else 1}, .*compacted, and takes no message without a key"):
        messages(Layout("t", key=key), rows, compacted)
    assert messages(Layout("t", key=key), rows).num_rows == 2


@pytest.mark.parametrize(
    ("layout", "columns", "said"),
    [
        ({"deleted": "gone"}, {"gone": [True], "v": [1]}, "tombstones, which mean nothing without a `key`"),
        ({"deleted": "gone", "key": ("v",)}, {"gone": [1], "v": [1]}, "column gone is BIGINT, not a boolean"),
        ({"format": "string"}, {"value": [b"a"]}, "column value is BINARY, not text"),
        ({"format": "raw"}, {"value": ["a"]}, "column value is STRING, not binary"),
        ({"headers": {"a\0b": "v"}}, {"v": ["a"], "w": [1]}, "would end at its NUL"),
        ({"headers": {"a": "v"}}, {"v": [1.5], "w": [1]}, "column v is DOUBLE, not text, binary"),
        ({"key": ("v",), "partition": "p"}, {"v": ["a"], "p": ["1"]}, "column p is STRING, not a whole number"),
        ({}, {"v": [b"a"]}, "column v is BINARY, not of a type that JSON has"),
        ({"topic": None, "topic_column": "to"}, {"to": ["t"]}, "no column is left for the value"),
        ({"key": ("k",)}, {"v": ["a"]}, "there is no column k"),
    ],
)
def test_rows_that_make_no_messages_are_refused_at_the_start(
    layout: dict[str, Any], columns: dict[str, Any], said: str
) -> None:
    schema = pa.record_batch([pa.array(each) for each in columns.values()], names=list(columns)).schema
    with pytest.raises(TargetError, match=said):
        Layout(**{"topic": "t", **layout}).check("out", schema)
