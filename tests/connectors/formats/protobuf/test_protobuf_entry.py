"""The entry `format: {type: protobuf}` of a spec."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from pydantic import TypeAdapter, ValidationError

from connectors import extras
from connectors.api.format import AnyFormat, FormatEntry
from connectors.kafka.entry import KafkaEntry
from tests.connectors.formats.protobuf.written import compiled, rows

_SCHEMA = 'syntax = "proto3"; package t; message All { int32 n = 1; }'


def _entry(**given: Any) -> FormatEntry:
    adapter: TypeAdapter[FormatEntry] = TypeAdapter(AnyFormat)
    return adapter.validate_python({"type": "protobuf", "message": "t.All", **given})


def test_a_schema_in_the_spec_in_a_file_and_as_descriptors(tmp_path: Path) -> None:
    file, descriptors = tmp_path / "numbers.proto", tmp_path / "numbers.desc"
    file.write_text(_SCHEMA)
    descriptors.write_bytes(compiled(_SCHEMA))
    entries = [_entry(schema=_SCHEMA), _entry(schema_file=str(file)), _entry(descriptor_file=str(descriptors))]
    for entry in entries:
        assert rows(entry.build().decode(pa.array([b"\x08\x03"], pa.binary()))) == [{"n": 3}]
    assert [each.schema_text for each in entries[:2]] == [f"// t.All\n{_SCHEMA}"] * 2
    head, content = entries[2].schema_text.split("\n")
    assert head == "// t.All"
    assert [each.name for each in FileDescriptorSet.FromString(b64decode(content)).file] == ["schema.proto"]


def test_a_file_imports_files_beside_it(tmp_path: Path) -> None:
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "part.proto").write_text('syntax = "proto3"; package c; message Part { int32 n = 1; }')
    text = 'syntax = "proto3"; package t; import "common/part.proto"; message All { c.Part part = 1; }'
    (tmp_path / "all.proto").write_text(text)
    built = _entry(schema_file=str(tmp_path / "all.proto")).build()
    assert rows(built.decode(pa.array([b"\x0a\x02\x08\x05"], pa.binary()))) == [{"part": {"n": 5}}]


def test_tasks_get_only_the_files_that_the_message_needs(tmp_path: Path) -> None:
    other = FileDescriptorSet.FromString(compiled('syntax = "proto3"; package o; message Other { int32 n = 1; }'))
    other.file[0].name = "other.proto"
    both = FileDescriptorSet(file=[*other.file, *FileDescriptorSet.FromString(compiled(_SCHEMA)).file])
    (tmp_path / "both.desc").write_bytes(both.SerializeToString())
    built: Any = _entry(descriptor_file=str(tmp_path / "both.desc")).build()
    assert built.reader.descriptors == compiled(_SCHEMA)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "no schema"),
        ({"schema": _SCHEMA, "schema_file": "a.proto"}, "schema and schema_file"),
        ({"schema": "message"}, "not a .proto file: schema.proto:1:"),
        ({"schema_file": "absent.proto"}, "cannot be read: No such file or directory"),
        ({"descriptor_file": "absent.desc"}, "cannot be read: No such file or directory"),
        ({"schema": _SCHEMA, "message": "t.Al"}, "has no message 't.Al'"),
        ({"schema": _SCHEMA, "as_bytes": ["t.Part"]}, "as_bytes: the Protobuf schema has no message 't.Part'"),
        ({"schema": _SCHEMA, "encoding": "confluent"}, "confluent without a registry"),
        ({"schema": _SCHEMA, "registry": {"url": "http://localhost:1"}}, "a registry with plain"),
        (
            {"schema": 'syntax = "proto3"; package t; message All { All all = 1; }'},
            "all: the Protobuf message t.All cont",
        ),
        ({"schema": 'syntax = "proto3"; import "b.proto";'}, "b.proto: File not found"),
    ],
)
def test_what_a_start_could_not_use_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        _entry(**given)


def test_descriptors_that_are_not_complete_or_not_descriptors(tmp_path: Path) -> None:
    text = """syntax = "proto3"; package t; import "google/protobuf/timestamp.proto";
    message All { google.protobuf.Timestamp at = 1; }"""
    file = tmp_path / "all.desc"
    complete = FileDescriptorSet.FromString(compiled(text))
    for content, message in (
        (b"\xff", "not a FileDescriptorSet"),
        (b"", "the Protobuf schema has no file"),
        (FileDescriptorSet(file=complete.file[1:]).SerializeToString(), "lacks google/protobuf/timestamp.proto"),
    ):
        file.write_bytes(content)
        with pytest.raises(ValidationError, match=message):
            _entry(descriptor_file=str(file))
    file.write_bytes(FileDescriptorSet(file=complete.file[::-1]).SerializeToString())
    assert _entry(descriptor_file=str(file)).build().schema.names == ["at"]


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _name: None)
    with pytest.raises(ValidationError, match=r"the format protobuf needs Python packages that .* lacks: grpc_tools"):
        _entry(schema=_SCHEMA)


def test_a_source_needs_the_extra_of_its_format() -> None:
    """`eos doctor` looks for its packages wherever tasks run."""
    given = {"name": "s", "connector": "kafka", "bootstrap_servers": "localhost:9092", "topics": ["t"]}
    form = {"type": "protobuf", "message": "t.All", "schema": _SCHEMA}
    assert KafkaEntry.model_validate({**given, "format": form}).extras == frozenset({"protobuf"})
