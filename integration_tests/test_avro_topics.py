"""Topics of Avro records: two writers' schemas by turns, read with a newer one, and records that do not decode."""

from __future__ import annotations

import io
import json
from typing import Any, Final

import fastavro
import pytest

from connectors.formats.avro.nodes import parse_schema
from integration_tests.conftest import TopicFactory
from integration_tests.harness.drain import drain
from integration_tests.harness.kills import kill_at
from integration_tests.harness.pipeline import Pipeline
from integration_tests.harness.workload import Row
from integration_tests.services import Services

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]


def _record(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Row", "fields": [{"name": name, "type": kind} for name, kind in fields]}


_OLDER: Final = _record(
    ("payload", "string"), ("unread", {"type": "array", "items": "double"}), ("id", "int"), ("word", "string")
)
_NEWER: Final = _record(("id", "long"), ("word", ["null", "string"]), ("payload", "string"))


def _encode(row: Row) -> bytes:
    """Write a row with one of the schemas, in turn."""
    schema = _OLDER if row[0] % 2 and row[1] is not None else _NEWER
    values = {**dict(zip(("id", "word", "payload"), row, strict=True)), "unread": [0.5] * (row[0] % 3)}
    content = io.BytesIO(b"\xc3\x01" + parse_schema(json.dumps(schema)).fingerprint)
    content.seek(0, io.SEEK_END)
    fastavro.schemaless_writer(content, fastavro.parse_schema(schema), values)
    return content.getvalue()


@pytest.mark.timeout(600)
def test_killed_on_both_sides_of_the_decision(pipeline: Pipeline, services: Services, topic: TopicFactory) -> None:
    letters = topic(partitions=1)
    pipeline.spec["dead_letter"] = {
        "connector": "kafka",
        "bootstrap_servers": services.kafka_bootstrap,
        "topic": letters,
    }
    older = pipeline.folder / "older.avsc"
    older.write_text(json.dumps(_OLDER))
    pipeline.source["format"] = {
        "type": "avro",
        "schema": json.dumps(_NEWER),
        "encoding": "single-object",
        "writer_schema_files": [str(older)],
    }
    pipeline.workload.encode = _encode
    pipeline.workload.produce(400)
    pipeline.workload.produce_without_word()
    good = _encode((1, "a", "b"))
    for bad in (good[:-1], good + b"\0", b"\xc3\x01" + bytes(8) + good[10:], b"{}"):
        pipeline.workload.produce_bad(bad)
    kill_at(pipeline, "before-decide", "after-decide")
    pipeline.workload.produce(100)
    pipeline.catch_up()
    assert pipeline.table.rows() == pipeline.workload.expected
    assert pipeline.table.count() == 501
    assert pipeline.prepared() == []
    reasons = sorted(record.reason for record in drain(services.kafka_bootstrap, letters))
    assert reasons == [
        "1 bytes follow the last field",
        "not in Avro's single-object encoding: another first byte, or too short",
        "word: the record ends before the value",
        "written with the schema of fingerprint 0000000000000000: it is not among `writer_schema_files`",
    ]
