"""`eos init --from-topic`: what it writes about a real topic runs as it is."""

from __future__ import annotations

import io
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import fastavro
import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient

from connectors.api.format import FormatEntry
from connectors.spec import Spec, load_spec
from integration_tests.conftest import TopicFactory
from integration_tests.harness.command_line import CommandLine, Ended
from integration_tests.services import Services
from integration_tests.services.registry_native import SchemaRegistry

pytestmark = pytest.mark.any_server

Init = Callable[..., Ended]


@pytest.fixture
def environment(services: Services, tmp_path: Path) -> dict[str, str]:
    """The variables of the spec that is written."""
    return {"KAFKA": services.kafka_bootstrap, "DATABASE": str(tmp_path / "rows.db")}


@pytest.fixture
def init(eos: CommandLine, environment: dict[str, str], tmp_path: Path) -> Init:
    """A function that calls the command for a topic."""

    def call(topic: str, *options: str) -> Ended:
        arguments = ["init", str(tmp_path / "found.yaml"), "--from-topic", topic, "--sink", "sqlite", *options]
        return eos.run(arguments, environment)

    return call


def _produce(services: Services, topic: str, values: list[bytes | None]) -> None:
    producer = Producer({"bootstrap.servers": services.kafka_bootstrap})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(30) == 0


def _format(spec: Spec) -> FormatEntry:
    found = getattr(spec.sources[0], "format", None)
    assert isinstance(found, FormatEntry)
    return found


def test_json(init: Init, services: Services, topic: TopicFactory, tmp_path: Path, environment: dict[str, str]) -> None:
    name = topic(partitions=3)
    records = [
        {"id": n, "order": f"o{n}", "at": "2026-11-27T10:00:00Z", "odd": n if n % 2 else "text", "part": {"k": n / 2}}
        for n in range(1_500)
    ]
    _produce(services, name, [*(json.dumps(each).encode() for each in records), None])
    ended = init(name)
    assert ended.code == 0, ended.output
    assert f"{name} are json: 4 columns; no type holds all values of odd: left out" in ended.output
    spec = load_spec(tmp_path / "found.yaml", environment)
    assert _format(spec).schema_text == "id BIGINT, order STRING, at TIMESTAMP, part STRUCT<k: DOUBLE>"
    again = init(name)
    assert again.code == 2
    assert "exists already" in again.output


@pytest.mark.parametrize(("value", "form"), [(b"a text", "string"), (b"\x80\x01", "raw"), (b"\0\0\0\0\1x", "raw")])
def test_text_and_bytes(
    init: Init,
    services: Services,
    topic: TopicFactory,
    tmp_path: Path,
    environment: dict[str, str],
    value: bytes,
    form: str,
) -> None:
    name = topic()
    _produce(services, name, [value] * 20)
    ended = init(name)
    assert f"20 records of topic {name} are {form}: 1 columns" in ended.output
    assert _format(load_spec(tmp_path / "found.yaml", environment)).type == form


def test_a_topic_without_records_and_one_that_is_not_there(init: Init, topic: TopicFactory) -> None:
    empty, missing, no_name = init(topic()), init("no-such-topic"), init('a"]')
    assert "has no record with a value" in empty.output
    assert "no-such-topic" in missing.output
    assert "is not the name of a topic" in no_name.output
    assert (empty.code, missing.code, no_name.code) == (2, 1, 2)


@pytest.mark.registry
@pytest.mark.in_turns
@pytest.mark.timeout(600)
def test_avro_of_a_registry_runs_as_it_is(
    init: Init,
    eos: CommandLine,
    services: Services,
    topic: TopicFactory,
    registry: SchemaRegistry,
    tmp_path: Path,
    environment: dict[str, str],
) -> None:
    name = topic(partitions=2)
    client = SchemaRegistryClient({"url": registry.url})
    part = {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}
    older = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "long"}]}
    newer = {**older, "fields": [*older["fields"], {"name": "kind", "type": ["null", "Kind"], "default": None}]}
    client.register_schema(f"{name}-kind", Schema(json.dumps(part), "AVRO"))
    first = client.register_schema(f"{name}-value", Schema(json.dumps(older), "AVRO"))
    references = [SchemaReference("Kind", f"{name}-kind", 1)]
    second = client.register_schema(f"{name}-value", Schema(json.dumps(newer), "AVRO", references))
    known: dict[str, dict[Any, Any]] = {}
    fastavro.parse_schema(part, known)
    parsed = {first: fastavro.parse_schema(older), second: fastavro.parse_schema(newer, known)}

    def encode(number: int) -> bytes:
        schema_id = second if number % 3 else first
        content = io.BytesIO(b"\0" + schema_id.to_bytes(4))
        content.seek(0, io.SEEK_END)
        fastavro.schemaless_writer(content, parsed[schema_id], {"id": number, "kind": "AB"[number % 2]})
        return content.getvalue()

    _produce(services, name, [encode(number) for number in range(400)])
    ended = init(name, "--registry", registry.url)
    assert f"are avro: 2 columns; {name}.avsc is schema {second} of the registry" in ended.output, ended.output
    ran = eos.run(["run", str(tmp_path / "found.yaml"), "--until-caught-up"], environment)
    assert ran.code == 0, ran.output
    with closing(sqlite3.connect(tmp_path / "rows.db")) as database:
        rows = database.execute(f'SELECT id, kind FROM "{name.replace("-", "_")}" ORDER BY id').fetchall()
    assert rows == [(number, "AB"[number % 2] if number % 3 else None) for number in range(400)]


@pytest.mark.registry
@pytest.mark.in_turns
@pytest.mark.timeout(600)
def test_protobuf_of_a_registry_runs_as_it_is(
    init: Init,
    eos: CommandLine,
    services: Services,
    topic: TopicFactory,
    registry: SchemaRegistry,
    tmp_path: Path,
    environment: dict[str, str],
) -> None:
    name = topic(partitions=2)
    client = SchemaRegistryClient({"url": registry.url})
    part = 'syntax = "proto3"; package p; message Part { sint32 k = 1; }'
    older = 'syntax = "proto3"; package t; message Row { int64 id = 1; }'
    newer = """syntax = "proto3"; package t; import "common/part.proto";
    message Row { int64 id = 1; p.Part part = 2; }"""
    client.register_schema(f"{name}-part", Schema(part, "PROTOBUF"))
    first = client.register_schema(f"{name}-value", Schema(older, "PROTOBUF"))
    references = [SchemaReference("common/part.proto", f"{name}-part", 1)]
    second = client.register_schema(f"{name}-value", Schema(newer, "PROTOBUF", references))

    def encode(number: int) -> bytes:
        head = b"\0" + (second if number % 3 else first).to_bytes(4) + b"\0"
        return head + b"\x08" + bytes([number]) + (b"\x12\x02\x08\x03" if number % 3 else b"")

    _produce(services, name, [encode(number) for number in range(120)])
    ended = init(name, "--registry", registry.url)
    assert f"are protobuf: 2 columns; {name}.proto is schema {second} of the registry" in ended.output, ended.output
    assert (tmp_path / "common" / "part.proto").exists()
    spec = (tmp_path / "found.yaml").read_text()
    assert spec.count("id, part") == 1
    (tmp_path / "found.yaml").write_text(spec.replace("id, part", "id, part.k AS k"))
    ran = eos.run(["run", str(tmp_path / "found.yaml"), "--until-caught-up"], environment)
    assert ran.code == 0, ran.output
    with closing(sqlite3.connect(tmp_path / "rows.db")) as database:
        rows = database.execute(f'SELECT id, k FROM "{name.replace("-", "_")}" ORDER BY id').fetchall()
    assert rows == [(number, -2 if number % 3 else None) for number in range(120)]
