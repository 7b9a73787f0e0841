"""Arrow columns as MySQL's text: escaping, hex, JSON, and the errors that name the row."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.formats.json_text import json_text
from connectors.sql.mysql.bulk import Bulk
from connectors.sql.mysql.encode import texts
from connectors.sql.mysql.fit import ColumnPlan, Form
from eos.errors import BadRowError
from tests.connectors.sql.escaped_text import read_text

TEXT = st.text(st.sampled_from("\\\t\n\r\0'N") | st.characters(exclude_categories=["Cs"]), max_size=30)


def bulk(*forms: Form, local: bool = True) -> Bulk:
    plans = [ColumnPlan(f"c{at}", f"c{at}", form) for at, form in enumerate(forms)]
    return Bulk("`t`", plans, local=local, max_packet_bytes=1 << 20)


def read_load(payload: bytes) -> list[list[str | None]]:
    """What LOAD DATA makes of a file."""
    return read_text(payload, {"t": "\t", "n": "\n", "0": "\0"})


@given(rows=st.lists(st.tuples(st.none() | TEXT, st.none() | TEXT), min_size=1, max_size=20))
def test_text_survives_load_data(rows: list[tuple[str | None, str | None]]) -> None:
    batch = pa.record_batch({f"c{at}": pa.array([row[at] for row in rows], pa.string()) for at in range(2)})
    (payload,) = bulk(Form.TEXT, Form.TEXT).encode(batch, 1)
    assert payload.file is not None
    assert read_load(bytes(payload.file)) == [list(row) for row in rows]
    assert payload.rows == len(rows)


@given(values=st.lists(st.none() | st.binary(max_size=20), min_size=1, max_size=20), start=st.integers(0, 5))
def test_bytes_travel_in_hex_also_from_a_slice(values: list[bytes | None], start: int) -> None:
    array = pa.array(values, pa.binary()).slice(start)
    found = texts(ColumnPlan("v", "v", Form.BYTES), array, 1).to_pylist()
    assert found == [None if value is None else value.hex().upper() for value in values[start:]]


LEAF = st.none() | TEXT
NESTED = pa.struct(
    [("a b", pa.string()), ("l", pa.list_(pa.list_(pa.string()))), ("m", pa.map_(pa.string(), pa.int64()))]
)
VALUES = st.none() | st.fixed_dictionaries(
    {
        "a b": LEAF,
        "l": st.none() | st.lists(st.none() | st.lists(LEAF, max_size=3), max_size=3),
        "m": st.none() | st.dictionaries(TEXT, st.none() | st.integers(-(2**63), 2**63 - 1), max_size=3),
    }
)


@given(values=st.lists(VALUES, min_size=1, max_size=10), start=st.integers(0, 5))
def test_nested_values_are_the_json_that_python_reads(values: list[object], start: int) -> None:
    array = pa.array(values, NESTED).slice(start)
    found = [None if text is None else json.loads(text) for text in json_text(array).to_pylist()]
    assert found == values[start:]


def test_json_of_every_kind_of_leaf() -> None:
    moment = dt.datetime(2024, 2, 29, 12, 0, 0, 5, tzinfo=dt.UTC)
    row = {
        "b": True,
        "i": -1,
        "f": 0.1,
        "short": Decimal("1.50"),
        "long": Decimal("12345678901234567.25"),
        "day": moment.date(),
        "zoned": moment,
        "plain": moment.replace(tzinfo=None),
        "time": moment.time(),
        "none": None,
        "fixed": [1, 2],
        "by_number": [(3, "x")],
        "empty": {},
    }
    kinds = pa.struct(
        [
            ("b", pa.bool_()),
            ("i", pa.int8()),
            ("f", pa.float64()),
            ("short", pa.decimal128(10, 2)),
            ("long", pa.decimal128(38, 2)),
            ("day", pa.date32()),
            ("zoned", pa.timestamp("us", "Asia/Tokyo")),
            ("plain", pa.timestamp("us")),
            ("time", pa.time64("us")),
            ("none", pa.null()),
            ("fixed", pa.list_(pa.int32(), 2)),
            ("by_number", pa.map_(pa.int32(), pa.string())),
            ("empty", pa.struct([])),
        ]
    )
    (text,) = json_text(pa.array([row], kinds)).to_pylist()
    assert json.loads(text) == {
        "b": True,
        "i": -1,
        "f": 0.1,
        "short": 1.5,
        "long": "12345678901234567.25",
        "day": "2024-02-29",
        "zoned": "2024-02-29T12:00:00.000005Z",
        "plain": "2024-02-29T12:00:00.000005",
        "time": "12:00:00.000005",
        "none": None,
        "fixed": [1, 2],
        "by_number": {"3": "x"},
        "empty": {},
    }


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_a_number_that_json_does_not_have_is_refused(number: float, kind: pa.DataType) -> None:
    for array in (pa.array([1.0, number], kind), pa.array([[1.0], None, [None, number]], pa.list_(kind))):
        with pytest.raises(pa.ArrowInvalid, match="NaN and infinity cannot be written"):
            json_text(array)
    assert json_text(pa.array([1.0, None], kind)).to_pylist() == ["1", None]


def test_every_character_of_a_text_is_read_back() -> None:
    characters = [chr(code) for code in (*range(0x300), 0x2028, 0xFEFF, 0x1F600)]
    found = json_text(pa.array(characters)).to_pylist()
    assert [json.loads(text) for text in found] == characters
    assert json.loads(json_text(pa.array(["".join(characters)]))[0].as_py()) == "".join(characters)


@given(values=st.lists(st.none() | st.binary(max_size=10), min_size=1, max_size=20), start=st.integers(0, 5))
def test_nested_bytes_are_base64_also_from_a_slice(values: list[bytes | None], start: int) -> None:
    array = pa.array([[value] for value in values], pa.list_(pa.binary())).slice(start)
    expected = [[None if value is None else base64.b64encode(value).decode()] for value in values[start:]]
    assert [json.loads(text) for text in json_text(array).to_pylist()] == expected


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string()), pa.string_view()], ids=str
)
def test_keys_of_a_map_are_the_same_names_however_they_are_packed(kind: pa.DataType) -> None:
    keys = pa.array(['a"b', "\\", ""], pa.string()).cast(kind)
    maps = pa.MapArray.from_arrays([0, 2, 3], keys, pa.array([1, 2, 3]))
    assert json_text(maps).to_pylist() == ['{"a\\"b":1,"\\\\":2}', '{"":3}']


def test_keys_of_a_map_that_are_nested_stay_apart() -> None:
    keys = pa.array([{"x": 'a"'}, {"x": "a"}], pa.struct([("x", pa.string())]))
    (text,) = json_text(pa.MapArray.from_arrays([0, 2], keys, pa.array([1, 2]))).to_pylist()
    assert json.loads(text) == {'{"x":"a\\""}': 1, '{"x":"a"}': 2}


MAPS = st.lists(st.none() | st.lists(st.sampled_from("abc"), max_size=3), min_size=1, max_size=8)


@given(maps=MAPS, start=st.integers(0, 3))
def test_a_map_with_equal_keys_is_refused_and_no_other(maps: list[list[str] | None], start: int) -> None:
    pairs = [None if keys is None else [(key, 1) for key in keys] for keys in maps]
    array = pa.array([{"m": each} for each in pairs], pa.struct([("m", pa.map_(pa.string(), pa.int8()))])).slice(start)
    if any(keys is not None and len(set(keys)) < len(keys) for keys in maps[start:]):
        with pytest.raises(pa.ArrowInvalid, match="two equal keys"):
            json_text(array)
    else:
        assert len(json_text(array)) == max(0, len(maps) - start)


@pytest.mark.parametrize(
    ("text", "said"), [('{"a":1,"a":2}', "names 'a' twice"), ("[1.00000000000000001]", "more digits than a double")]
)
def test_json_that_mysql_would_store_a_part_of_is_a_bad_row(text: str, said: str) -> None:
    mysql = ColumnPlan("v", "v", Form.TEXT, type="json")
    with pytest.raises(BadRowError, match=f"row 12, column 'v': .*{said}"):
        texts(mysql, pa.array(["{}", None, text]), 10)
    mariadb = ColumnPlan("v", "v", Form.TEXT, type="longtext")
    assert texts(mariadb, pa.array([text]), 10).to_pylist() == [text]


@pytest.mark.parametrize("bad_at", [0, 1, 499, 999])
def test_the_row_that_does_not_fit_is_named(bad_at: int) -> None:
    values = ["1"] * 1000
    values[bad_at] = "abc"
    with pytest.raises(BadRowError, match=f"row {5000 + bad_at}, column 'v'.*'abc'"):
        texts(ColumnPlan("v", "v", Form.INTEGER), pa.array(values), 5000)


def test_fractions_of_a_second_are_never_rounded() -> None:
    early = pa.array([dt.datetime(1969, 12, 31, 23, 59, 59, 500_000)])
    assert texts(ColumnPlan("v", "v", Form.MOMENT, fraction=1), early, 1).to_pylist() == ["1969-12-31 23:59:59.500000"]
    with pytest.raises(BadRowError, match="0 digits"):
        texts(ColumnPlan("v", "v", Form.MOMENT, fraction=0), early, 1)


def test_inserts_are_split_by_size_and_count_every_row() -> None:
    batch = pa.record_batch({"c0": pa.array([f"{n}'{'x' * 1000}" for n in range(5000)])})
    payloads = list(bulk(Form.TEXT, local=False).encode(batch, 1))
    assert sum(each.rows for each in payloads) == 5000
    assert all(each.bytes <= (1 << 19) + 2000 for each in payloads)
    assert [each.first_row for each in payloads[:2]] == [1, 1 + payloads[0].rows]
    assert all(isinstance(each.statement, bytes) and each.statement.endswith(b"x')") for each in payloads)
