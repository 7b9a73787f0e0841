"""JSON decoding: every value of a batch decodes as it would alone, and as Python's json reads it."""

from __future__ import annotations

import json
import math
import sys
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from connectors.api.decoding import Decoded
from connectors.formats.ddl import parse_ddl
from connectors.formats.json_values import JsonFormat
from eos.errors import SpecError
from tests.json_oracle import BAD, expected
from tests.searches import examples

SCHEMA = parse_ddl(
    "i BIGINT, t TINYINT, s STRING, ok BOOLEAN, f FLOAT, x DOUBLE, m DECIMAL(10,2), w DECIMAL(38,20), ts TIMESTAMP, "
    "n TIMESTAMP_NTZ, d DATE, b BINARY, l ARRAY<INT>, ld ARRAY<DATE>, o STRUCT<i: INT NOT NULL, b: BINARY>"
)
FORMAT = JsonFormat(SCHEMA)


def decode(values: list[bytes | None], decoder: JsonFormat = FORMAT) -> Decoded:
    return decoder.decode(pa.array(values, pa.binary()))


def outcomes(values: list[bytes | None], decoder: JsonFormat = FORMAT) -> list[Any]:
    """What became of each value: its row, or BAD."""
    decoded = decode(values, decoder)
    decoded.rows.validate(full=True)
    assert decoded.rows.schema == decoder.schema
    assert all(entry.reason for entry in decoded.bad)
    bad = {entry.index for entry in decoded.bad}
    assert [entry.index for entry in decoded.bad] == sorted(bad)
    rows = iter(decoded.rows.to_pylist())
    found = [BAD if index in bad else next(rows) for index in range(len(values))]
    assert next(rows, None) is None
    return found


@pytest.mark.parametrize("ddl", ["l ARRAY<BINARY>", "l ARRAY<STRUCT<b: BINARY>>"])
def test_bytes_in_arrays_of_which_none_has_an_item(ddl: str) -> None:
    """The buffer of an array without items may have any bytes."""
    decoder = JsonFormat(parse_ddl(ddl))
    for value, found in ((b"{}", None), (b'{"l": []}', []), (b'{"l": null}', None)):
        assert outcomes([value] * 3, decoder) == [{"l": found}] * 3


def assert_as_oracle(values: list[bytes | None], schema: pa.Schema = SCHEMA) -> None:
    for value, found in zip(values, outcomes(values, JsonFormat(schema)), strict=True):
        assert _plain(found) == _plain(expected(value, schema)), value


def _plain(row: Any) -> Any:
    """Comparable: zones named alike, and decimals with their scale."""
    if isinstance(row, dict):
        return {key: _plain(value) for key, value in row.items()}
    if isinstance(row, Decimal):
        return str(abs(row) if row == 0 else row)
    return row.timestamp() if hasattr(row, "timestamp") and row.tzinfo else row


TOKENS = [
    "{", "}", "[", "]", ":", ",", '"', "\\", "\n", " ", "\t", "\0", "\x1f", "\ufeff", "é", "{}", '{"i":1}', '{"i":',
    "}{", '"i"', '"s"', '"o"', '"l"', '"zz"', "1", "-1", "null", "true", "1.5", "1e3", "NaN", "/*c*/", '"}', '{"s":"',
    "\r\n",
]  # fmt: skip
hostile = st.lists(st.sampled_from(TOKENS), max_size=8).map(lambda tokens: "".join(tokens).encode())
braced = hostile.map(lambda inner: b"{" + inner + b"}")

numbers = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.integers(-130, 130).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**9), max_value=10**9).map(str),
    st.sampled_from(
        ["-0", "1E2", "1.100", "1e40", "1e-400", "1e999", "01", "+1", ".5", "1.", "NaN", "-Infinity", "0.0"]
    ),
)
texts = st.one_of(
    st.text(max_size=8),
    st.datetimes().map(lambda moment: moment.isoformat()),
    st.datetimes(timezones=st.timezones()).map(lambda moment: moment.isoformat()),
    st.dates().map(lambda day: day.isoformat()),
    st.binary(max_size=7).map(lambda data: __import__("base64").b64encode(data).decode()),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.sampled_from(
        ["2024-02-30", "2024-01-01T24:00", "2024-01-01T00:00:00.1234567Z", "YQ=", "Y=Q=", "YQ==YQ==", "860"]
    ),
)
scalars = st.one_of(
    numbers,
    texts.map(json.dumps),
    texts.map(lambda t: json.dumps(t, ensure_ascii=False)),
    st.sampled_from(["null", "true"]),
)
nested = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.dictionaries(st.sampled_from(["i", "b", "zz"]), inner, max_size=2).map(
            lambda fields: "{" + ",".join(f"{json.dumps(k)}: {v}" for k, v in fields.items()) + "}"
        ),
    ),
    max_leaves=4,
)
documents = (
    st.lists(st.tuples(st.sampled_from([*SCHEMA.names, "zz", "I"]), nested), max_size=4)
    .map(lambda fields: "{" + ",\n".join(f"{json.dumps(k)}:{v}" for k, v in fields) + "}")
    .map(lambda text: text.encode("utf-8", "surrogatepass"))
)
values = st.one_of(documents, documents, braced, hostile, st.binary(max_size=12), st.none())


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(values, max_size=12))
@example([b'{"i":1', b'}{"i":2}'])
@example([b'{"i":1}{"i":2}', b'{"i":3'])
@example([b'{"i":1}{"i":2}', b'{"i":3}'])
@example([b'{"s":"}', b'{"}'])
@example([b'{"zz":[{}', b"{}]}", b'{"i":1}{"i":2}'])
@example([b'{"zz":{"i":1}', b"{}}"])
@example([b'{"w":860}', b'{"w":"123456789012345678901"}', b'{"w":1e17}'])
@example([b"\xef\xbb\xbf{}", b"{}\0}", b"{}\x0b", b"\x0c{}", "{}\u00a0".encode(), b" {}\r\n"])
@example([b'{"s":"\xff"}', b'{"zz":"\xff"}', b'{"\xff":1}', b'{"i":1}'])
@example([b'{"zz":"\\ud800"}', b'{"zz":"\\udc00\\ud800"}', b'{"zz":"\\ud83d\\ude00"}'])
def test_each_value_decodes_as_it_would_alone(batch: list[bytes | None]) -> None:
    assert_as_oracle(batch)


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 38), st.integers(0, 38), st.decimals(allow_nan=False)), min_size=1, max_size=5)
)
def test_decimals_are_exact_or_bad(cases: list[tuple[int, int, Decimal]]) -> None:
    for precision, scale, value in cases:
        schema = pa.schema([("m", pa.decimal128(precision, min(scale, precision)))])
        if value.is_finite() and -300 < value.adjusted() < 37:  # further up the parser refuses what is zero, too
            digits = len(value.as_tuple().digits)
            as_text = str(value)
            if digits <= 38:
                assert_as_oracle([b'{"m":"%s"}' % as_text.encode(), b'{"m":%s}' % as_text.lower().encode()], schema)


@pytest.mark.parametrize(
    ("kind", "text", "fits"),
    [
        ("BIGINT", "9223372036854775807", True),
        ("BIGINT", "9223372036854775808", False),
        ("TINYINT", "-129", False),
        ("INT", "1.0", False),
        ("INT", '"1"', False),
        ("STRING", "1", False),
        ("STRING", "{}", False),
        ("BOOLEAN", '"true"', False),
        ("DOUBLE", "NaN", False),
        ("DOUBLE", "1e309", False),
        ("FLOAT", "1e39", False),
        ("FLOAT", "-Infinity", False),
        ("DECIMAL(5,2)", "999.99", True),
        ("DECIMAL(5,2)", '"1.10000000"', True),
        ("DECIMAL(5,2)", "1000", False),
        ("DECIMAL(5,2)", "1.005", False),
        ("DECIMAL(38,37)", "860", False),  # Arrow alone makes 9.29… of it
        ("DECIMAL(18,4)", "12345678901234.5678", True),  # a double has no such number
        ("TIMESTAMP", '"2024-05-01T12:00:00.1234567Z"', False),
        ("TIMESTAMP", "1714564800", False),
        ("TIMESTAMP_NTZ", '"2024-05-01T12:00:00Z"', False),
        ("DATE", '"2024-02-30"', False),
        ("DATE", "19000", False),
        ("BINARY", '"YQ"', False),
        ("BINARY", '"YQ=="', True),
        ("BINARY", '"YWJj$$$$"', False),
        ("BINARY", '"Y=Q="', False),
        ("BINARY", '"YQ==YQ=="', False),
        ("ARRAY<INT>", "[1, 2.5]", False),
        ("STRUCT<a: INT NOT NULL>", "{}", False),
        ("STRUCT<a: INT NOT NULL>", "null", True),
        ("ARRAY<STRUCT<a: INT NOT NULL>>", '[null, {"a": 1}]', True),
        ("ARRAY<STRUCT<a: INT NOT NULL>>", '[{"a": 1}, {"b": 1}]', False),
        ("STRUCT<o: STRUCT<a: INT NOT NULL> NOT NULL>", '{"o": null}', False),
        ("STRUCT<a: INT>", '{"a": 1, "a": 2}', False),
    ],
)
def test_what_does_not_fit_is_bad(kind: str, text: str, fits: bool) -> None:
    schema = parse_ddl(f"v {kind}")
    value = b'{"v": %s}' % text.encode()
    assert_as_oracle([b"{}", value, b"{}"], schema)
    bad = decode([b"{}", value], JsonFormat(schema)).bad
    assert (bad == ()) is fits
    if not fits:
        assert bad[0].index == 1
        assert "v" in bad[0].reason or "Number too big" in bad[0].reason
        assert "row" not in bad[0].reason


@pytest.mark.parametrize(
    ("written", "utc"),
    [
        ("2024-05-01T12:00:00", "2024-05-01T12:00:00+00:00"),
        ("2024-05-01 12:00", "2024-05-01T12:00:00+00:00"),
        ("2024-05-01", "2024-05-01T00:00:00+00:00"),
        ("2024-05-01T12:00:00.5Z", "2024-05-01T12:00:00.500000+00:00"),
        ("2024-05-01T12:00:00.123456+05:30", "2024-05-01T06:30:00.123456+00:00"),
        ("2024-05-01T12:00:00-0800", "2024-05-01T20:00:00+00:00"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00+00:00"),
        ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999+00:00"),
    ],
)
def test_timestamps(written: str, utc: str) -> None:
    (row,) = outcomes([b'{"ts": "%s"}' % written.encode()])
    assert row["ts"].isoformat() == utc


def test_reasons_name_the_field() -> None:
    decoder = JsonFormat(parse_ddl("id BIGINT NOT NULL, name STRING, o STRUCT<a: INT>"))
    reasons = {
        b'{"id": "x"}': "field id: expected number, found string",
        b'{"id": 1, "o": {"a": true}}': "field o/a: expected number, found boolean",
        b'{"id": 1, "id": 2}': "field id is given twice",
        b'{"id": 99999999999999999999}': "field id: '99999999999999999999' does not fit BIGINT",
        b'{"name": "n"}': "field id: a required field was absent",
        b"": "not valid JSON: empty value",
        b"[1]": "not valid JSON: not a JSON object",
        b"no": "not valid JSON: not a JSON object, at character 1: 'no'",
        b'{"id": 1}{"id": 2}': "not valid JSON: more than one JSON document in a value, at character 10: '{\"id\": 2}' "
        "behind '{\"id\": 1}'",
        b"\xff": "not UTF-8: byte 0xff at position 0",
        b'{"id": tru}': "not valid JSON: Invalid value, at character 8: 'tru}' behind '{\"id\": '",
        b'{"id": 1}\0}': "not valid JSON: a raw NUL byte is not JSON, at character 10: '\\x00}' behind '{\"id\": 1}'",
    }
    for value, reason in reasons.items():
        assert [entry.reason for entry in decoder.decode(pa.array([value], pa.binary())).bad] == [reason]


BEHIND_COMMA: Final = "at character 10: '}' behind '{\"id\": 1,'"
AT_COMMA: Final = "at character 9: ',}' behind '{\"id\": 1'"
"""Where Python, from 3.13 on, has the error of a comma that nothing follows."""


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ('{"id": 1,}', AT_COMMA if sys.version_info >= (3, 13) else BEHIND_COMMA),
        ('{"id": 1, "name": "n"', "at its end, character 22: is it cut off?"),
        ('{\n  "id": 1,\n  name: 2}', "at line 3, column 3: 'name: 2}' behind ' \"id\": 1,\\n  '"),
        ('{"name": "' + "n" * 5000 + '" 7}', "at character 5013: '7}' behind 'nnnnnnnnnn\" '"),
    ],
)
def test_a_record_that_is_not_json_says_where_it_stops_being_json(value: str, place: str) -> None:
    decoder = JsonFormat(parse_ddl("id BIGINT, name STRING"))
    good = b'{"id": 1}'
    (bad,) = decoder.decode(pa.array([good, value.encode(), good], pa.binary())).bad
    assert bad.index == 1
    assert bad.reason.startswith("not valid JSON: ")
    assert bad.reason.endswith(f", {place}")


@pytest.mark.parametrize("value", ['{"id": 1e999}', '{"name": "\\ud800"}', '{"zz":' + "[" * 200_000 + '"}'])
def test_a_place_that_is_not_known_is_left_out(value: str) -> None:
    decoder = JsonFormat(parse_ddl("id BIGINT, name STRING"))
    (bad,) = decoder.decode(pa.array([value.encode()], pa.binary())).bad
    assert bad.reason.startswith(("not valid JSON: ", "field "))
    assert "behind" not in bad.reason


def test_tombstones() -> None:
    (row,) = outcomes([None])
    assert set(row.values()) == {None}
    assert outcomes([None], JsonFormat(parse_ddl("i INT NOT NULL"))) == [BAD]


def test_deep_nesting_does_not_break_the_parser() -> None:
    deep = b'{"zz":' + b"[" * 200_000 + b"]" * 200_000 + b',"i":7}'
    (row, bad) = outcomes([deep, deep[:-2]])
    assert (row["i"], bad) == (7, BAD)


def test_a_whole_batch_with_one_bad_value() -> None:
    batch: list[bytes | None] = [b'{"i":%d}' % number for number in range(20_000)]
    batch[12_345] = b'{"i":1}{"i":2}'
    found = outcomes(batch)
    assert found[12_345] == BAD
    assert [row["i"] for row in found if row != BAD] == [n for n in range(20_000) if n != 12_345]


def test_a_good_batch_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    real = pa.json.read_json

    def read_json(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        return real(*arguments, **options)

    monkeypatch.setattr("pyarrow.json.read_json", read_json)
    assert BAD not in outcomes([b'{"i":%d}' % number for number in range(1_000)])
    assert len(calls) == 1


@pytest.mark.parametrize("parts", [("YW", "Jj"), ("Y", "WJj"), ("YWJjZ", "GVm"), ("YQ=", "=")])
def test_base64_of_two_values_that_is_whole_only_together(parts: tuple[str, str]) -> None:
    """All of a column is decoded as one text."""
    schema = parse_ddl("v BINARY")
    batch: list[bytes | None] = [b'{"v": "%s"}' % part.encode() for part in ("YQ==", *parts)]
    assert outcomes(batch, JsonFormat(schema)) == [{"v": b"a"}, BAD, BAD]


def test_a_slice_of_a_column() -> None:
    column = pa.array([b'{"i":1}', None, b'{"i":3}', b"no"], pa.binary()).slice(1)
    decoded = FORMAT.decode(column)
    assert [row["i"] for row in decoded.rows.to_pylist()] == [None, 3]
    assert [entry.index for entry in decoded.bad] == [2]


def test_no_values() -> None:
    assert outcomes([]) == []
    assert outcomes([b"", b""]) == [BAD, BAD]


def test_floats_are_nearest() -> None:
    (row,) = outcomes([b'{"x": 0.1, "f": 16777217}'])
    assert math.isclose(row["x"], 0.1, rel_tol=0, abs_tol=0)
    assert row["f"] == 16777216.0


@pytest.mark.parametrize("ddl", ["m MAP<INT, INT>", "a STRUCT<m: MAP<DATE, INT>>", "a MAP<STRING, MAP<BINARY, INT>>"])
def test_maps_whose_keys_are_not_text_are_refused(ddl: str) -> None:
    with pytest.raises(SpecError, match="the names of a JSON object are text"):
        JsonFormat(parse_ddl(ddl))


def test_variant_is_refused_with_the_reason() -> None:
    with pytest.raises(SpecError, match="VARIANT rounds numbers of more than 38 digits"):
        parse_ddl("v VARIANT")


def test_a_format_travels_to_a_task() -> None:
    import pickle

    assert pickle.loads(pickle.dumps(FORMAT)) == FORMAT
