"""The columns of JSON records, from a sample."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.formats.ddl import parse_ddl
from connectors.formats.json_inference import Inferred, infer_columns
from connectors.formats.json_values import JsonFormat
from tests.searches import examples


def _inferred(*records: Any) -> Inferred | None:
    return infer_columns([json.dumps(each).encode() for each in records])


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, None, -(2**63)], "BIGINT"),
        ([1, 2**63], "DECIMAL(38,0)"),
        ([1, 1.5], "DOUBLE"),
        ([True, None], "BOOLEAN"),
        (["2026-11-27", "0001-01-01"], "DATE"),
        (["2026-11-27T10:00:00Z", "2026-11-27T10:00:00.25+02:00"], "TIMESTAMP"),
        (["2026-11-27T10:00:00", "2026-11-27 10:00:00.25"], "TIMESTAMP_NTZ"),
        (["2026-11-27", "x"], "STRING"),
        (["2026-11-27", None], "DATE"),
        ([None], "STRING"),
        ([[], [1]], "ARRAY<BIGINT>"),
        ([[[1], []], [[1.5]]], "ARRAY<ARRAY<DOUBLE>>"),
        ([{"a": 1}, {"b": ["x"]}, {}], "STRUCT<a: BIGINT, b: ARRAY<STRING>>"),
    ],
)
def test_the_type_of_a_field(values: list[Any], kind: str) -> None:
    assert _inferred(*({"f": value} for value in values)) == Inferred(f"f {kind}", ("f",), ())


@pytest.mark.parametrize("values", [[1, "x"], [1, True], [1, {"a": 1}], [[1], 1], [10**40], [{}], [1.5, 2**63]])
def test_a_field_whose_values_fit_no_type_is_left_out(values: list[Any]) -> None:
    assert _inferred(*({"n": 1, "f": value} for value in values)) == Inferred("n BIGINT", ("n",), ("f",))


def test_names_that_cannot_be_columns_are_left_out() -> None:
    found = _inferred({"id": 1, "ID": 2, "wei rd": 3, "a: b": 4, "c`d": 5, "": 6, "x\ny": 7, "grün": 8})
    assert found is not None
    assert found.ddl == "id BIGINT, `wei rd` BIGINT, `grün` BIGINT"
    assert found.columns == ("id", "wei rd", "grün")
    assert found.left_out == ("", "ID", "a: b", "c`d", "x\ny")


@pytest.mark.parametrize("value", [b"[1]", b"1", b"{", b"", b"\xff", b"{}", b'{"a": ' * 100_000])
def test_what_is_not_a_json_object_with_fields_is_not_recognized(value: bytes) -> None:
    assert infer_columns([value]) is None
    assert infer_columns([b'{"a": 1}', value]) is None or value == b"{}"


_SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text() | st.dates().map(str)
_VALUES = st.recursive(
    _SCALARS,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.sampled_from("abc"), inside, max_size=3),
    max_leaves=6,
)


_RECORDS = st.dictionaries(st.sampled_from(["a", "b", "A", "x y"]), _VALUES, max_size=4)


@settings(max_examples=examples(150))
@given(st.lists(_RECORDS, min_size=1, max_size=5))
def test_the_format_decodes_each_record_of_the_sample(records: list[dict[str, Any]]) -> None:
    values = [json.dumps(each).encode() for each in records]
    found = infer_columns(values)
    if found is not None:
        assert not JsonFormat(parse_ddl(found.ddl)).decode(pa.array(values, pa.binary())).bad
