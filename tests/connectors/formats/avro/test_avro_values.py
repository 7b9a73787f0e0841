"""Each type of Avro, of records that fastavro has written."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.connectors.formats.avro.written import SIMPLE, Case, cases, decode, encode, record


@pytest.mark.parametrize("case", SIMPLE.values(), ids=SIMPLE)
@given(data=st.data())
def test_each_type_holds_its_values(case: Case, data: st.DataObject) -> None:
    schema = record(("f", case.schema), ("behind", "long"))
    values = data.draw(st.lists(case.values, min_size=1, max_size=20))
    decoded = decode(schema, [encode(schema, {"f": value, "behind": at}) for at, value in enumerate(values)])
    assert decoded.bad == ()
    assert decoded.rows.column("f").to_pylist() == list(map(case.expected, values))
    assert decoded.rows.column("behind").to_pylist() == list(range(len(values)))


@given(data=st.data(), case=cases())
def test_types_of_any_depth(data: st.DataObject, case: Case) -> None:
    values = data.draw(st.lists(case.values, max_size=8))
    decoded = decode(case.schema, [encode(case.schema, value) for value in values])
    assert decoded.bad == ()
    assert decoded.rows.to_pylist() == list(map(case.expected, values))


@given(data=st.data(), case=cases())
def test_a_damaged_record_is_bad_wherever_fastavro_refuses_it(data: st.DataObject, case: Case) -> None:
    """And all others are rows, the same as without it."""
    values = data.draw(st.lists(case.values, min_size=1, max_size=5))
    written = [encode(case.schema, value) for value in values]
    at = data.draw(st.integers(0, len(values) - 1))
    written[at] = data.draw(_damaged(written[at]))
    decoded = decode(case.schema, written)
    others = [case.expected(value) for place, value in enumerate(values) if place != at]
    if decoded.bad:
        assert [each.index for each in decoded.bad] == [at]
        assert decoded.rows.to_pylist() == others
    else:
        assert _is_whole(case.schema, written[at])
        assert decoded.rows.num_rows == len(values)


@st.composite
def _damaged(draw: st.DrawFn, content: bytes) -> bytes:
    how = draw(st.sampled_from(["cut", "longer", "altered", "other"]))
    at = draw(st.integers(0, max(len(content) - 1, 0)))
    match how:
        case "cut":
            return content[:at]
        case "longer":
            return content + draw(st.binary(min_size=1, max_size=9))
        case "altered":
            return content[:at] + draw(st.binary(min_size=1, max_size=3)) + content[at + 1 :]
    return draw(st.binary(max_size=40))


def _is_whole(schema: Any, content: bytes) -> bool:
    stream = io.BytesIO(content)
    try:
        fastavro.schemaless_reader(stream, fastavro.parse_schema(schema))
    except (OverflowError, ValueError):  # a date or time that Python does not have
        return True
    return stream.tell() == len(content)
