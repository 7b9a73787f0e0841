"""The entry `format: {type: avro}` of a spec."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import TypeAdapter, ValidationError

from connectors import extras
from connectors.api.format import AnyFormat, FormatEntry
from connectors.formats.avro.nodes import parse_schema
from connectors.kafka.entry import KafkaEntry
from tests.connectors.formats.avro.written import encode, record

_SCHEMA = json.dumps(record(("n", "long")))


def _entry(**given: Any) -> FormatEntry:
    adapter: TypeAdapter[FormatEntry] = TypeAdapter(AnyFormat)
    return adapter.validate_python({"type": "avro", **given})


def test_a_schema_in_the_spec_or_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "numbers.avsc"
    file.write_text(_SCHEMA)
    for entry in (_entry(schema=_SCHEMA), _entry(schema_file=str(file))):
        assert entry.schema_text == _SCHEMA
        assert entry.build().decode(pa.array([b"\x06"], pa.binary())).rows.to_pylist() == [{"n": 3}]


def test_one_writer_of_plain_records_and_several_of_single_objects(tmp_path: Path) -> None:
    older = record(("n", "int"), ("gone", "string"))
    (tmp_path / "older.avsc").write_text(json.dumps(older))
    files = [str(tmp_path / "older.avsc")]
    value = encode(older, {"n": 5, "gone": "x"})
    plain = _entry(schema=_SCHEMA, writer_schema_files=files).build()
    assert plain.decode(pa.array([value], pa.binary())).rows.to_pylist() == [{"n": 5}]
    single = _entry(schema=_SCHEMA, writer_schema_files=files, encoding="single-object").build()
    heads = [b"\xc3\x01" + parse_schema(text).fingerprint for text in (json.dumps(older), _SCHEMA)]
    decoded = single.decode(pa.array([heads[0] + value, heads[1] + b"\x06"], pa.binary()))
    assert decoded.rows.to_pylist() == [{"n": 5}, {"n": 3}]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "neither schema nor schema_file"),
        ({"schema": _SCHEMA, "schema_file": "a.avsc"}, "both schema and schema_file"),
        ({"schema": "{"}, "not an Avro schema"),
        ({"schema_file": "absent.avsc"}, "cannot be read: No such file or directory"),
        ({"schema": _SCHEMA, "writer_schema_files": ["a", "b"]}, "2 schemas, and no record names its own"),
        ({"schema": '{"type": "record", "name": "R", "fields": []}'}, "a record without fields"),
    ],
)
def test_what_a_start_could_not_use_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        _entry(**given)


def test_a_writer_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "older.avsc").write_text(json.dumps(record(("n", "string"))))
    with pytest.raises(ValidationError, match="n: written as string, and read as long"):
        _entry(schema=_SCHEMA, writer_schema_files=[str(tmp_path / "older.avsc")])


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _name: None)
    with pytest.raises(ValidationError, match=r"the format avro needs Python packages that .* lacks: fastavro"):
        _entry(schema=_SCHEMA)


def test_a_source_needs_the_extra_of_its_format() -> None:
    """`eos doctor` looks for its packages wherever tasks run."""
    given = {"name": "s", "connector": "kafka", "bootstrap_servers": "localhost:9092", "topics": ["t"]}
    formats: list[dict[str, str]] = [{"type": "avro", "schema": _SCHEMA}, {"type": "string"}]
    sources = [KafkaEntry.model_validate({**given, "format": each}) for each in formats]
    assert [each.extras for each in sources] == [frozenset({"avro"}), frozenset()]


def test_a_union_of_null_only_takes_null_only() -> None:
    schema = json.dumps(record(("n", ["null"])))
    decoded = _entry(schema=schema).build().decode(pa.array([b"\0", b"\2"], pa.binary()))
    assert decoded.rows.to_pylist() == [{"n": None}]
    assert [each.reason for each in decoded.bad] == ["n: a union has no such branch"]
