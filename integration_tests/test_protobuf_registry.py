"""Protobuf records of Confluent's serializer, whose schemas are in a registry."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from connectors.formats.protobuf.compiler import compile_text
from connectors.formats.protobuf.descriptors import needed
from connectors.formats.protobuf.protobuf_format import ProtobufFormat, Reader
from connectors.formats.protobuf.writers import RegisteredWriters
from connectors.schema_registry.client import Connection, schemas_of
from integration_tests.conftest import TopicFactory
from integration_tests.harness.drain import drain
from integration_tests.harness.kills import kill_at
from integration_tests.harness.pipeline import Pipeline
from integration_tests.harness.workload import Row
from integration_tests.services import Services
from integration_tests.services.registry_native import SchemaRegistry

pytestmark = [pytest.mark.any_server, pytest.mark.registry]

_PART: Final = 'syntax = "proto3"; package part; message Part { repeated double unread = 1; }'
_OLDER: Final = """
syntax = "proto3"; package shop; import "shop/part.proto";
message Row { string payload = 3; part.Part part = 4; int32 id = 1; optional string word = 2; }
"""
_NEWER: Final = """
syntax = "proto3"; package shop;
message Other { int32 id = 1; message Inner { int32 id = 1; } }
message Row { int64 id = 1; optional string word = 2; string payload = 3; repeated Other more = 5; }
"""
_READER: Final = """
syntax = "proto3"; package shop;
message Row { int64 id = 1; optional string word = 2; string payload = 3; }
"""


def _class_of(text: str, name: str) -> type[Message]:
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(compile_text(text, {"shop/part.proto": _PART})).file:
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(name))


_Encode = Callable[..., bytes]


def _encoder(registry: SchemaRegistry, topic: str, text: str, name: str = "shop.Row") -> _Encode:
    """Return the serializer that users write with, for one message: it registers the schema and its imports."""
    client = SchemaRegistryClient({"url": registry.url})
    kind: Any = _class_of(text, name)
    serializer = ProtobufSerializer(kind, client, {"auto.register.schemas": True})

    def encode(**fields: Any) -> bytes:
        encoded = serializer(kind(**fields), SerializationContext(topic, MessageField.VALUE))
        assert isinstance(encoded, bytes)
        return encoded

    return encode


def _spec(pipeline: Pipeline, registry: SchemaRegistry) -> None:
    pipeline.source["format"] = {
        "type": "protobuf",
        "message": "shop.Row",
        "schema": _READER,
        "encoding": "confluent",
        "registry": {"url": registry.url},
    }


def _values(row: Row) -> dict[str, Any]:
    return dict(zip(("id", "word", "payload"), row, strict=True))


def test_a_schema_comes_with_all_that_it_imports(registry: SchemaRegistry) -> None:
    """Over two levels, by the names of the imports."""
    client = SchemaRegistryClient({"url": registry.url})
    inner = 'syntax = "proto3"; package i; message Money { int64 units = 1; }'
    middle = 'syntax = "proto3"; package m; import "inner/money.proto"; message Item { i.Money price = 1; }'
    outer = """syntax = "proto3"; package o; import "items.proto";
    message Order { int32 n = 1; repeated m.Item items = 2; }"""
    client.register_schema("money", Schema(inner, "PROTOBUF"))
    client.register_schema("items", Schema(middle, "PROTOBUF", [SchemaReference("inner/money.proto", "money", 1)]))
    given = client.register_schema("order", Schema(outer, "PROTOBUF", [SchemaReference("items.proto", "items", 1)]))
    found = schemas_of(Connection(registry.url), [given])[given]
    assert found is not None
    assert {name for name, _ in found.imports} == {"items.proto", "inner/money.proto"}
    descriptors = needed(compile_text(outer, {"items.proto": middle, "inner/money.proto": inner}), "o.Order")
    form = ProtobufFormat(Reader(descriptors, "o.Order"), RegisteredWriters(Connection(registry.url)))
    decoded = form.decode(pa.array([b"\0" + given.to_bytes(4) + b"\0\x08\x05\x12\x04\x0a\x02\x08\x07"], pa.binary()))
    assert decoded.bad == ()
    assert decoded.rows.to_pylist() == [{"n": 5, "items": [{"price": {"units": 7}}]}]


@pytest.mark.in_turns
@pytest.mark.timeout(600)
def test_killed_on_both_sides_of_the_decision(
    pipeline: Pipeline, services: Services, topic: TopicFactory, registry: SchemaRegistry
) -> None:
    """Two writers' schemas, one with an import, and records that no schema explains."""
    letters = topic(partitions=1)
    pipeline.spec["dead_letter"] = {
        "connector": "kafka",
        "bootstrap_servers": services.kafka_bootstrap,
        "topic": letters,
    }
    _spec(pipeline, registry)
    name = pipeline.workload.topic
    client = SchemaRegistryClient({"url": registry.url})
    client.set_compatibility(f"{name}-value", "NONE")
    newer, older = _encoder(registry, name, _NEWER), _encoder(registry, name, _OLDER)
    inner = _encoder(registry, name, _NEWER, "shop.Other.Inner")

    def encode(row: Row) -> bytes:
        if row[0] % 2:
            return older(**_values(row), part={"unread": [0.5] * (row[0] % 3)})
        return newer(**_values(row), more=[{"id": 1}] * (row[0] % 3))

    avro = client.register_schema(f"{name}-avro", Schema('{"type": "string"}', "AVRO"))
    pipeline.workload.encode = encode
    pipeline.workload.produce(400)
    pipeline.workload.produce_without_word()
    good = encode((2, "a", "b"))
    known = int.from_bytes(good[1:5])
    bad = (
        good[:-1],
        b"\0" + (99_999).to_bytes(4) + good[5:],
        b"\0" + avro.to_bytes(4) + good[5:],
        b"\1" + good[1:],
        good[:5] + b"\xff\xff\xff\xff\x0f",
        inner(id=1),
    )
    for each in bad:
        pipeline.workload.produce_bad(each)
    kill_at(pipeline, "before-decide", "after-decide")
    pipeline.workload.produce(100)
    pipeline.catch_up()
    assert pipeline.table.rows() == pipeline.workload.expected
    assert pipeline.table.count() == 501
    assert pipeline.prepared() == []
    reasons = [record.reason for record in drain(services.kafka_bootstrap, letters)]
    assert sorted(reasons) == sorted(
        [
            "the message ends too early",
            "written with schema 99999: the schema registry does not have it",
            f"written with schema {avro}: it is of the kind AVRO, not PROTOBUF",
            "not in Confluent's wire format: another first byte, or too short",
            "the header has a negative number of message indexes, or more than 32",
            f"written with schema {known}: the record is a shop.Other.Inner, not a shop.Row",
        ]
    )


@pytest.mark.in_turns
@pytest.mark.timeout(600)
def test_h35_an_id_that_names_another_schema_stops_the_pipeline(
    pipeline: Pipeline, services: Services, tmp_path: Path
) -> None:
    """The registry lost its schemas, and has given the id of one of them to another."""
    with SchemaRegistry(tmp_path, services.kafka_bootstrap) as registry:
        _spec(pipeline, registry)
        encode = _encoder(registry, pipeline.workload.topic, _NEWER)
        pipeline.workload.encode = lambda row: encode(**_values(row))
        pipeline.workload.produce(300)
        pipeline.catch_up()
        (name,) = pipeline.head.schemas["incoming"]
        registry.replace()
        pipeline.workload.produce(100)
        pipeline.start().fail(f"{name} is now unknown", "restore its newest state")
        swapped = _NEWER.replace("word = 2", "word = 3").replace("payload = 3", "payload = 2")
        given = SchemaRegistryClient({"url": registry.url}).register_schema("after", Schema(swapped, "PROTOBUF"))
        assert name == f"schema {given}"
        pipeline.start().fail(f"{name} is now another schema", "restore its newest state")
        assert pipeline.table.count() == 300
        registry.put_back()
        pipeline.catch_up()
    assert pipeline.table.rows() == pipeline.workload.expected
    assert pipeline.table.count() == 400


@pytest.mark.in_turns
@pytest.mark.timeout(600)
def test_each_message_has_its_table_without_a_schema_in_the_spec(
    pipeline: Pipeline, services: Services, registry: SchemaRegistry
) -> None:
    """Killed on both sides of the decision. A later schema adds a column, which older rows do not have."""
    name, count = pipeline.workload.topic, 300
    client = SchemaRegistryClient({"url": registry.url})
    client.set_compatibility(f"{name}-value", "NONE")
    row, other = _encoder(registry, name, _OLDER), _encoder(registry, name, _NEWER, "shop.Other")
    later = _encoder(registry, name, _NEWER)
    pipeline.source["format"] = {"type": "protobuf", "encoding": "confluent", "registry": {"url": registry.url}}
    pipeline.spec["transforms"] = []
    (sink,) = pipeline.spec["sinks"]
    sink |= {"from": "incoming", "table": "${schema}", "commit": "write-ahead-log", "create": "if-missing"}
    sink |= {"evolve": "add-columns", "rewrite": [{"match": r"shop[.](\w+)", "to": r"of_\1"}]}
    producer = Producer({"bootstrap.servers": services.kafka_bootstrap})
    for number in range(count):
        producer.produce(name, row(id=number, word="w", payload="p"))
        producer.produce(name, other(id=number))
    assert producer.flush(60) == 0
    kill_at(pipeline, "before-decide", "after-decide", "applying")
    for number in range(count, 2 * count):
        producer.produce(name, later(id=number, payload="p", more=[{"id": number}]))
    assert producer.flush(60) == 0
    kill_at(pipeline, "before-decide")
    pipeline.catch_up()
    found = pipeline.table.execute("SELECT id, word, more FROM of_Row ORDER BY id")
    assert [(key, word) for key, word, _ in found] == [(n, "w" if n < count else None) for n in range(2 * count)]
    assert {more for key, _, more in found if key < count} == {None}
    assert [json.loads(more) for key, _, more in found if key >= count] == [
        [{"id": number}] for number in range(count, 2 * count)
    ]
    assert pipeline.table.execute("SELECT id FROM of_Other ORDER BY id") == [(number,) for number in range(count)]
    assert pipeline.prepared() == []
