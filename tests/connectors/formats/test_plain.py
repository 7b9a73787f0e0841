"""The formats whose column is the value itself."""

from __future__ import annotations

import pickle
from typing import Final

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from connectors.api.format import AnyFormat, FormatEntry
from connectors.formats.json_values import JsonFormat
from connectors.formats.plain import RawFormat, StringFormat

values = st.lists(st.one_of(st.none(), st.binary(max_size=6), st.text(max_size=4).map(str.encode)), max_size=12)


def is_text(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


@given(values)
def test_strings_are_utf8_or_bad(batch: list[bytes | None]) -> None:
    decoded = StringFormat().decode(pa.array(batch, pa.binary()))
    good = [value for value in batch if is_text(value)]
    assert decoded.rows.column("value").to_pylist() == [None if value is None else value.decode() for value in good]
    assert [entry.index for entry in decoded.bad] == [i for i, value in enumerate(batch) if not is_text(value)]
    assert decoded.rows.schema == StringFormat().schema


def test_a_bad_string_is_explained() -> None:
    decoded = StringFormat().decode(pa.array([b"ab\xffc"], pa.binary()))
    assert [entry.reason for entry in decoded.bad] == ["not UTF-8: byte 0xff at position 2"]


@given(values)
def test_bytes_are_as_they_are(batch: list[bytes | None]) -> None:
    decoded = RawFormat().decode(pa.array(batch, pa.binary()))
    assert decoded.rows.column("value").to_pylist() == batch
    assert decoded.bad == ()


FORMAT: Final = TypeAdapter[FormatEntry](AnyFormat)


def test_formats_by_name() -> None:
    assert FORMAT.validate_python({"type": "string"}).build() == StringFormat()
    assert FORMAT.validate_python({"type": "raw"}).build() == RawFormat()
    json = FORMAT.validate_python({"type": "json", "schema": "a INT"}).build()
    assert json == JsonFormat(pa.schema([("a", pa.int32())]))
    for made in (StringFormat(), RawFormat()):
        assert pickle.loads(pickle.dumps(made)) == made


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ({"type": "json"}, "schema\n  Field required"),
        ({"type": "string", "schema": "a INT"}, "Extra inputs are not permitted"),
        ({"type": "parquet"}, "there is no format 'parquet'; use raw, and a step"),
        ({"type": "json", "schema": "a INTT"}, "did you mean INT"),
    ],
)
def test_wrong_formats(entry: dict[str, str], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        FORMAT.validate_python(entry)
