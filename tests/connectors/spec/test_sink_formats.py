"""The entries `format` and `key_format` of a Kafka sink: mistakes that are found before any service is asked."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

from connectors import extras
from connectors.kafka.sink.entry import KafkaSinkEntry
from connectors.spec import Spec, guarantees, load_spec
from connectors.spec.spec import json_schema
from eos.errors import SpecError

_SPEC = """\
pipeline: p
checkpoint: {{location: ./state}}
sources:
  - name: big
    connector: kafka
    bootstrap_servers: k:9092
    topics: [orders]
    format: {{type: json, schema: "id BIGINT, user STRING, `a b` STRING"}}
transforms: [{{name: rows, sql: "SELECT {columns} FROM big"}}]
sinks:
  - {{name: out, from: rows, connector: kafka, bootstrap_servers: "k:9092", {sink}}}
"""
_REGISTRY = "registry: {url: 'http://r:8081'}"
_AVRO = f"format: {{type: avro, {_REGISTRY}}}"
_KEY = f"key_format: {{type: avro, {_REGISTRY}}}"
_GIVEN = json.dumps({"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]})


def _text(sink: str, columns: str = "id, user") -> str:
    return _SPEC.format(sink=sink, columns=columns)


def _load(folder: Path, sink: str, columns: str = "id, user") -> Spec:
    path = folder / "spec.yaml"
    path.write_text(_text(sink, columns))
    return load_spec(path)


@pytest.mark.parametrize(
    ("sink", "form", "extras_"),
    [
        ("topic: t", "json", set()),
        ("topic: t, format: json", "json", set()),
        ("topic: t, format: {type: json}", "json", set()),
        ("topic: t, format: raw", "raw", set()),
        ("topic: t, format: {type: string}", "string", set()),
        (f"topic: t, format: {{type: json, {_REGISTRY}}}", "schema", {"registry"}),
        (f"topic: t, {_AVRO}", "schema", {"avro", "registry"}),
        ("topic: t, format: {type: avro}", "schema", {"avro"}),
        (f"topic: t, key: [id], {_KEY}", "json", {"avro", "registry"}),
        (
            f"topic_column: user, format: {{type: avro, subject: record-name, record: a.B, {_REGISTRY}}}",
            "schema",
            {"avro", "registry"},
        ),
    ],
)
def test_a_format_is_a_name_or_a_mapping(tmp_path: Path, sink: str, form: str, extras_: set[str]) -> None:
    spec = _load(tmp_path, sink)
    jsonschema.validate(YAML(typ="safe").load(_text(sink)), json_schema())
    entry = spec.sinks[0]
    assert isinstance(entry, KafkaSinkEntry)
    assert (str(entry._layout().format), set(spec.extras)) == (form, extras_)
    needs = guarantees(spec)[0].needs
    assert any("schema registry that answers at each start" in need for need in needs) == ("registry" in extras_)


@pytest.mark.parametrize(
    ("sink", "path", "found"),
    [
        ("topic: t, format: jsn", "format.type", "did you mean 'json'"),
        ("topic: t, format: parquet", "format.type", "use raw, and a step that decodes the bytes"),
        (f"topic: t, format: {{type: avro, {_REGISTRY}, regster: false}}", "format.regster", "did you mean 'register'"),
        ("topic: t, format: {type: avro, encoding: confluent}", "format.encoding", "confluent without a registry"),
        (f"topic: t, format: {{type: avro, encoding: plain, {_REGISTRY}}}", "format.encoding", "a registry with plain"),
        ("topic: t, format: {type: avro, register: false}", "format.register", "no registry takes a schema"),
        ("topic: t, format: {type: avro, subject: record-name}", "format.subject", "no registry takes a schema"),
        (
            f"topic: t, format: {{type: avro, {_REGISTRY}, subject: record-name}}",
            "format.subject",
            "needs the name of a record",
        ),
        (
            f"topic: t, format: {{type: json, {_REGISTRY}, subject: record-name}}",
            "format.subject",
            "needs the name of a record",
        ),
        (f"topic: t, format: {{type: avro, {_REGISTRY}, record: a-b}}", "format.record", "a name of letters"),
        ("topic: t, format: {type: json, record: a.B}", "format.record", "only a schema has the name"),
        ("topic: t, format: {type: avro, schema: '{'}", "format.schema", "not an Avro schema"),
        ("topic: t, format: {type: avro, schema_file: no.avsc}", "format.schema_file", "cannot be read"),
        (f"topic: t, format: {{type: avro, schema: '{_GIVEN}', record: a.B}}", "format.record", "has a name in schema"),
        (f"topic: t, format: {{type: avro, schema: '{_GIVEN}', schema_file: x}}", "format.schema_file", "both schema"),
        (f"topic_column: user, {_AVRO}", "format", "each row names its topic"),
        (f"topic_column: user, key: [id], {_KEY}", "key_format", "each row names its topic"),
        (f"topic: t, {_KEY}", "key_format", "key_format without key"),
        ("topic: t, key: [id], key_format: json", "key_format", "a key has no format 'json' without a registry"),
        ("topic: t, key: [id], key_format: raw", "key_format", "a key has no format 'raw' without a registry"),
        (f"topic: t, format: {{type: avro, schema: '{_GIVEN}'}}", "format", "the schema has no field for column user"),
    ],
)
def test_a_mistake_is_found_at_its_key(tmp_path: Path, sink: str, path: str, found: str) -> None:
    with pytest.raises(SpecError, match=found) as error:
        _load(tmp_path, sink)
    assert f"sinks[0].{path}:" in str(error.value)


def test_a_column_that_is_no_name_in_avro_is_found_before_a_start(tmp_path: Path) -> None:
    message = r"sinks\[0\]\.format: the rows of 'rows' cannot be written: column 'a b' is not a name in Avro"
    with pytest.raises(SpecError, match=message):
        _load(tmp_path, f"topic: t, {_AVRO}", "id, `a b`")
    _load(tmp_path, f"topic: t, {_AVRO}", "id, `a b` AS a_b")
    _load(tmp_path, "topic: t", "id, `a b`")
    _load(tmp_path, f"topic: t, headers: {{h: a b}}, {_AVRO}", "id, `a b`")  # no part of the value
    with pytest.raises(SpecError, match=r"sinks\[0\]\.key_format: .*column 'a b' is not a name"):
        _load(tmp_path, f"topic: t, key: [id, a b], {_KEY}", "id, `a b`")


def test_an_extra_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(SpecError, match=r"needs Python packages"):
        _load(tmp_path, f"topic: t, format: {{type: avro, schema: '{_GIVEN}'}}", "id")


def test_a_dead_letter_has_the_format_of_its_record(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    for key in (_AVRO, f"key: [key], {_KEY}"):
        letter = f"dead_letter: {{connector: kafka, bootstrap_servers: 'k:9092', topic: d, {key}}}\n"
        path.write_text(_text("topic: t") + letter)
        with pytest.raises(SpecError, match="a dead letter has the key, the value and the headers of its record"):
            load_spec(path)
