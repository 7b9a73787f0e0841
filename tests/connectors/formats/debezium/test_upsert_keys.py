"""Topics of rows whose keys are a number or a text, and topics of rows in Avro."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.api.decoding import Decoded, Format, NamedSchemas
from connectors.formats.avro.writers import RegisteredWriters
from connectors.formats.ddl import parse_ddl
from connectors.formats.debezium.avro_events import AvroEvents
from connectors.formats.debezium.json_events import JsonEvents
from connectors.formats.debezium.scalar_keys import AvroScalars, JsonScalars, TextScalars
from connectors.formats.debezium.upsert_format import Rows, UpsertFormat
from connectors.kafka.source import KafkaSource
from connectors.registry import build_source
from connectors.schema_registry.client import Connection
from connectors.spec import load_spec
from connectors.testing.formats import FormatCompliance
from eos.errors import IdentityError, SpecError
from tests.connectors.formats.debezium.registered import Registry, connect_type, encoded, optional, record
from tests.connectors.formats.debezium.written import decode, packed, reasons

_DDL: Final = "id BIGINT NOT NULL, name STRING, at TIMESTAMP_NTZ"


def json_rows(ddl: str = _DDL, column: str = "id") -> UpsertFormat:
    row = parse_ddl(ddl)
    records = JsonEvents(row)
    return UpsertFormat(row, records, JsonScalars(records, column))


def text_rows(ddl: str = _DDL, column: str = "id") -> UpsertFormat:
    row = parse_ddl(ddl)
    return UpsertFormat(row, JsonEvents(row), TextScalars(row, column))


def avro_rows(ddl: str = _DDL, column: str | None = "id") -> UpsertFormat:
    row = parse_ddl(ddl)
    records = AvroEvents(row, RegisteredWriters(Connection("http://127.0.0.1:1")))
    keys: Rows | None = AvroScalars(records, column) if column is not None else None
    return UpsertFormat(row, records, keys)


def keyed(decoder: UpsertFormat, *keys: bytes) -> list[Any]:
    """The first column of deletions with these keys."""
    decoded = decode(decoder, [None] * len(keys), keys)
    assert decoded.bad == ()
    assert decoded.rows.column("_deleted").to_pylist() == [True] * len(keys)
    return list(decoded.rows.column(0).to_pylist())


def bad_keys(decoder: UpsertFormat, *keys: bytes) -> list[str]:
    """The reasons, without their common begin. Each key is bad, and a good one beside it is not."""
    found = reasons(decode(decoder, [None] * len(keys), keys))
    assert len(found) == len(keys)
    assert all(reason.startswith("the record's key: ") for reason in found)
    return [reason.removeprefix("the record's key: ") for reason in found]


def test_a_key_in_json() -> None:
    schema = {"type": "int64", "optional": False}
    wrapped = packed({"schema": schema, "payload": 8})
    assert keyed(json_rows(), b"7", b" -9\n", wrapped, b"7") == [7, -9, 8, 7]
    texts = json_rows("k STRING", "k")
    assert keyed(texts, b'"a"', '"\\"ü\\u00fc"'.encode(), b'""') == ["a", '"üü', ""]
    moment = {"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp", "version": 1}
    times = json_rows("t TIMESTAMP_NTZ", "t")
    assert keyed(times, packed({"schema": moment, "payload": 1})) == [datetime(1970, 1, 1, 0, 0, 0, 1000)]


def test_a_key_in_json_that_is_another() -> None:
    """Text behind a number must not become further columns."""
    wrapped = packed({"schema": {"type": "struct", "fields": []}, "payload": {"id": 1}})
    keys = (b'7,"name":"x"', b'{"id":7}', b"[7]", b"true", b"null", b"", b'"x"', b"7.5", b"9" * 30, b"\xff", wrapped)
    found = bad_keys(json_rows(), *keys)
    assert found[:6] == ["not one number or text in JSON"] * 6
    assert found[6] == "field v: expected number, found string"
    assert found[9:] == ["not one number or text in JSON"] * 2


def test_a_key_as_text() -> None:
    assert keyed(text_rows(), b"7", b"-9") == [7, -9]
    assert keyed(text_rows("k STRING", "k"), b'"a"', "ü ".encode(), b"") == ['"a"', "ü ", ""]
    found = bad_keys(text_rows(), b"", b"0x10", b" 1", b"9" * 30, b"1.0", b"\xff")
    assert found == ["not a whole number that fits its column"] * 5 + ["not UTF-8"]
    assert bad_keys(text_rows("k STRING", "k"), b"\xff\xfe") == ["not UTF-8"]


def test_a_value_gets_the_column_of_its_key() -> None:
    """A value counts before a key, and a deletion without a key is bad."""
    decoded = decode(json_rows(), [b'{"name":"n"}', b'{"id":8,"name":"m"}', None], [b"7", b"7", None])
    assert [list(row.values()) for row in decoded.rows.to_pylist()] == [[7, "n", None, False], [8, "m", None, False]]
    assert reasons(decoded) == ["a deletion, and the record's key has no column of the schema"]


MICROS: Final = connect_type("long", "io.debezium.time.MicroTimestamp")
VALUE: Final = record("Value", {"id": "long", "name": optional("string"), "at": optional(MICROS)})
NEWER: Final = record("Value", {"more": "double", "name": "string", "id": "int"})


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    registry = Registry()
    registry.add(1, VALUE)
    registry.add(2, NEWER)
    registry.add(3, "long")
    registry.add(4, {"type": "string", "connect.name": "x"})
    registry.add(5, record("Key", {"id": "long"}))
    return registry.install(monkeypatch)


def test_rows_in_avro(registry: Registry) -> None:
    """Of several versions of the schema, with keys that are records."""
    values = [
        encoded(1, VALUE, {"id": 7, "name": "n", "at": 1_000_001}),
        None,
        encoded(2, NEWER, {"more": 1.5, "name": "m", "id": 8}),
    ]
    key = encoded(5, record("Key", {"id": "long"}), {"id": 9})
    decoded = decode(avro_rows(column=None), values, [key, key, None])
    assert decoded.bad == ()
    assert [list(row.values()) for row in decoded.rows.to_pylist()] == [
        [7, "n", datetime(1970, 1, 1, 0, 0, 1, 1), False],
        [9, None, None, True],
        [8, "m", None, False],
    ]
    assert {name.split()[-1] for name in decoded.schemas} == {"1", "2", "5"}
    assert all(each != "unknown" for each in decoded.schemas.values())


def test_keys_in_avro(registry: Registry) -> None:
    assert keyed(avro_rows(), encoded(3, "long", 7), encoded(3, "long", -1)) == [7, -1]
    assert keyed(avro_rows("k STRING", "k"), encoded(4, "string", "ü")) == ["ü"]
    found = bad_keys(avro_rows(), encoded(4, "string", "x"), encoded(5, record("Key", {"id": "long"}), {"id": 1}))
    assert found[0].startswith("written with schema 4: id: written as STRING, and the schema has BIGINT")
    assert found[1].startswith("written with schema 5: its schema is not that of a number or a text")
    assert bad_keys(avro_rows(), b"7", b"", b"\0\0\0\0\x09\x02", b"\0\0\0\0\x03")


def test_a_schema_that_changes_is_noticed(registry: Registry) -> None:
    """Of values and of keys (H35)."""
    decoder = avro_rows()
    assert isinstance(decoder, NamedSchemas)
    assert decoder.names_schemas
    decoded = decode(decoder, [None], [encoded(3, "long", 7)])
    (name,) = decoded.schemas
    pinned = decoder.with_schemas({name: "another"})
    with pytest.raises(IdentityError):
        pinned.decode_records(pa.array([encoded(3, "long", 7)]), pa.array([None], pa.binary()))
    assert not json_rows().names_schemas


class TestAvroRows(FormatCompliance):
    column = "id"

    @pytest.fixture(autouse=True)
    def _registry(self, registry: Registry) -> None:
        pass

    def make_format(self) -> Format:
        return avro_rows()

    def encode(self, numbers: Sequence[int]) -> Sequence[bytes]:
        return [b"\0\0\0\0\1" + _zigzag(number) + b"\0\0" for number in numbers]

    def bad_values(self) -> Sequence[bytes]:
        return [b"", b"\1", b"\0\0\0\0\x09", b"\0\0\0\0\1\2"]

    def test_another_process_decodes_the_same(self) -> None:
        """The registry of this test is in this process only."""


def _zigzag(number: int) -> bytes:
    left, found = number << 1, bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*found, left])


@given(st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1), st.text(max_size=5), st.none(), st.booleans()), max_size=8))
def test_random_keys_are_read_as_json_reads_them(keys: list[Any]) -> None:
    number, text = json_rows(), json_rows("k STRING", "k")
    for decoder, kind in ((number, int), (text, str)):
        decoded: Decoded = decode(decoder, [None] * len(keys), [json.dumps(each).encode() for each in keys])
        expected = [each for each in keys if isinstance(each, kind) and not isinstance(each, bool)]
        assert decoded.rows.column(0).to_pylist() == expected


SPEC: Final = """\
pipeline: p
checkpoint: {{location: state}}
sources:
  - {{name: a, connector: kafka, bootstrap_servers: a, topics: [t], format: {{type: upsert, {}}}}}
sinks: [{{name: s, from: a, connector: sqlite, path: t.db, table: t, commit: upsert, key: [id], deleted: _deleted}}]
"""
COLUMNS: Final = "schema: 'id BIGINT, k STRING, d DATE, l ARRAY<INT>'"
AVRO: Final = f"{COLUMNS}, encoding: confluent, registry: {{url: 'https://r:1'}}"


def _load(folder: Path, keys: str) -> UpsertFormat:
    path = folder / "spec.yaml"
    path.write_text(SPEC.format(keys))
    source = build_source(load_spec(path, {}).sources[0])
    assert isinstance(source, KafkaSource)
    assert isinstance(source.format, UpsertFormat)
    return source.format


@pytest.mark.parametrize(
    ("keys", "kind"),
    [
        (COLUMNS, type(None)),
        (f"{COLUMNS}, key: id", JsonScalars),
        (f"{COLUMNS}, key: d, key_encoding: json", JsonScalars),
        (f"{COLUMNS}, key: k, key_encoding: string", TextScalars),
        (AVRO, type(None)),
        (f"{AVRO}, key: id", AvroScalars),
        (f"{AVRO}, key: id, key_encoding: string", TextScalars),
    ],
)
def test_a_spec_builds_the_format(tmp_path: Path, keys: str, kind: type) -> None:
    assert isinstance(_load(tmp_path, keys).key_rows, kind)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (f"{COLUMNS}, key: no", "column 'no' is not in the schema"),
        (f"{COLUMNS}, key: l", "column 'l' is nested"),
        (f"{COLUMNS}, key_encoding: string", "'key_encoding' is for a key that is one value"),
        (f"{COLUMNS}, key: id, key_encoding: confluent", "values are written as json"),
        (f"{AVRO}, key: id, key_encoding: json", "values are written as confluent"),
        (f"{COLUMNS}, key: d, key_encoding: string", "text is read as STRING or as a whole number"),
        (f"{COLUMNS}, encoding: confluent", "registry"),
    ],
)
def test_a_wrong_spec_is_refused(tmp_path: Path, keys: str, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        _load(tmp_path, keys)
    assert said in str(caught.value)
