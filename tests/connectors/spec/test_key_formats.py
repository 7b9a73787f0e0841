"""`key_format` of a source in a spec: its columns, and what is refused with which remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from connectors.kafka.source import KafkaSource
from connectors.spec.loader import load_source
from eos.errors import SpecError
from spark_jobs.adapters.kafka_format import source_of

_ENTRY = """\
    connector: kafka
    bootstrap_servers: localhost:9092
    topics: [t]
    format: {type: json, schema: "id BIGINT, note STRING"}
"""


@pytest.mark.parametrize(
    ("lines", "names"),
    [
        ("key_format: {type: string}", ["key_value"]),
        ("key_format: {type: json, schema: 'id INT, part STRING'}", ["key_id", "key_part"]),
        ("key_format: {type: json, schema: 'part STRING'}\n    key_prefix: ''", ["part"]),
        ("key_format: {type: raw}\n    key_prefix: of_", ["of_value"]),
    ],
)
def test_columns_of_the_key_have_names(lines: str, names: list[str]) -> None:
    entry = load_source(f"{_ENTRY}    {lines}\n", {})
    source = entry.build()
    assert isinstance(source, KafkaSource)
    assert source.schema.names[: 2 + len(names)] == ["id", "note", *names]
    assert list(entry.columns or ())[: 2 + len(names)] == ["id", "note", *names]
    assert source.select(["_offset", names[0]]).schema.names == [names[0], "_offset"]
    assert {"key_format", "key_schema"} < entry.description.keys()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            "key_format: {type: json, schema: 'ID INT'}\n    key_prefix: ''",
            r"key_format: the column ID of the key is a column of the value, too: id.*key_prefix: key_",
        ),
        ("key_format: {type: upsert, schema: 'id INT'}", "key_format.*leave out key_format"),
        ("key_prefix: x", "key_prefix without key_format"),
        ("key_format: {type: string}\n    key_prefix: 'a b'", "key_prefix.*letters, digits and _"),
        ("key_format: {type: string}\n    key_prefix: 1", "key_prefix"),
        ("key_format: {type: json}", "key_format.*missing key 'schema'"),
        ("key_format: string", "key_format"),
        ("key_format: {type: json, schema: 'key INT'}\n    key_prefix: _", "_key is a column of record metadata"),
    ],
)
def test_what_is_refused(lines: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        load_source(f"{_ENTRY}    {lines}\n", {}).build()


def test_a_format_of_change_events_is_refused() -> None:
    entry = _ENTRY.replace("type: json", "type: debezium") + "    key_format: {type: string}\n"
    with pytest.raises(SpecError, match="a format that reads keys and values together"):
        load_source(entry, {})


def test_extras_of_both_formats(tmp_path: Path) -> None:
    entry = load_source(_ENTRY + """    key_format: {type: avro, schema: '"long"'}\n""", {})
    assert "avro" in entry.extras
    assert "keys avro" in entry.where


def test_in_a_query_of_your_own() -> None:
    options = {"bootstrap_servers": "localhost:9092", "topics": "t", "schema": "id BIGINT"}
    given = source_of({**options, "key_format": "string"})
    assert given.schema.names[:2] == ["id", "key_value"]
    given = source_of({**options, "key_schema": "id INT", "key_prefix": "k_"})
    assert given.schema.names[:2] == ["id", "k_id"]
