"""Records that bring their own schemas, through a real broker and a real registry: each row is in its table."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any, Final

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from connectors.api.table_rows import table_of
from connectors.formats.avro.self_describing import SelfDescribingAvro
from connectors.formats.avro.writers import RegisteredWriters
from connectors.formats.debezium.avro_tables import AvroTables
from connectors.formats.debezium.self_describing import SelfDescribingDebezium
from connectors.kafka.source import KafkaSource
from connectors.schema_registry.client import Connection
from eos.errors import IdentityError
from integration_tests.conftest import TopicFactory
from integration_tests.services import Services
from integration_tests.services.registry_native import SchemaRegistry
from tests.connectors.formats.debezium.registered import envelope, event, record
from twophase.values import OffsetRange

pytestmark = [pytest.mark.any_server, pytest.mark.registry]

_RECORDS: Final = 900
_TABLES: Final[list[tuple[str, dict[str, Any], dict[str, Any]]]] = [
    ("shop.customers", {"id": "long", "name": "string"}, {"id": 0, "name": "n"}),
    ("shop.orders", {"id": "long", "price": "double"}, {"id": 0, "price": 0.5}),
    ("shop.customers", {"id": "long", "name": "string", "age": "int"}, {"id": 0, "name": "n", "age": 1}),
]
"""Name, columns and a row. The last one is the first table, which has got a column."""


def _named(schema: Any, table: str) -> str:
    return json.dumps(schema).replace("shop.customers", table)


def _produce(services: Services, registry: SchemaRegistry, topic: str) -> None:
    """Write events of three schemas by turns, a tombstone behind every tenth, and one record that is bad."""
    client = SchemaRegistryClient({"url": registry.url})
    settings = {"auto.register.schemas": True, "subject.name.strategy": lambda _, name: f"{topic}-{name}"}
    client.set_compatibility(f"{topic}-shop.customers.Envelope", "NONE")  # a column without a default is added
    values = [AvroSerializer(client, _named(envelope(columns), name), conf=settings) for name, columns, _ in _TABLES]
    keys = [AvroSerializer(client, _named(record("Key", {"id": "long"}), name), conf=settings) for name, *_ in _TABLES]
    of_key, of_value = (SerializationContext(topic, each) for each in (MessageField.KEY, MessageField.VALUE))
    producer = Producer({"bootstrap.servers": services.kafka_bootstrap})
    for number in range(_RECORDS):
        row = {**_TABLES[number % 3][2], "id": number}
        key = keys[number % 3]({"id": number}, of_key)
        deletes = number % 9 == 0
        made = event("d") if deletes else event("c", None, row)
        producer.produce(topic, values[number % 3](made, of_value), key)
        if deletes:
            producer.produce(topic, None, key)
    producer.produce(topic, b"\1bad")
    producer.flush(30)


def test_change_events_of_several_tables_in_one_topic(
    topic: TopicFactory, services: Services, registry: SchemaRegistry
) -> None:
    name = topic()
    _produce(services, registry, name)
    connection = Connection(registry.url)
    decoder = SelfDescribingDebezium(AvroTables(RegisteredWriters(connection)))
    source = KafkaSource("in", services.kafka_bootstrap, (name,), decoder, on_bad_record="dead-letter")
    ranges = [OffsetRange(f"{name}/0", 0, _RECORDS + _RECORDS // 9 + 1)]
    aside: list[int] = []
    schemas: dict[str, str] = {}
    rows: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[Any]] = defaultdict(list)
    for batch in source.read_with_schemas(ranges, aside.append, schemas.update):
        offsets = batch.column("_offset").to_pylist()
        assert offsets == sorted(set(offsets))
        rows[*table_of(batch.schema), tuple(batch.schema.names[:-10])] += batch.to_pylist()
    assert {key: len(found) for key, found in rows.items()} == {
        (name, ("id",), tuple(columns)): _RECORDS // 3 for name, columns, _ in _TABLES
    }
    assert sorted(each["id"] for found in rows.values() for each in found) == list(range(_RECORDS))
    assert sum(each["_deleted"] for found in rows.values() for each in found) == _RECORDS // 9
    letters = [each for found in source.bad_records(ranges[0]) for each in found.to_pylist()]
    assert [(each["value"], each["error"]) for each in letters] == [
        (b"\1bad", "not in Confluent's wire format: another first byte, or too short")
    ]
    assert sum(aside) == 1
    assert len(schemas) == 5  # two of the tables have equal keys
    pinned = source.with_schemas(dict.fromkeys(schemas, "another"))
    with pytest.raises(IdentityError, match="is now another schema"):
        list(pinned.read(ranges))


def test_avro_records_of_several_types_in_one_topic(
    topic: TopicFactory, services: Services, registry: SchemaRegistry
) -> None:
    name = topic()
    _produce(services, registry, name)
    decoder = SelfDescribingAvro(RegisteredWriters(Connection(registry.url)))
    source = KafkaSource("in", services.kafka_bootstrap, (name,), decoder, on_bad_record="skip").select(["_offset"])
    aside: list[int] = []
    end = _RECORDS + _RECORDS // 9 + 1
    found = list(source.read([OffsetRange(f"{name}/0", 0, end)], aside.append))
    assert sum(each.num_rows for each in found) == _RECORDS
    assert {table_of(each.schema) for each in found} == {(f"{name}.Envelope", ()) for name, *_ in _TABLES}
    assert all(each.schema.names[-1] == "_offset" and "op" in each.schema.names for each in found)
    assert sum(aside) == _RECORDS // 9 + 1  # tombstones, which name no schema
