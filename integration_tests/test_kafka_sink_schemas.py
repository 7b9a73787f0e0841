"""Kafka as a sink whose messages have schemas in a registry, read by the clients that users read with."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from integration_tests.conftest import TopicFactory
from integration_tests.harness.drain import Record, drain
from integration_tests.harness.kills import kill_at
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, PARTITIONS
from integration_tests.harness.workload import Row
from integration_tests.services import Services
from integration_tests.services.registry_native import SchemaRegistry
from integration_tests.test_kafka_sink import KafkaPipeline

pytestmark = [pytest.mark.any_server, pytest.mark.registry, pytest.mark.in_turns, pytest.mark.timeout(900)]

_RECORDS: Final = 4 * CHECKPOINT_RECORDS
_DAY: Final = date(2026, 1, 1)
_AT: Final = datetime(2026, 1, 1, microsecond=1, tzinfo=UTC)
_EVERY_TYPE: Final = """SELECT id, word, payload,
  CAST(id * 1.25 - 100 AS DECIMAL(20, 4)) AS amount, id % 2 = 0 AS even, CAST(id AS DOUBLE) / 8 AS share,
  timestamp_micros(unix_micros(TIMESTAMP '2026-01-01T00:00:00.000001Z') + id) AS at,
  date_add(DATE '2026-01-01', CAST(id % 100 AS INT)) AS day, encode(payload, 'UTF-8') AS content,
  array(id, NULL, id + 1) AS numbers, map('k', payload) AS facts,
  IF(id % 3 = 0, NULL, named_struct('x', CAST(id AS INT), 'y', word)) AS part FROM incoming"""


@pytest.fixture
def pipeline(services: Services, topic: TopicFactory, tmp_path: Path, _first_run: None) -> Iterator[KafkaPipeline]:
    folder = tmp_path / "pipeline"
    folder.mkdir()
    with KafkaPipeline(folder, services.kafka_bootstrap, topic(partitions=PARTITIONS), topic(partitions=3)) as made:
        yield made


def _client(registry: SchemaRegistry) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry.url})


def _avro(registry: SchemaRegistry, **keys: Any) -> dict[str, Any]:
    return {"type": "avro", "registry": {"url": registry.url}, **keys}


def _select(pipeline: KafkaPipeline, sql: str) -> None:
    (step,) = pipeline.spec["transforms"]
    step["sql"] = sql


def _reader(registry: SchemaRegistry, topic: str) -> Callable[[Record], Any]:
    """Return what reads a value as users do."""
    deserializer = AvroDeserializer(_client(registry))
    return lambda record: deserializer(record.value, SerializationContext(topic, MessageField.VALUE))


def _expected(row: Row) -> dict[str, Any]:
    """Return the message of a row of _EVERY_TYPE."""
    number, word, payload = row
    return {
        "id": number,
        "word": word,
        "payload": payload,
        "amount": Decimal(number) * Decimal("1.25") - 100,
        "even": number % 2 == 0,
        "share": number / 8,
        "at": _AT + timedelta(microseconds=number),
        "day": _DAY + timedelta(days=number % 100),
        "content": payload.encode(),
        "numbers": [number, None, number + 1],
        "facts": {"k": payload},
        "part": None if number % 3 == 0 else {"x": number, "y": word},
    }


def _ids(records: list[Record]) -> Counter[int]:
    """Return how many messages name each schema."""
    assert all((record.value or b"")[:1] == b"\0" for record in records)
    return Counter(int.from_bytes((record.value or b"")[1:5]) for record in records)


def test_avro_of_every_type_killed_on_both_sides_of_the_decision(
    pipeline: KafkaPipeline, registry: SchemaRegistry
) -> None:
    _select(pipeline, _EVERY_TYPE)
    pipeline.sink.update(format=_avro(registry, record="com.example.Order"), key_format=_avro(registry))
    pipeline.workload.produce(_RECORDS - 1)
    pipeline.workload.produce_without_word()
    kill_at(pipeline, "before-decide", "after-decide", "applying", "between-commits")
    pipeline.catch_up()
    read, key_of = _reader(registry, pipeline.target), AvroDeserializer(_client(registry))
    context = SerializationContext(pipeline.target, MessageField.KEY)
    expected = {row[0]: _expected(row) for row in pipeline.workload.expected}
    records = pipeline.messages()
    assert len(records) == len(expected) == _RECORDS
    for record in records:
        value = read(record)
        assert key_of(record.key, context) == value["id"]
        assert value == expected.pop(value["id"])
    assert expected == {}
    assert pipeline.prepared() == []
    client = _client(registry)
    for subject in (f"{pipeline.target}-value", f"{pipeline.target}-key"):
        assert client.get_versions(subject) == [1]  # of five starts
    registered = json.loads(str(client.get_latest_version(f"{pipeline.target}-value").schema.schema_str))
    assert (registered["namespace"], registered["name"]) == ("com.example", "Order")


def test_json_schema_killed_before_and_after_the_decision(pipeline: KafkaPipeline, registry: SchemaRegistry) -> None:
    given = {"type": "json", "registry": {"url": registry.url}}
    pipeline.sink.update(format=given, key_format=given)
    pipeline.workload.produce(_RECORDS)
    kill_at(pipeline, "before-decide", "after-decide")
    pipeline.catch_up()
    client = _client(registry)
    deserializer = JSONDeserializer(None, schema_registry_client=client, conf={"validate": True})
    records = pipeline.messages()
    rows: Counter[Row] = Counter()
    for record in records:
        value = deserializer(record.value, SerializationContext(pipeline.target, MessageField.VALUE))
        rows[value["id"], value["word"], value["payload"]] += 1
        assert deserializer(record.key, SerializationContext(pipeline.target, MessageField.KEY)) == value["id"]
    assert rows == pipeline.workload.expected
    assert rows.total() == len(records) == _RECORDS
    assert client.get_latest_version(f"{pipeline.target}-value").schema.schema_type == "JSON"


def test_a_decided_checkpoint_is_written_with_its_own_schema_by_a_driver_with_another(
    pipeline: KafkaPipeline, registry: SchemaRegistry
) -> None:
    pipeline.sink["format"] = _avro(registry)
    pipeline.workload.produce(_RECORDS)
    kill_at(pipeline, "after-decide")
    _select(pipeline, "SELECT id, word, payload, IF(id < 0, 'x', NULL) AS more FROM incoming")
    pipeline.catch_up()
    client, records = _client(registry), pipeline.messages()
    versions = [client.get_version(f"{pipeline.target}-value", each).schema_id or 0 for each in (1, 2)]
    decided, others = (_ids(records)[each] for each in versions)
    assert (decided, decided + others) == (CHECKPOINT_RECORDS, _RECORDS)
    read = _reader(registry, pipeline.target)
    values = [read(record) for record in records]
    assert Counter((each["id"], each["word"], each["payload"]) for each in values) == pipeline.workload.expected
    assert sum("more" in each for each in values) == others


def test_an_incompatible_change_stops_the_pipeline_before_any_decision(
    pipeline: KafkaPipeline, registry: SchemaRegistry
) -> None:
    pipeline.sink["format"] = _avro(registry)
    pipeline.workload.produce(300)
    pipeline.catch_up()
    completed = pipeline.head.completed
    pipeline.workload.produce(100)
    _select(pipeline, "SELECT CAST(id AS STRING) AS id, word, payload FROM incoming")
    subject = f"{pipeline.target}-value"
    pipeline.start().fail(f"not compatible with earlier versions of subject {subject}", "columns and types of before")
    assert (pipeline.head.completed, len(pipeline.messages())) == (completed, 300)
    assert _client(registry).get_versions(subject) == [1]
    findings = pipeline.command("doctor", "--json").facts(code=1)["findings"]
    (found,) = [each for each in findings if each["check"] == f"schema of {subject}"]
    assert (found["ok"], "not compatible" in found["detail"]) == (False, True)
    _select(pipeline, "SELECT id, word, payload FROM incoming")
    pipeline.catch_up()
    assert len(pipeline.messages()) == 400
    assert _client(registry).get_versions(subject) == [1]


def test_doctor_registers_nothing(pipeline: KafkaPipeline, registry: SchemaRegistry) -> None:
    pipeline.sink.update(format=_avro(registry), key_format=_avro(registry, register=False))
    subject = f"{pipeline.target}-value"
    found = {each["check"]: each for each in pipeline.command("doctor", "--json").facts(code=1)["findings"]}
    assert (found[f"schema of {subject}"]["ok"], "a start registers it" in found[f"schema of {subject}"]["detail"]) == (
        True,
        True,
    )
    assert found[f"schema of {pipeline.target}-key"]["ok"] is False
    assert not {subject, f"{pipeline.target}-key"} & set(_client(registry).get_subjects())


def test_a_schema_that_is_only_looked_up_must_be_there(pipeline: KafkaPipeline, registry: SchemaRegistry) -> None:
    fields = [{"name": "id", "type": "long"}, *({"name": n, "type": ["null", "string"]} for n in ("word", "payload"))]
    text = json.dumps({"type": "record", "name": "Row", "fields": fields})
    pipeline.sink["format"] = _avro(registry, schema=text, register=False)
    pipeline.workload.produce(100)
    subject = f"{pipeline.target}-value"
    pipeline.start().fail(f"the schema registry has no such schema under the subject {subject}")
    given = _client(registry).register_schema(subject, Schema(text, "AVRO"))
    pipeline.catch_up()
    assert _ids(pipeline.messages()) == {given: 100}
    read = _reader(registry, pipeline.target)
    rows = Counter(tuple(read(record).values()) for record in pipeline.messages())
    assert rows == pipeline.workload.expected


def test_a_registry_that_is_away_delays_a_start_and_no_running_task(
    pipeline: KafkaPipeline, services: Services, tmp_path: Path
) -> None:
    with SchemaRegistry(tmp_path, services.kafka_bootstrap) as registry:
        pipeline.sink["format"] = _avro(registry)
        pipeline.workload.produce(_RECORDS)
        registry.kill()
        restart, pipeline.spec["restart"] = pipeline.spec["restart"], {"strategy": "none"}
        pipeline.start().fail(f"the schema registry at {registry.url} does not give the schema of subject")
        assert (pipeline.head.completed, pipeline.messages()) == (-1, [])
        pipeline.spec["restart"] = {**restart, "attempts": 1_000}
        process = pipeline.start(arm=["before-decide"])
        process.await_output("does not give the schema of subject")
        registry.start()
        process.await_point("before-decide")
        registry.kill()
        process.release("before-decide")
        process.succeed()
        registry.start()
        read = _reader(registry, pipeline.target)
        rows = Counter(tuple(read(record).values()) for record in pipeline.messages())
    assert rows == pipeline.workload.expected
    assert rows.total() == _RECORDS


def test_topics_by_rows_have_the_record_as_their_subject(
    pipeline: KafkaPipeline, registry: SchemaRegistry, topic: TopicFactory
) -> None:
    even, odd = topic(partitions=1), topic(partitions=1)
    _select(pipeline, f"SELECT id, word, IF(id % 2 = 0, '{even}', '{odd}') AS destination FROM incoming")
    del pipeline.sink["topic"]
    record = f"com.example.{pipeline.target.replace('-', '_')}"
    pipeline.sink.update(topic_column="destination", format=_avro(registry, subject="record-name", record=record))
    pipeline.workload.produce(_RECORDS)
    pipeline.catch_up()
    for name, rest in ((even, 0), (odd, 1)):
        read = _reader(registry, name)
        found = Counter(read(each)["id"] for each in drain(pipeline.brokers, name))
        assert found == Counter(range(rest, _RECORDS, 2))
    assert _client(registry).get_versions(record) == [1]


@pytest.mark.parametrize("mode", ["exactly-once", "at-least-once"])
def test_a_row_that_the_schema_cannot_hold_is_a_bad_row(
    pipeline: KafkaPipeline, registry: SchemaRegistry, topic: TopicFactory, mode: str
) -> None:
    text = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "int"}]}
    pipeline.spec["checkpoint"]["mode"] = mode
    pipeline.sink["format"] = _avro(registry, schema=json.dumps(text))
    _select(pipeline, "SELECT id + 2147483647 - 390 AS id FROM incoming")
    pipeline.sink["key"] = None
    del pipeline.sink["key"]
    pipeline.workload.produce(400)
    pipeline.start().fail("column 'id'", "a number out of the range of the schema's type")
    assert pipeline.messages() == []
    letters = topic(partitions=1)
    pipeline.spec["dead_letter"] = {
        "connector": "kafka",
        "bootstrap_servers": pipeline.brokers,
        "topic": letters,
    }
    pipeline.catch_up()
    read = _reader(registry, pipeline.target)
    found = Counter(read(record)["id"] for record in pipeline.messages())
    assert found.keys() == set(range(2147483647 - 390, 2147483648))
    if mode == "exactly-once":
        assert found.total() == 391
    reasons = [record.reason for record in drain(pipeline.brokers, letters)]
    assert len(reasons) == 9
    assert all("a number out of the range of the schema's type" in reason for reason in reasons)
