"""CSV: each value is one record, as Python's csv reads it, or bad."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from connectors.api.decoding import Decoded, Format
from connectors.formats.csv.csv_format import CsvFormat
from connectors.formats.csv.entry import CsvEntry
from connectors.formats.csv.fields import Dialect
from connectors.formats.ddl import parse_ddl
from connectors.testing.formats import FormatCompliance
from tests.searches import examples


def _decode(ddl: str, values: Sequence[bytes | None], dialect: Dialect | None = None, null: str = "") -> Decoded:
    decoded = CsvFormat(parse_ddl(ddl), dialect or Dialect(), null).decode(pa.array(values, pa.binary()))
    decoded.rows.validate(full=True)
    return decoded


class TestCompliance(FormatCompliance):
    def make_format(self) -> Format:
        return CsvFormat(parse_ddl("n BIGINT, note STRING"))

    def encode(self, numbers: Sequence[int]) -> Sequence[bytes]:
        return [b'%d,"a ""note"",\n"\r\n' % each if each % 3 else b"%d,b" % each for each in numbers]

    def bad_values(self) -> Sequence[bytes]:
        return [
            b"",
            b"1",
            b"1,2,3",
            b'1,"',
            b'1,"a"b',
            b"x,a",
            b"1,a\nb",
            b"1.5,a",
            b"9223372036854775808,a",
            b"1,\xff",
        ]


_FIELD = st.text(st.sampled_from(["a", '"', ",", "\n", "\r", " ", "é", ";", "\\", "'", "\0", "1"]), max_size=5)


@settings(max_examples=examples(400), deadline=None)
@given(
    st.lists(st.lists(_FIELD, min_size=3, max_size=3), max_size=8),
    st.sampled_from([",", ";", "\t"]),
    st.sampled_from(['"', "'"]),
    st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
    st.sampled_from(["", "\n", "\r\n"]),
)
def test_what_python_writes_is_read(
    rows: list[list[str]], delimiter: str, quote: str, quoting: Any, line_end: str
) -> None:
    values = []
    for row in rows:
        text = io.StringIO()
        csv.writer(text, delimiter=delimiter, quotechar=quote, quoting=quoting, lineterminator=line_end).writerow(row)
        values.append(text.getvalue().encode())
    decoded = _decode("a STRING, b STRING, c STRING", values, Dialect(delimiter, quote), null="never")
    if quoting == csv.QUOTE_ALL or not any(mark in field for row in rows for field in row for mark in "\r\n"):
        assert not decoded.bad  # Python leaves some line ends without quotes
        assert [list(row.values()) for row in decoded.rows.to_pylist()] == rows


def _oracle(value: bytes, dialect: Dialect) -> list[str] | None:
    """Read one value by RFC 4180, character by character; None if it is bad."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    text = text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text
    fields, at = [], 0
    while True:
        field = ""
        if text[at : at + 1] == dialect.quote:
            at += 1
            while True:
                if at >= len(text):
                    return None
                if text[at] == dialect.quote:
                    if text[at + 1 : at + 2] == dialect.quote:
                        field, at = field + dialect.quote, at + 2
                        continue
                    at += 1
                    break
                field, at = field + text[at], at + 1
            if at < len(text) and text[at] != dialect.delimiter:
                return None
        else:
            while at < len(text) and text[at] != dialect.delimiter:
                if text[at] in (dialect.quote, "\r", "\n"):
                    return None
                field, at = field + text[at], at + 1
        fields.append(field)
        if at >= len(text):
            return fields
        at += 1


_HOSTILE = st.lists(
    st.sampled_from([b"a", b'"', b",", b"\n", b"\r", b'""', b'","', b"\xff", b"1", b" ", b"\xc3\xa9", b"\0"]),
    max_size=9,
).map(b"".join)


@settings(max_examples=examples(600), deadline=None)
@given(st.lists(_HOSTILE, max_size=8))
@example([b'"a","b"', b'"a"",b', b'a,"b""', b'"a","b"\r\n', b",", b'"",""'])
@example([b'"', b'a,"', b'","', b"a,b\n\n", b'"\n","\r\n"\n', b'"a"\n,b'])
@example([b"", b"\n", b",\n", b"", b"a,b", b"", b"\r\n"])
def test_any_bytes_are_read_by_the_rfc_or_bad(values: list[bytes]) -> None:
    decoded = _decode("a STRING, b STRING", values, null="never")
    bad = {each.index for each in decoded.bad}
    assert all(each.reason for each in decoded.bad)
    expected = [_oracle(value, Dialect()) for value in values]
    assert bad == {at for at, fields in enumerate(expected) if fields is None or len(fields) != 2}
    found = [list(row.values()) for row in decoded.rows.to_pylist()]
    assert found == [fields for fields in expected if fields is not None and len(fields) == 2]


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        (rb'"a\"b",c', ['a"b', "c"]),
        (rb'"a\\",c', ["a\\", "c"]),
        (rb'"a\\\"",c', ['a\\"', "c"]),
        (rb"a\b,c", ["a\\b", "c"]),
        (rb'"a\nb",c', ["anb", "c"]),
        (rb'"a""b",c', None),
        (rb'"a\",c', None),
        (rb"a\",c", None),
        (rb'"a\"', None),
    ],
)
def test_an_escape_character(value: bytes, fields: list[str] | None) -> None:
    for around in ([], [b"\\", b'x,"\\\\"', b"\\"]):  # neighbours that end with the escape character
        values = [*around, value, *around]
        decoded = _decode("a STRING, b STRING", values, Dialect(escape="\\"))
        found = [list(row.values()) for row in decoded.rows.to_pylist()]
        assert [each for each in found if each != ["x", "\\"]] == ([] if fields is None else [fields])


def test_null_is_a_text_that_is_not_quoted() -> None:
    assert _decode("a STRING, b INT", [b",", b'"",1']).rows.to_pylist() == [{"a": None, "b": None}, {"a": "", "b": 1}]
    decoded = _decode("a STRING, b INT", [b"\\N,\\N", b'"\\N",1', b",1", b"x,"], null="\\N")
    assert decoded.rows.to_pylist() == [{"a": None, "b": None}, {"a": "\\N", "b": 1}, {"a": "", "b": 1}]
    assert [each.reason for each in decoded.bad] == ["field b: '' does not fit INT"]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("TINYINT", "127", 127),
        ("TINYINT", "128", None),
        ("BIGINT", "-9223372036854775808", -(2**63)),
        ("BIGINT", "0x10", None),
        ("BIGINT", " 1", None),
        ("BIGINT", "1.0", None),
        ("BIGINT", "1" * 10_000, None),
        ("DECIMAL(10,2)", "1.50", Decimal("1.50")),
        ("DECIMAL(10,2)", "1e2", Decimal("100.00")),
        ("DECIMAL(10,2)", "1.005", None),
        ("DECIMAL(10,2)", "123456789", None),
        ("DECIMAL(38,37)", "860", None),
        ("DECIMAL(38,37)", "8.6", Decimal("8.6")),
        ("DECIMAL(38,0)", "9" * 38, Decimal("9" * 38)),
        ("DECIMAL(38,0)", "9" * 39, None),
        ("DECIMAL(38,0)", "1e9999", None),
        ("DECIMAL(38,0)", "9" * 10_000, None),
        ("DOUBLE", "1e308", 1e308),
        ("DOUBLE", "1e309", None),
        ("DOUBLE", "NaN", None),
        ("FLOAT", "1e39", None),
        ("BOOLEAN", "TRUE", True),
        ("BOOLEAN", "1", None),
        ("DATE", "2024-02-29", date(2024, 2, 29)),
        ("DATE", "2023-02-29", None),
        ("DATE", "2024-02-29T00:00", None),
        ("TIMESTAMP", "2024-02-29 10:00:00.123456+01:00", datetime(2024, 2, 29, 9, 0, 0, 123456, tzinfo=UTC)),
        ("TIMESTAMP", "2024-02-29T10:00", datetime(2024, 2, 29, 10, tzinfo=UTC)),
        ("TIMESTAMP", "2024-02-29", datetime(2024, 2, 29, tzinfo=UTC)),
        ("TIMESTAMP", "2024-02-29T10:00:00.1234567Z", None),
        ("TIMESTAMP", "2024-02-29T25:00Z", None),
        ("TIMESTAMP_NTZ", "2024-02-29T10:00:00.1", datetime(2024, 2, 29, 10, 0, 0, 100_000)),
        ("TIMESTAMP_NTZ", "2024-02-29T10:00Z", None),
    ],
)
def test_a_text_fits_exactly_or_is_bad(kind: str, text: str, value: Any) -> None:
    decoded = _decode(f"n INT, v {kind}", [b"1,", b"2," + text.encode(), b"3,"])
    if value is None:
        assert [each.index for each in decoded.bad] == [1]
        assert decoded.bad[0].reason.startswith("field v: ")
        assert len(decoded.bad[0].reason) < 200
    else:
        assert decoded.rows.column("v").to_pylist() == [None, value, None]


def test_one_bad_row_spoils_no_other() -> None:
    values = [b'%d,"x\n%d"' % (at, at) for at in range(3_000)]
    for at in (0, 7, 1_500, 2_999):
        values[at] = (b'1,"', b'"', b"a,b\n\n", b"\xff,1")[at % 4]
    decoded = _decode("n INT, s STRING", values)
    assert [each.index for each in decoded.bad] == [0, 7, 1_500, 2_999]
    assert decoded.rows.column("s").to_pylist() == [f"x\n{at}" for at in range(3_000) if at not in (0, 7, 1_500, 2_999)]


def test_large_values() -> None:
    long, wide = b'1,"' + b'""' * 10_000_000 + b'"', b"," * 5_000_000
    decoded = _decode("n INT, s STRING", [long, wide, b"2,x"])
    assert [len(text) for text in decoded.rows.column("s").to_pylist()] == [10_000_000, 1]
    assert [each.reason for each in decoded.bad] == ["5000001 fields, and the schema has 2 columns"]


def test_records_without_a_value() -> None:
    assert _decode("a INT", [None, b"1", b""]).rows.column("a").to_pylist() == [None, 1, None]
    assert [each.index for each in _decode("a INT NOT NULL", [None, b"1", b""]).bad] == [0, 2]


@pytest.mark.parametrize(
    ("keys", "mistake"),
    [
        ({"schema": "a BINARY"}, "column a: BINARY is not supported in CSV"),
        ({"schema": "a ARRAY<INT>"}, "is not supported in CSV"),
        ({"schema": "a INT", "delimiter": ";;"}, "is not one ASCII character"),
        ({"schema": "a INT", "delimiter": "\n"}, "is not one ASCII character"),
        ({"schema": "a INT", "quote": "é"}, "is not one ASCII character"),
        ({"schema": "a INT", "delimiter": '"'}, "are not different"),
        ({"schema": "a INT", "escape": '"'}, "are not different"),
        ({"schema": "a INT", "null_text": "a,b"}, "the text of a NULL has"),
    ],
)
def test_mistakes_of_a_spec(keys: dict[str, str], mistake: str) -> None:
    with pytest.raises(ValueError, match=mistake):
        CsvEntry.model_validate({"type": "csv", **keys})
