"""JSON in the envelope of Connect's JsonConverter: the schema part states what a number or a text is, at any depth."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.api.decoding import Decoded, Format
from connectors.formats.connect_json import ConnectJsonFormat
from connectors.formats.ddl import parse_ddl
from connectors.formats.json_recognition import recognize_json
from connectors.testing.formats import FormatCompliance
from tests.searches import examples

_CONNECT: Final = "org.apache.kafka.connect.data."


def _field(name: str, kind: str, /, **more: Any) -> dict[str, Any]:
    return {"field": name, "type": kind, "optional": True, **more}


def _decimal(name: str, scale: object) -> dict[str, Any]:
    return _field(name, "bytes", name=f"{_CONNECT}Decimal", version=1, parameters={"scale": scale})


def _date(name: str) -> dict[str, Any]:
    return _field(name, "int32", name=f"{_CONNECT}Date", version=1)


_TIMES: Final = (
    _date("day"),
    _field("clock", "int32", name=f"{_CONNECT}Time", version=1),
    _field("at", "int64", name=f"{_CONNECT}Timestamp", version=1),
)
_FIELDS: Final = (
    _field("id", "int64", optional=False),
    _decimal("price", "2"),
    *_TIMES,
    _field("part", "struct", fields=[_decimal("price", "3"), _field("note", "string"), _date("day")]),
    _field("days", "array", items=_date("")),
    _field("parts", "array", items=_field("", "struct", fields=[_decimal("k", "0")])),
    _field("data", "bytes"),
)
_DDL: Final = (
    "id BIGINT, price DECIMAL(20,2), day DATE, clock STRING, at TIMESTAMP, "
    "part STRUCT<price: DECIMAL(20,3), note: STRING, day: DATE>, days ARRAY<DATE>, "
    "parts ARRAY<STRUCT<k: DECIMAL(38,0)>>, data BINARY"
)
_FORMAT: Final = ConnectJsonFormat(parse_ddl(_DDL))


def _written(payload: Any, fields: Sequence[Any] = _FIELDS, *, spaces: bool = False) -> bytes:
    """Write a record as JsonConverter does."""
    document = {"schema": {"type": "struct", "fields": list(fields), "optional": False}, "payload": payload}
    return json.dumps(document, separators=None if spaces else (",", ":")).encode()


def _number(number: int) -> str:
    return b64encode(number.to_bytes((number.bit_length() + 8) // 8, "big", signed=True)).decode()


def _decode(values: Sequence[bytes | None], decoder: Format = _FORMAT) -> Decoded:
    decoded = decoder.decode(pa.array(values, pa.binary()))
    decoded.rows.validate(full=True)
    return decoded


class TestCompliance(FormatCompliance):
    def make_format(self) -> Format:
        return ConnectJsonFormat(parse_ddl("n BIGINT, price DECIMAL(20,2)"))

    def encode(self, numbers: Sequence[int]) -> Sequence[bytes]:
        fields = [_field("n", "int64"), _decimal("price", "2")]
        head, tail = _written(0, fields)[:-2], b"}"
        return [head + b'{"n":%d,"price":"%s"}' % (each, _number(each).encode()) + tail for each in numbers]

    def bad_values(self) -> Sequence[bytes]:
        (good,) = self.encode([1])
        return [b"", b"{}", b'{"n":1}', good[:-1], good + b"}", good.replace(b'"n":1', b'"n":"x"'), b'{"payload":{}}']


_NUMBERS: Final = st.integers(-(10**18), 10**18)
_DAYS: Final = st.integers(-719_162, 2_932_896)
_MS: Final = st.integers(-62_135_596_800_000, 253_402_300_799_999)


def _maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


_ROWS: Final = st.fixed_dictionaries(
    {"id": st.integers(-(2**63), 2**63 - 1)},
    optional={
        "price": _maybe(_NUMBERS.map(_number)),
        "day": _maybe(_DAYS),
        "clock": _maybe(st.integers(0, 86_399_999)),
        "at": _maybe(_MS),
        "part": _maybe(
            st.fixed_dictionaries(
                {},
                optional={"price": _maybe(_NUMBERS.map(_number)), "note": st.text(max_size=3), "day": _maybe(_DAYS)},
            )
        ),
        "days": _maybe(st.lists(_maybe(_DAYS), max_size=3)),
        "parts": _maybe(st.lists(_maybe(st.fixed_dictionaries({"k": _NUMBERS.map(_number)})), max_size=3)),
        "data": _maybe(st.binary(max_size=5).map(lambda data: b64encode(data).decode())),
    },
)


def _read(value: Any, schema: Any) -> Any:
    """Read a value of JSON by Connect's schema, one by one and without Arrow."""
    if value is None:
        return None
    name = (schema.get("name") or "").removeprefix(_CONNECT)
    if name == "Decimal":
        scale = int(schema["parameters"]["scale"])
        return Decimal(int.from_bytes(b64decode(value), "big", signed=True)).scaleb(-scale)
    if name == "Date":
        return date(1970, 1, 1) + timedelta(days=value)
    if name == "Time":
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=value)).strftime("%H:%M:%S.%f")
    if name == "Timestamp":
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=value)
    match schema["type"]:
        case "struct":
            return {each["field"]: _read(value.get(each["field"]), each) for each in schema["fields"]}
        case "array":
            return [_read(each, schema["items"]) for each in value]
        case "bytes":
            return b64decode(value)
    return value


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.tuples(_ROWS, st.booleans()), min_size=1, max_size=8))
def test_each_value_is_as_its_schema_states(rows: list[tuple[Any, bool]]) -> None:
    decoded = _decode([_written(row, spaces=spaces) for row, spaces in rows])
    schema = {"type": "struct", "fields": list(_FIELDS)}
    assert not decoded.bad
    assert decoded.rows.to_pylist() == [_read(row, schema) for row, _ in rows]


def test_records_of_several_schemas_stay_in_their_order() -> None:
    """The scale of a Decimal is in the schema of each record."""
    values = [
        _written(
            {"id": at, "price": _number(12_000 * 10 ** (at % 3))}, [_FIELDS[0], _decimal("price", str(at % 3 + 2))]
        )
        for at in range(30)
    ]
    decoded = _decode(values)
    assert not decoded.bad
    assert decoded.rows.column("id").to_pylist() == list(range(30))
    assert decoded.rows.column("price").to_pylist() == [Decimal("120.00")] * 30


def test_records_without_a_schema_are_plain_json() -> None:
    decoded = _decode([b'{"schema":null,"payload":{"id":1,"price":"1.5","day":"2026-01-31"}}', _written({"id": 2})])
    assert not decoded.bad
    assert decoded.rows.slice(0, 1).to_pylist()[0]["price"] == Decimal("1.50")
    assert decoded.rows.column("day").to_pylist() == [date(2026, 1, 31), None]


def test_without_a_value() -> None:
    assert _decode([None, _written(None)]).rows.column("id").to_pylist() == [None, None]
    required = ConnectJsonFormat(parse_ddl("id BIGINT NOT NULL"))
    reasons = [each.reason for each in _decode([None, _written(None), _written({"id": 1})], required).bad]
    assert len(reasons) == 2
    assert all("id" in reason for reason in reasons)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b'{"payload":{"id":1},"schema":null}', "not in the envelope"),
        (b'{"schema":null,"payload":{"id":1},"more":1}', "not valid JSON"),
        (b'{"schema":null,"more":1,"payload":{"id":1}}', "not in the envelope"),
        (b'{"schema":null,"payload":{"id":1}', "not "),
        (b'{"schema":null,"payload":', "not in the envelope"),
        (b'{"schema":{"type":"int64"},"payload":1}', "its `schema` is not one of Connect's"),
        (b'{"schema":{"type":"struct","fields":[1]},"payload":{}}', "its `schema` is not one of Connect's"),
        (b'{"schema":{"type":"struct","fields":[{"field":"a"}]},"payload":{}}', "its `schema` is not one of Connect's"),
        (b'{"schema":' + b"[" * 100_000 + b',"payload":{}}', "its `schema` is not one of Connect's"),
        (_written({"id": 1}, [_decimal("price", "x")]), "a Decimal without a scale"),
        (_written({"id": 1}, [_decimal("price", "-2")]), "a Decimal without a scale"),
        (_written({"id": 1}, [_decimal("price", 2)]), "a Decimal without a scale"),
        (_written({"id": 1, "price": _number(10**20)}), "field price: not a number of DECIMAL(20,2)"),
        (_written({"id": 1, "price": ""}), "field price: not a number of DECIMAL(20,2)"),
        (_written({"id": 1, "price": "123"}), "field price: "),
        (_written({"id": 1, "price": 1.5}), "field price: expected string, found number"),
        (_written({"id": 1, "price": "A" * 40_000}), ""),
        (_written({"id": 1, "price": _number(1)}, [_FIELDS[0], _decimal("price", "99999")]), "field price: "),
        (_written({"id": 1, "day": 2_932_897}), "field day: not a day of the years 1 to 9999"),
        (_written({"id": 1, "day": "2026-01-31"}), "field day: expected number, found string"),
        (_written({"id": 1, "at": 10**18}), "field at: is not in the years 1 to 9999"),
        (_written({"id": 1, "part": {"day": 10**9}}), "field part: "),
        (_written({"id": 1, "days": [1, 10**9]}), "field days: []: not a day of the years 1 to 9999"),
        (_written({"id": 1, "parts": [{"k": _number(10**38)}]}), "field parts: []: k: not a number of DECIMAL(38,0)"),
        (
            _written({"id": 1}).replace(b":1}", b":" + b"9" * 10_000 + b"}"),
            "",
        ),
    ],
)
def test_bad_records_name_the_field(value: bytes, reason: str) -> None:
    good = _written({"id": 5})
    decoded = _decode([good, value, good])
    if not reason and not decoded.bad:  # a number with zeros in front
        assert decoded.rows.column("price").to_pylist()[1] == Decimal("0.00")
        return
    assert [each.index for each in decoded.bad] == [1]
    assert reason in decoded.bad[0].reason
    assert decoded.rows.column("id").to_pylist() == [5, 5]


def test_a_large_value_and_a_deep_one() -> None:
    decoder = ConnectJsonFormat(parse_ddl("id BIGINT, note STRING"))
    large = _written({"id": 1, "note": "x" * 30_000_000})
    deep = b'{"schema":null,"payload":{"id":2,"other":' + b"[" * 100_000 + b"]" * 100_000 + b"}}"
    decoded = _decode([large, deep], decoder)
    assert decoded.rows.num_rows + len(decoded.bad) == 2
    assert len(decoded.rows.column("note")[0].as_py()) == 30_000_000


def test_a_sample_has_the_columns_of_its_schema() -> None:
    values = [_written({"id": at, "price": _number(at)}) for at in range(20)]
    found = recognize_json(values, None)
    assert found is not None
    assert found.keys == {
        "envelope": "connect",
        "schema": "id BIGINT, price DECIMAL(38,2), day DATE, clock STRING, at TIMESTAMP, "
        "part STRUCT<price: DECIMAL(38,3), note: STRING, day: DATE>, days ARRAY<DATE>, "
        "parts ARRAY<STRUCT<k: DECIMAL(38,0)>>, data BINARY",
    }
    other = recognize_json([_written({"id": 1}, [_FIELDS[0], _field("odd", "union")])], None)
    assert other is not None
    assert (other.columns, other.note) == (("id",), "no type for odd: left out")
    plain = recognize_json([*values, b'{"id": 1}'], None)
    assert plain is None or "envelope" not in plain.keys
