"""JSON records whose JSON Schema is in a registry, from the serializer that users write with."""

from __future__ import annotations

import json
from typing import Final

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from integration_tests.conftest import TopicFactory
from integration_tests.harness.drain import drain
from integration_tests.harness.kills import kill_at
from integration_tests.harness.pipeline import Pipeline
from integration_tests.harness.workload import Row
from integration_tests.services import Services
from integration_tests.services.registry_native import SchemaRegistry

pytestmark = [pytest.mark.any_server, pytest.mark.registry, pytest.mark.in_turns]

_SCHEMA: Final = json.dumps(
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Row",
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "word": {"oneOf": [{"type": "null"}, {"type": "string"}]},
            "payload": {"type": "string"},
        },
    }
)


@pytest.mark.timeout(600)
def test_killed_on_both_sides_of_the_decision(
    pipeline: Pipeline, services: Services, topic: TopicFactory, registry: SchemaRegistry
) -> None:
    letters = topic(partitions=1)
    pipeline.spec["dead_letter"] = {
        "connector": "kafka",
        "bootstrap_servers": services.kafka_bootstrap,
        "topic": letters,
    }
    pipeline.source["format"] |= {"encoding": "confluent", "registry": {"url": registry.url}}
    client = SchemaRegistryClient({"url": registry.url})
    serializer = JSONSerializer(_SCHEMA, client, conf={"auto.register.schemas": True})
    context = SerializationContext(pipeline.workload.topic, MessageField.VALUE)

    def encode(row: Row) -> bytes:
        encoded = serializer(dict(zip(("id", "word", "payload"), row, strict=True)), context)
        assert encoded is not None
        return bytes(encoded)

    avro = client.register_schema(f"{pipeline.workload.topic}-other", Schema('{"type": "string"}', "AVRO"))
    pipeline.workload.encode = encode
    pipeline.workload.produce(400)
    pipeline.workload.produce_without_word()
    good = encode((1, "a", "b"))
    for bad in (good[5:], b"\0" + (99_999).to_bytes(4) + good[5:], b"\0" + avro.to_bytes(4) + good[5:], good[:-1]):
        pipeline.workload.produce_bad(bad)
    kill_at(pipeline, "before-decide", "after-decide")
    pipeline.workload.produce(100)
    pipeline.catch_up()
    assert pipeline.table.rows() == pipeline.workload.expected
    assert pipeline.table.count() == 501
    assert pipeline.prepared() == []
    reasons = sorted(record.reason for record in drain(services.kafka_bootstrap, letters))
    assert [reason.partition(":")[0] for reason in reasons] == [
        *("not in Confluent's wire format", "not valid JSON"),
        *(f"written with schema {number}" for number in sorted((avro, 99_999), key=str)),
    ]
    number = int.from_bytes(good[1:5])
    assert f"schema {number}" in pipeline.head.schemas["incoming"]
