"""Keys with a format of their own: each record is judged by its value and its key, and has the columns of both."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.api.decoding import Decoded, Format
from connectors.formats.avro.avro_format import AvroFormat
from connectors.formats.avro.writers import RegisteredWriters
from connectors.formats.binlog_json.canal_format import CanalFormat
from connectors.formats.binlog_json.images import TableRows
from connectors.formats.ddl import parse_ddl
from connectors.formats.debezium.json_events import JsonEvents
from connectors.formats.debezium.json_tables import JsonTables
from connectors.formats.debezium.self_describing import SelfDescribingDebezium
from connectors.formats.debezium.upsert_format import UpsertFormat
from connectors.formats.json_values import JsonFormat
from connectors.formats.key_columns import KeyColumns
from connectors.formats.plain import RawFormat, StringFormat
from connectors.schema_registry.client import Connection, RegisteredSchema
from connectors.testing.formats import FormatCompliance
from eos.errors import IdentityError, SpecError
from tests.connectors.formats.avro.written import encode, record
from tests.connectors.schema_registry.known import give_schemas
from tests.searches import examples

_NO_OBJECT = "not valid JSON: not a JSON object, at character 1"
_ROW = parse_ddl("id BIGINT, note STRING")


def _json(ddl: str) -> JsonFormat:
    return JsonFormat(parse_ddl(ddl))


def _decode(decoder: KeyColumns, records: Sequence[tuple[bytes | None, bytes | None]]) -> Decoded:
    keys, values = ([record[at] for record in records] for at in (0, 1))
    decoded = decoder.decode_records(pa.array(keys, pa.binary()), pa.array(values, pa.binary()))
    decoded.rows.validate(full=True)
    assert decoded.rows.schema.equals(decoder.schema)
    return decoded


class TestCompliance(FormatCompliance):
    """Of records without keys."""

    def make_format(self) -> Format:
        return KeyColumns(_json("n BIGINT"), StringFormat(), "key_")

    def encode(self, numbers: Sequence[int]) -> Sequence[bytes]:
        return [b'{"n": %d}' % number for number in numbers]

    def bad_values(self) -> Sequence[bytes]:
        return [b"", b"[]", b'{"n": "x"}']


class TestComplianceOfKeys(FormatCompliance):
    """What is decoded are the keys, beside values of one kind."""

    column = "of_key_n"

    def make_format(self) -> Format:
        return _OfKeys(KeyColumns(RawFormat(), _json("n BIGINT NOT NULL"), "of_key_"))

    def encode(self, numbers: Sequence[int]) -> Sequence[bytes]:
        return [b'{"n": %d}' % number for number in numbers]

    def bad_values(self) -> Sequence[bytes]:
        return [b"", b"[]", b'{"n": "x"}', b"{}"]


class _OfKeys:
    def __init__(self, decoder: KeyColumns) -> None:
        self._decoder = decoder
        self.schema = decoder.schema

    def decode(self, values: pa.Array) -> Decoded:
        return self._decoder.decode_records(values, pa.nulls(len(values), pa.binary()))


def test_columns_of_the_key_follow_those_of_the_value() -> None:
    decoder = KeyColumns(_json("id BIGINT, note STRING"), _json("id INT NOT NULL"), "key_")
    assert decoder.schema.names == ["id", "note", "key_id"]
    assert not decoder.schema.field("key_id").nullable
    decoded = _decode(decoder, [(b'{"id": 7}', b'{"id": 1, "note": "x"}'), (b'{"id": 8}', None)])
    assert decoded.rows.to_pylist() == [
        {"id": 1, "note": "x", "key_id": 7},
        {"id": None, "note": None, "key_id": 8},
    ]


def test_a_key_that_does_not_decode_is_named_in_the_reason() -> None:
    decoder = KeyColumns(_json("id BIGINT"), _json("id INT NOT NULL"), "key_")
    good = b'{"id": 1}'
    decoded = _decode(
        decoder, [(good, good), (b"x", good), (None, good), (b'{"id": "x"}', b"y"), (b'{"id": 5000000000}', good)]
    )
    assert decoded.rows.to_pylist() == [{"id": 1, "key_id": 1}]
    reasons = [(each.index, each.reason) for each in decoded.bad]
    assert reasons == [
        (1, f"the record's key: {_NO_OBJECT}: 'x'"),
        (2, "the record's key: the record has no key, and key_id is NOT NULL"),
        (3, f"{_NO_OBJECT}: 'y'; the record's key: field id: expected number, found string"),
        (4, "the record's key: field id: '5000000000' does not fit INT"),
    ]


def test_a_record_without_a_key_has_nulls() -> None:
    decoder = KeyColumns(_json("id BIGINT"), _json("a INT, b STRUCT<c: INT NOT NULL>"), "k_")
    rows = _decode(decoder, [(None, b'{"id": 1}'), (b'{"a": 2, "b": {"c": 3}}', b'{"id": 2}'), (None, b"{}")]).rows
    assert rows.to_pylist() == [
        {"id": 1, "k_a": None, "k_b": None},
        {"id": 2, "k_a": 2, "k_b": {"c": 3}},
        {"id": None, "k_a": None, "k_b": None},
    ]


class _Omitting:
    """A format in which an empty value is not a row."""

    schema = StringFormat().schema

    def decode(self, values: pa.Array) -> Decoded:
        texts = values.to_pylist()
        rows = pa.record_batch([pa.array([each.decode() for each in texts if each], pa.string())], schema=self.schema)
        return Decoded(rows, omitted=tuple(at for at, each in enumerate(texts) if not each))


def test_what_a_format_omits() -> None:
    """A record is omitted by its value, whatever its key is. A key that describes no row is bad."""
    of_values = KeyColumns(_Omitting(), _json("id INT NOT NULL"), "key_")
    decoded = _decode(of_values, [(b"x", b""), (b'{"id": 1}', b"a"), (b"x", b"b"), (b'{"id": 2}', b""), (None, b"")])
    assert decoded.rows.to_pylist() == [{"value": "a", "key_id": 1}]
    assert (decoded.omitted, [each.index for each in decoded.bad]) == ((0, 3, 4), [2])
    of_keys = KeyColumns(_json("id INT"), _Omitting(), "key_")
    decoded = _decode(of_keys, [(b"", b"{}"), (b"k", b"{}"), (None, b"{}")])
    assert [each.reason for each in decoded.bad] == ["the record's key: it describes no row"]
    assert decoded.rows.column("key_value").to_pylist() == ["k", None]


_BYTES = st.one_of(
    st.none(),
    st.sampled_from(
        [b"", b"{}", b'{"id": 1}', b'{"id": "a"}', b'{"id": null}', b'{"id": 3000000000}', b"[1]", b"\xff"]
    ),
    st.integers(-(2**33), 2**33).map(lambda number: b'{"id": %d}' % number),
)


def _read(text: bytes | None, bits: int) -> Any:
    """Read one text by the module json: its id, or `bad`."""
    if text is None:
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return "bad"
    if not isinstance(found, dict):
        return "bad"
    number = found.get("id")
    if number is None:
        return None
    return number if isinstance(number, int) and -(2 ** (bits - 1)) <= number < 2 ** (bits - 1) else "bad"


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.tuples(_BYTES, _BYTES), max_size=20), st.booleans())
def test_each_record_is_judged_by_both(records: list[tuple[bytes | None, bytes | None]], is_required: bool) -> None:
    keys = _json("id INT NOT NULL" if is_required else "id INT")
    decoded = _decode(KeyColumns(_json("id BIGINT"), keys, "key_"), records)
    expected, bad = [], []
    for at, (key, value) in enumerate(records):
        row = (_read(value, 64), _read(key, 32))
        if "bad" in row or (is_required and row[1] is None):
            bad.append(at)
        else:
            expected.append({"id": row[0], "key_id": row[1]})
    assert decoded.rows.to_pylist() == expected
    assert [each.index for each in decoded.bad] == bad


@pytest.mark.parametrize(("ddl", "prefix"), [("id INT", ""), ("ID INT", ""), ("d INT", "i")])
def test_two_columns_with_one_name_are_refused(ddl: str, prefix: str) -> None:
    """Spark takes names that differ in case for one column."""
    with pytest.raises(SpecError, match="of the key is a column of the value, too: id") as refused:
        KeyColumns(_json("id BIGINT"), _json(ddl), prefix)
    assert "key_prefix" in (refused.value.remedy or "")


def test_a_format_that_reads_keys_itself_is_refused() -> None:
    upsert = UpsertFormat(_ROW, JsonEvents(_ROW))
    for values, keys in ((upsert, StringFormat()), (StringFormat(), upsert)):
        with pytest.raises(SpecError, match="that reads keys and values together"):
            KeyColumns(values, keys, "key_")


_READER = json.dumps(record(("n", "long")))
_OTHER = json.dumps(record(("n", "long"), ("m", "long")))
_NUMBER = encode(record(("n", "long")), {"n": 5})


def _registered(reader: str = _READER) -> AvroFormat:
    return AvroFormat(reader, RegisteredWriters(Connection("http://127.0.0.1:1")))


def test_h35_schemas_of_keys_have_names_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys and values may be in two registries, which number schemas alike."""
    registry = {7: RegisteredSchema("AVRO", _READER), 8: RegisteredSchema("AVRO", _READER)}
    give_schemas(monkeypatch, registry)
    decoder = KeyColumns(_registered(), _registered(), "key_")
    assert decoder.names_schemas
    decoded = _decode(decoder, [(b"\0\0\0\0\x08" + _NUMBER, b"\0\0\0\0\7" + _NUMBER), (b"\0\0\0\0\x09", None)])
    fingerprint = registry[7].fingerprint
    assert decoded.rows.to_pylist() == [{"n": 5, "key_n": 5}]
    assert decoded.schemas == {"schema 7": fingerprint, "key schema 8": fingerprint, "key schema 9": "unknown"}
    pinned = decoder.with_schemas(decoded.schemas)
    assert isinstance(pinned, KeyColumns)
    registry[8] = RegisteredSchema("AVRO", _OTHER)
    with pytest.raises(IdentityError, match="schema 8 is now another schema"):
        _decode(pinned, [(b"\0\0\0\0\x08" + _NUMBER, b"\0\0\0\0\7" + _NUMBER)])
    assert _decode(pinned, [(None, b"\0\0\0\0\x08" + _NUMBER + b"\0")]).bad, "of a value, 8 is not pinned"


def test_h35_only_one_of_both_names_schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    give_schemas(monkeypatch, {7: RegisteredSchema("AVRO", _READER)})
    plain = KeyColumns(StringFormat(), StringFormat(), "key_")
    assert not plain.names_schemas
    of_keys = KeyColumns(StringFormat(), _registered(), "key_")
    with pytest.raises(IdentityError):
        _decode(of_keys.with_schemas({"key schema 7": "other"}), [(b"\0\0\0\0\7" + _NUMBER, b"a")])
    of_values = KeyColumns(_registered(), StringFormat(), "key_")
    with pytest.raises(IdentityError):
        _decode(of_values.with_schemas({"schema 7": "other"}), [(b"a", b"\0\0\0\0\7" + _NUMBER)])


def test_each_row_of_a_record_has_the_key_of_its_record() -> None:
    """A document of Canal has the rows of a statement."""
    canal = CanalFormat(TableRows(parse_ddl("id BIGINT NOT NULL"), ("id",)), ("shop", "orders"))

    def document(*ids: int, database: str = "shop") -> bytes:
        data = [{"id": str(each)} for each in ids]
        return json.dumps({"database": database, "table": "orders", "type": "INSERT", "data": data}).encode()

    documents = [document(1, 2), document(3), document(9, database="x"), document(), document(4, 5), document(6, 7)]
    keys = [b'{"k":1}', b'{"k":2}', b'{"k":3}', b'{"k":4}', b"no JSON", None]
    decoder = KeyColumns(canal, JsonFormat(parse_ddl("k BIGINT")), "key_")
    for count in (1, 2, len(documents)):
        values = pa.array(documents[:count], pa.binary())
        found = decoder.decode_records(pa.array(keys[:count], pa.binary()), values)
        rows = [(row["id"], row["key_k"], row["_row"]) for row in found.rows.to_pylist()]
        assert rows == [(1, 1, 0), (2, 1, 1), (3, 2, 0), (6, None, 0), (7, None, 1)][: (2, 3, 5)[min(count, 3) - 1]]
        assert found.record_indices(count).tolist() == [0, 0, 1, 5, 5][: len(rows)]
    assert found.omitted == (2,)
    assert [each.index for each in found.bad] == [3, 4]


def test_records_that_bring_their_schemas_have_keys_of_their_own() -> None:
    """Otherwise only the columns of the event and of the key would be read, and the rest would be lost."""
    with pytest.raises(SpecError, match="cannot be combined with another format"):
        KeyColumns(SelfDescribingDebezium(JsonTables()), JsonFormat(parse_ddl("k BIGINT")), "key_")
