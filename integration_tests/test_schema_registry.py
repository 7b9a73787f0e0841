"""Avro records whose writers' schemas are in a registry: it is away, it denies, it does not know an id."""

from __future__ import annotations

import hashlib
import io
import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import fastavro
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from connectors.formats.avro.avro_format import AvroFormat
from connectors.formats.avro.writers import RegisteredWriters
from connectors.schema_registry.client import Connection, schemas_of, subjects
from eos.errors import SourceError
from integration_tests.conftest import TopicFactory
from integration_tests.harness.drain import drain
from integration_tests.harness.kills import kill_at
from integration_tests.harness.pipeline import Pipeline
from integration_tests.harness.workload import Row
from integration_tests.services import Services
from integration_tests.services.certificates import Authority
from integration_tests.services.registry_native import SchemaRegistry

pytestmark = [pytest.mark.any_server, pytest.mark.registry]


def _record(*fields: tuple[str, Any]) -> str:
    named = [{"name": name, "type": kind} for name, kind in fields]
    return json.dumps({"type": "record", "name": "Row", "fields": named})


_OLDER: Final = _record(
    ("payload", "string"), ("unread", {"type": "array", "items": "double"}), ("id", "int"), ("word", "string")
)
_NEWER: Final = _record(("id", "long"), ("word", ["null", "string"]), ("payload", "string"))
_PROTOBUF: Final = 'syntax = "proto3"; message Row { int64 id = 1; }'


def _client(registry: SchemaRegistry) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry.url})


def test_a_schema_comes_with_all_that_it_refers_to(registry: SchemaRegistry) -> None:
    client = _client(registry)
    inner = '{"type": "fixed", "name": "t.Hash", "size": 2}'
    middle = '{"type": "record", "name": "t.Part", "fields": [{"name": "hash", "type": "t.Hash"}]}'
    outer = '{"type": "record", "name": "t.Whole", "fields": [{"name": "part", "type": "t.Part"}]}'
    client.register_schema("inner", Schema(inner, "AVRO"))
    client.register_schema("middle", Schema(middle, "AVRO", [SchemaReference("t.Hash", "inner", 1)]))
    given = client.register_schema("outer", Schema(outer, "AVRO", [SchemaReference("t.Part", "middle", 1)]))
    found = schemas_of(Connection(registry.url), [given])[given]
    assert found is not None
    assert [json.loads(text)["name"] for text in (*found.references, found.text)] == ["t.Hash", "t.Part", "t.Whole"]
    reader = _record(("part", json.loads(middle.replace('"t.Hash"', inner)))).replace('"Row"', '"t.Whole"')
    decoded = AvroFormat(reader, RegisteredWriters(Connection(registry.url))).decode(
        pa.array([b"\0" + given.to_bytes(4) + b"ab"], pa.binary())
    )
    assert (decoded.rows.to_pylist(), decoded.bad) == ([{"part": {"hash": b"ab"}}], ())


def test_an_id_that_nobody_has_given_is_unknown(registry: SchemaRegistry) -> None:
    assert schemas_of(Connection(registry.url), [4_000_000_000, 77_777]) == {4_000_000_000: None, 77_777: None}


def test_an_id_that_is_new_after_a_moment_is_known(registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica of the registry may be behind the one that gave the id."""
    client = _client(registry)
    before = client.register_schema("before", Schema('{"type": "fixed", "name": "F", "size": 1}', "AVRO"))
    slept = []

    def meanwhile(seconds: float) -> None:
        slept.append(seconds)
        client.register_schema("behind", Schema('{"type": "fixed", "name": "F", "size": 2}', "AVRO"))

    monkeypatch.setattr("connectors.schema_registry.client.sleep", meanwhile)
    found = schemas_of(Connection(registry.url), [before, before + 1])
    assert [None if each is None else json.loads(each.text)["size"] for each in found.values()] == [1, 2]
    assert len(slept) == 1


def test_an_address_without_a_registry_is_an_outage(registry: SchemaRegistry) -> None:
    """Its answer 404 is of the wrong path, and not of an unknown id."""
    with pytest.raises(SourceError, match="answers 404 for schema 1"):
        schemas_of(Connection(f"{registry.url}/elsewhere"), [1])


def test_a_registry_that_is_away_is_an_outage(services: Services, tmp_path: Path) -> None:
    with SchemaRegistry(tmp_path, services.kafka_bootstrap) as registry:
        given = _client(registry).register_schema("of-an-outage", Schema(_NEWER, "AVRO"))
        connection = Connection(registry.url)
        registry.kill()
        with pytest.raises(SourceError, match=f"the schema registry at {registry.url} does not give schema {given}"):
            schemas_of(connection, [given])
        registry.start()
        found = schemas_of(connection, [given])[given]
        assert found is not None
        assert json.loads(found.text) == json.loads(_NEWER)


def test_a_user_a_password_and_an_authority(services: Services, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority", "registry-ca")
    pair = authority.sign("registry", "127.0.0.1")
    salt, password = "of-a-test", "p:a/ss@word"
    hashed = b64encode(hashlib.scrypt(password.encode(), salt=salt.encode(), n=16384, r=8, p=1)).decode()
    logins = {
        "users": [{"username": "reader", "algorithm": "scrypt", "salt": salt, "password_hash": hashed}],
        "permissions": [{"username": "reader", "operation": "Read", "resource": ".*"}],
    }
    (tmp_path / "logins.json").write_text(json.dumps(logins))
    settings = {
        "KARAPACE_REGISTRY_AUTHFILE": str(tmp_path / "logins.json"),
        "KARAPACE_SERVER_TLS_CERTFILE": str(pair.certificate),
        "KARAPACE_SERVER_TLS_KEYFILE": str(pair.key),
    }
    with SchemaRegistry(tmp_path, services.kafka_bootstrap, settings) as registry:
        url = f"https://127.0.0.1:{registry.port}"
        known = Connection(url, "reader", password, ca=str(authority.ca))
        assert subjects(known) == 0
        with pytest.raises(SourceError, match="answers 401 for its subjects") as denied:
            subjects(replace(known, password="another"))
        assert "another" not in str(denied.value)
        assert "username and password" in (denied.value.remedy or "")
        with pytest.raises(SourceError, match="certificate"):
            subjects(replace(known, ca=None))


def _spec(pipeline: Pipeline, registry: SchemaRegistry) -> None:
    pipeline.source["format"] = {
        "type": "avro",
        "schema": _NEWER,
        "encoding": "confluent",
        "registry": {"url": registry.url},
    }


def _encoding(schema_id: int) -> Callable[[Row], bytes]:
    """Write rows with _NEWER, under this id."""
    schema = json.loads(_NEWER)

    def encode(row: Row) -> bytes:
        content = io.BytesIO(b"\0" + schema_id.to_bytes(4))
        content.seek(0, io.SEEK_END)
        fastavro.schemaless_writer(content, schema, dict(zip(("id", "word", "payload"), row, strict=True)))
        return content.getvalue()

    return encode


def _encoders(registry: SchemaRegistry, topic: str) -> Iterator[AvroSerializer]:
    """Serializers of the client that users write with: one for each schema, which they register."""
    client = _client(registry)
    client.set_compatibility(f"{topic}-value", "NONE")
    for schema in (_NEWER, _OLDER):
        yield AvroSerializer(client, schema, conf={"auto.register.schemas": True})


@pytest.mark.in_turns
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
    _spec(pipeline, registry)
    newer, older = _encoders(registry, pipeline.workload.topic)
    context = SerializationContext(pipeline.workload.topic, MessageField.VALUE)

    def encode(row: Row) -> bytes:
        values = {**dict(zip(("id", "word", "payload"), row, strict=True)), "unread": [0.5] * (row[0] % 3)}
        encoded = (older if row[0] % 2 and row[1] is not None else newer)(values, context)
        assert encoded is not None
        return encoded

    protobuf = _client(registry).register_schema(f"{pipeline.workload.topic}-other", Schema(_PROTOBUF, "PROTOBUF"))
    pipeline.workload.encode = encode
    pipeline.workload.produce(400)
    pipeline.workload.produce_without_word()
    good = encode((1, "a", "b"))
    bad = (
        good[:-1],
        b"\0" + (99_999).to_bytes(4) + good[5:],
        b"\0" + protobuf.to_bytes(4) + good[5:],
        b"\1" + good[1:],
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
    assert sorted(reasons) == [
        "not in Confluent's wire format: another first byte, or too short",
        "word: the record ends before the value",
        f"written with schema {protobuf}: it is of the kind PROTOBUF, not AVRO",
        "written with schema 99999: the schema registry does not have it",
    ]


@pytest.mark.in_turns
@pytest.mark.timeout(600)
def test_no_record_is_bad_because_the_registry_is_away(pipeline: Pipeline, services: Services, tmp_path: Path) -> None:
    """Left out are only bad records: while the registry is away there must be none."""
    with SchemaRegistry(tmp_path, services.kafka_bootstrap) as registry:
        _spec(pipeline, registry)
        pipeline.source["on_bad_record"] = "skip"
        pipeline.workload.encode = _encoding(_client(registry).register_schema("away", Schema(_NEWER, "AVRO")))
        pipeline.workload.produce(300)
        registry.kill()
        pipeline.spec["restart"] = {"strategy": "none"}
        pipeline.start().fail(f"the schema registry at {registry.url} does not give schema")
        registry.start()
        pipeline.catch_up()
    assert pipeline.table.rows() == pipeline.workload.expected
    assert pipeline.table.count() == 300


_SWAPPED: Final = _record(("id", "long"), ("payload", ["null", "string"]), ("word", "string"))
"""Reads what _NEWER has written: `word` as `payload`, and `payload` as `word`."""


@pytest.mark.in_turns
@pytest.mark.timeout(600)
@pytest.mark.parametrize("way", ["one sink", "chained", "two branches"])
def test_h35_an_id_that_names_another_schema_stops_the_pipeline(
    pipeline: Pipeline, services: Services, tmp_path: Path, way: str
) -> None:
    """The registry lost its schemas, and has given the id of one of them to another."""
    with SchemaRegistry(tmp_path, services.kafka_bootstrap) as registry:
        _spec(pipeline, registry)
        pipeline.source["on_bad_record"] = "skip"
        (sink,) = pipeline.spec["sinks"]
        if way == "chained":
            pipeline.spec["transforms"] = []
            sink["from"] = "incoming"
        elif way == "two branches":  # whose tasks get other rows
            sql = "SELECT id, word, payload, _partition, _offset FROM incoming"
            pipeline.spec["transforms"].append({"name": "changes", "sql": sql})
            merged = {"name": "merged", "from": "changes", "table": "merged", "commit": "upsert", "key": ["id"]}
            pipeline.spec["sinks"].append({**sink, **merged, "create": "if-missing"})
        given = _client(registry).register_schema("before", Schema(_NEWER, "AVRO"))
        pipeline.workload.encode = _encoding(given)
        pipeline.workload.produce(300)
        pipeline.catch_up()
        assert list(pipeline.head.schemas["incoming"]) == [f"schema {given}"]
        assert pipeline.decided().schemas == pipeline.head.schemas
        registry.replace()
        pipeline.workload.produce(100)
        pipeline.start().fail(f"schema {given} is now unknown", "restore its newest state")
        assert _client(registry).register_schema("after", Schema(_SWAPPED, "AVRO")) == given
        pipeline.start().fail(f"schema {given} is now another schema", "restore its newest state")
        assert pipeline.table.count() == 300
        registry.put_back()
        pipeline.catch_up()
    assert pipeline.table.rows() == pipeline.workload.expected
    assert pipeline.table.count() == 400
    assert pipeline.prepared() == []
