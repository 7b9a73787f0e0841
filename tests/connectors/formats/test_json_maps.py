"""JSON objects that become maps: each value as Python's json reads it, or bad."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from connectors.formats.ddl import parse_ddl
from connectors.formats.entry import JsonEntry
from connectors.formats.json_values import JsonFormat
from tests.connectors.formats.test_json import TOKENS, assert_as_oracle, outcomes, scalars
from tests.json_oracle import BAD
from tests.searches import examples

SCHEMA = parse_ddl(
    "i BIGINT, m MAP<STRING, INT>, s MAP<STRING, STRING>, o STRUCT<m: MAP<STRING, MAP<STRING, BOOLEAN>>, i: INT>, "
    "l ARRAY<MAP<STRING, DECIMAL(10,2)>>, p MAP<STRING, STRUCT<l: ARRAY<INT>>>"
)

_names = st.sampled_from(["a", "b", "m", "i", "key", "value", "é", "", "\\", '"', "\u2028", "l", "{", ",", ":"])


def _object(fields: list[tuple[str, str]], *, is_ascii: bool, space: str) -> str:
    inside = f"{space},{space}".join(
        f"{json.dumps(name, ensure_ascii=is_ascii)}{space}:{space}{value}" for name, value in fields
    )
    return f"{{{space}{inside}{space}}}"


nested = st.recursive(
    st.one_of(scalars, st.integers(-5, 5).map(str), st.sampled_from(["null", "true", '"x"', "{}", "[]"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{','.join(items)}]"),
        st.builds(
            lambda fields, is_ascii, space: _object(fields, is_ascii=is_ascii, space=space),
            st.lists(st.tuples(_names, inner), max_size=3),
            st.booleans(),
            st.sampled_from(["", " ", "\n\t"]),
        ),
    ),
    max_leaves=6,
)
documents = st.lists(st.tuples(st.sampled_from([*SCHEMA.names, "zz", "M"]), nested), max_size=4).map(
    lambda fields: _object(fields, is_ascii=True, space="").encode("utf-8", "surrogatepass")
)
broken = st.tuples(
    st.sampled_from(['{"m":', '{"o":{"m":', '{"l":[', '{"p":{"a":', '{"zz":']),
    st.lists(st.sampled_from([*TOKENS, '"a"', '"a":1', '"b":2', '"key":"a"', "\\u0061"]), max_size=8),
    st.sampled_from(["}", "}}", "]}", "}}}"]),
).map(lambda parts: (parts[0] + "".join(parts[1]) + parts[2]).encode())


@settings(max_examples=examples(500), deadline=None)
@given(st.lists(st.one_of(documents, documents, broken, st.none()), max_size=8))
@example([b'{"m":{"a","b"}}', b'{"m":{"a":1,}}', b'{"m":{,"a":1}}', b'{"m":{"a":1"b":2}}', b'{"m":{"a"}}'])
@example([b'{"m":{"a":1,"\\u0061":2}}', b'{"m":{"a":1,"a":1}}', b'{"\\u006d":{"a":1}}', b'{"m":{},"\\u006d":{}}'])
@example([b'{"m":[{"key":"a","value":1}]}', b'{"m":[]}', b'{"m":null}', b'{"m":"x"}', b'{"m":{x}}', b'{"m":{ }}'])
@example(
    [b'{"m":{"a":1]}', b'{"m":{"a":[1}]}', b'{"m":{"a":1:2}}', b'{"m":{"a" 1}}', b'{"m":{"a"x:1}}', b'{"m":{1:1}}']
)
@example([b'{"m":{"a":', b"1}}", b'{"m":{"a":1}}'])
@example([b'{"m":{"', b'":1}}', b'{"m":{"a":1}}'])
@example([b'{"m":{"\\\\":1,"\\\\\\"":2}}', b'{"s":{"a":"\\\\"}}', b'{"s":{"a":"}\\\\\\",{"}}'])
@example([b'{"zz":{"m":{"a":1,"a":2}}}', b'{"o":{"i":1,"m":{"a":{"b":true}}},"m":{}}'])
def test_each_value_is_as_python_reads_it(batch: list[bytes | None]) -> None:
    assert_as_oracle(batch, SCHEMA)


def _rows(ddl: str, *values: bytes) -> list[Any]:
    return outcomes(list(values), JsonFormat(parse_ddl(ddl)))


def test_entries_keep_their_order() -> None:
    assert _rows("m MAP<STRING, INT>", b'{"m": {"b": 1, "a": null, "": 3}}') == [
        {"m": [("b", 1), ("a", None), ("", 3)]}
    ]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b'{"m": {"a": 1, "a": 2}}', "field m: a name is given twice"),
        (b'{"m": [{"key": "a", "value": 1}]}', "field m: expected object, found array"),
        (b'{"m": "x"}', "field m: expected object, found string"),
        (b'{"m": {"a": "x"}}', "field m"),
        (b'{"m": {"a", "b"}}', "not valid JSON: an object that is not JSON, at character 11"),
        (b'{"m": {"a": 1', "not valid JSON"),
        (b'{"m": {"a": ' + b"9" * 10_000 + b"}}", "field m"),
    ],
)
def test_reasons(value: bytes, reason: str) -> None:
    good = b'{"m": {"a": 1}}'
    decoded = JsonFormat(parse_ddl("m MAP<STRING, INT>")).decode(pa.array([good, value, good], pa.binary()))
    assert [each.index for each in decoded.bad] == [1]
    assert decoded.bad[0].reason.startswith(reason)


def test_large_and_deep_values() -> None:
    deep = b'{"zz":' + b"[" * 200_000 + b"]" * 200_000 + b',"m":{"a":7}}'
    wide = b'{"m":{' + b",".join(b'"%d":%d' % (at, at) for at in range(200_000)) + b"}}"
    long = b'{"m":{"' + b"x" * 20_000_000 + b'":1}}'
    nested_deep = b'{"m":{"a":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_002
    found = _rows("m MAP<STRING, INT>", deep, wide, long, nested_deep, deep[:-3])
    assert found[0] == {"m": [("a", 7)]}
    assert len(found[1]["m"]) == 200_000
    assert len(found[2]["m"][0][0]) == 20_000_000
    assert found[3:] == [BAD, BAD]


@pytest.mark.parametrize(("opens", "closes"), [("ARRAY<", ">"), ("STRUCT<a: ", ">"), ("MAP<STRING, ", ">")])
def test_64_levels_of_one_kind(opens: str, closes: str) -> None:
    """And the sixty-fifth is refused."""
    kind = opens * 64 + "INT" + closes * 64
    JsonEntry.model_validate({"type": "json", "schema": f"c {kind}"})
    start, end = {"A": ("[", "]"), "S": ('{"a":', "}"), "M": ('{"k":', "}")}[opens[0]]
    (row,) = _rows(f"c {kind}", b'{"c":' + (start * 64).encode() + b"7" + (end * 64).encode() + b"}")
    value = row["c"]
    for _ in range(64):
        value = value["a"] if isinstance(value, dict) else value[0]
        value = value[1] if isinstance(value, tuple) else value
    assert value == 7
    with pytest.raises(ValueError, match="nested too deeply"):
        JsonEntry.model_validate({"type": "json", "schema": f"c {opens}{kind}{closes}"})


def test_many_columns_side_by_side_are_not_deep() -> None:
    JsonEntry.model_validate({"type": "json", "schema": ", ".join(f"c{at} ARRAY<INT>" for at in range(100))})
