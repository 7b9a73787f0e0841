"""Topics whose keys have a format of their own: columns of the key in a table, and keys that do not decode."""

from __future__ import annotations

import io
import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import fastavro
import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from integration_tests.conftest import TopicFactory
from integration_tests.harness.command_line import CommandLine
from integration_tests.harness.drain import drain
from integration_tests.harness.kills import kill_at
from integration_tests.harness.pipeline import Pipeline
from integration_tests.harness.workload import Row
from integration_tests.services import Services
from integration_tests.services.registry_native import SchemaRegistry

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_KEY: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Key",
    "fields": [{"name": "id", "type": "long"}, {"name": "word", "type": ["null", "string"]}],
}
_OTHER: Final = {**_KEY, "fields": [{"name": "word", "type": ["null", "string"]}, {"name": "id", "type": "long"}]}


def _keys_and_values(pipeline: Pipeline, key_format: dict[str, Any]) -> None:
    """Have a record's key hold `id` and `word`, and its value `payload` only."""
    pipeline.source["format"] = {"type": "json", "schema": "payload STRING NOT NULL"}
    pipeline.source["key_format"] = key_format
    sql = "SELECT key_id AS id, key_word AS word, payload FROM incoming"
    pipeline.spec["transforms"] = [{"name": "rows", "sql": sql}]
    pipeline.workload.encode = lambda row: json.dumps({"payload": row[2]}).encode()


def _dead_letters(pipeline: Pipeline, services: Services, letters: str) -> None:
    pipeline.spec["dead_letter"] = {
        "connector": "kafka",
        "bootstrap_servers": services.kafka_bootstrap,
        "topic": letters,
    }


@pytest.mark.timeout(600)
def test_killed_on_both_sides_of_the_decision(pipeline: Pipeline, services: Services, topic: TopicFactory) -> None:
    letters = topic(partitions=1)
    _dead_letters(pipeline, services, letters)
    _keys_and_values(pipeline, {"type": "json", "schema": "id BIGINT NOT NULL, word STRING"})
    pipeline.workload.key_of = lambda row: json.dumps({"id": row[0], "word": row[1]}).encode()
    pipeline.workload.produce(400)
    pipeline.workload.produce_without_word()
    good = json.dumps({"payload": "of a bad key"})
    for key in (b"\xff", b'{"id": 1.5}', None):
        pipeline.workload.produce_bad(good, key=key)
    pipeline.workload.produce_bad("{}", key=b'{"id": 1}')
    kill_at(pipeline, "before-decide", "after-decide")
    pipeline.workload.produce(100)
    pipeline.catch_up()
    assert pipeline.table.rows() == pipeline.workload.expected
    assert pipeline.table.count() == 501
    assert pipeline.prepared() == []
    found = drain(services.kafka_bootstrap, letters)
    reasons = sorted(record.reason for record in found)
    assert len(reasons) == 4
    assert [reason.startswith("the record's key: ") for reason in reasons] == [False, True, True, True]
    assert Counter(record.key for record in found) == Counter([b"\xff", b'{"id": 1.5}', None, b'{"id": 1}'])


def _encoding(schema_id: int, schema: dict[str, Any]) -> Any:
    def encode(row: Row) -> bytes:
        content = io.BytesIO(b"\0" + schema_id.to_bytes(4))
        content.seek(0, io.SEEK_END)
        fastavro.schemaless_writer(content, schema, {"id": row[0], "word": row[1]})
        return content.getvalue()

    return encode


@pytest.mark.registry
@pytest.mark.timeout(600)
def test_h35_an_id_of_keys_that_names_another_schema_stops_the_pipeline(
    pipeline: Pipeline, services: Services, tmp_path: Path
) -> None:
    with SchemaRegistry(tmp_path, services.kafka_bootstrap) as registry:
        client = SchemaRegistryClient({"url": registry.url})
        _keys_and_values(
            pipeline,
            {
                "type": "avro",
                "schema": json.dumps(_KEY),
                "encoding": "confluent",
                "registry": {"url": registry.url},
            },
        )
        pipeline.source["on_bad_record"] = "skip"
        given = client.register_schema("before", Schema(json.dumps(_KEY), "AVRO"))
        pipeline.workload.key_of = _encoding(given, _KEY)
        pipeline.workload.produce(300)
        pipeline.catch_up()
        assert list(pipeline.head.schemas["incoming"]) == [f"key schema {given}"]
        assert pipeline.table.rows() == pipeline.workload.expected
        registry.replace()
        pipeline.workload.produce(100)
        pipeline.start().fail(f"schema {given} is now unknown", "restore its newest state")
        other = SchemaRegistryClient({"url": registry.url})
        assert other.register_schema("after", Schema(json.dumps(_OTHER), "AVRO")) == given
        pipeline.start().fail(f"schema {given} is now another schema", "restore its newest state")
        assert pipeline.table.count() == 300
        registry.put_back()
        pipeline.catch_up()
    assert pipeline.table.rows() == pipeline.workload.expected
    assert pipeline.table.count() == 400
    assert pipeline.prepared() == []


@pytest.mark.timeout(600)
def test_keys_that_init_recognizes_are_in_the_table(
    eos: CommandLine, services: Services, topic: TopicFactory, tmp_path: Path
) -> None:
    name = topic(partitions=2)
    producer = Producer({"bootstrap.servers": services.kafka_bootstrap})
    for number in range(200):
        producer.produce(name, b'{"note": "n%d"}' % number, b'{"id": %d}' % number)
    assert producer.flush(30) == 0
    environment = {"KAFKA": services.kafka_bootstrap, "DATABASE": str(tmp_path / "rows.db")}
    spec = str(tmp_path / "found.yaml")
    ended = eos.run(["init", spec, "--from-topic", name, "--sink", "sqlite"], environment)
    assert ended.code == 0, ended.output
    assert "keys are json: 1 columns" in ended.output
    shown = eos.run(["preview", spec], environment)
    assert shown.code == 0, shown.output
    assert "key_id" in shown.output
    ended = eos.run(["run", spec, "--until-caught-up"], environment)
    assert ended.code == 0, ended.output
    with closing(sqlite3.connect(tmp_path / "rows.db")) as database:
        rows = database.execute(f'SELECT key_id, note FROM "{name.replace("-", "_")}" ORDER BY key_id').fetchall()
    assert rows == [(number, f"n{number}") for number in range(200)]
