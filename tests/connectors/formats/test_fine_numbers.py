"""Numbers with very many digits behind the point, and decimals that Arrow would scale wrongly: exact, or bad."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Final

import pyarrow as pa
import pytest

from connectors.api.decoding import Format
from connectors.formats.binlog_json.canal_format import CanalFormat
from connectors.formats.binlog_json.images import TableRows
from connectors.formats.binlog_json.maxwell_format import MaxwellFormat
from connectors.formats.casting import cast_each
from connectors.formats.connect_json import ConnectJsonFormat
from connectors.formats.csv.csv_format import CsvFormat
from connectors.formats.ddl import parse_ddl
from connectors.formats.fine_numbers import TOO_FINE, too_fine, too_long
from connectors.formats.json_values import JsonFormat

ROW: Final = parse_ddl("id BIGINT, p DECIMAL(10,2)")
TABLE: Final = TableRows(ROW, ("id",))
DEEP: Final = parse_ddl("id BIGINT, d DOUBLE, s STRUCT<m: MAP<STRING, ARRAY<DECIMAL(10,2)>>>")

TINY: Final = ("1e-39", "1e-41", "5e-194", "1e-239", "0e-99999", "1e-999999999", "-1.5E-2147483647", "1e-99999999999")
"""Arrow converts some of them to 0, and crashes for others."""


def _document(number: str, **more: str) -> bytes:
    parts = {"database": '"s"', "table": '"t"', "type": '"insert"', "data": f'{{"id":1,"p":{number}}}', **more}
    return ("{" + ",".join(f'"{name}":{part}' for name, part in parts.items()) + "}").encode()


WRITTEN: Final[dict[str, tuple[Format, Callable[[str], bytes]]]] = {
    "json, number": (JsonFormat(ROW), lambda number: b'{"id":1,"p":%s}' % number.encode()),
    "json, text": (JsonFormat(ROW), lambda number: b'{"id":1,"p":"%s"}' % number.encode()),
    "json, twice": (JsonFormat(ROW), lambda number: b'{"id":1,"p":%s,"p":1}' % number.encode()),
    "json, two documents": (JsonFormat(ROW), lambda number: b'{"id":1}\n{"p":%s}' % number.encode()),
    "json, not of Python": (JsonFormat(ROW), lambda number: b'{"id":1,"x":Inf,"p":%s}' % number.encode()),
    "json, long number": (JsonFormat(ROW), lambda number: b'{"x":%s,"p":%s}' % (b"9" * 5000, number.encode())),
    "json, nested": (JsonFormat(DEEP), lambda number: b'{"s":{"m":{"a":[1,%s]}}}' % number.encode()),
    "connect": (
        ConnectJsonFormat(ROW),
        lambda number: b'{"schema":null,"payload":{"id":1,"p":%s}}' % number.encode(),
    ),
    "csv": (CsvFormat(ROW), lambda number: b"1,%s" % number.encode()),
    "canal": (
        CanalFormat(TABLE, ("s", "t")),
        lambda number: _document("0", type='"INSERT"', data=f'[{{"id":"1","p":"{number}"}}]'),
    ),
    "maxwell": (MaxwellFormat(TABLE, ("s", "t")), _document),
}


@pytest.mark.parametrize("written", WRITTEN)
def test_a_number_close_to_zero_is_bad(written: str) -> None:
    form, write = WRITTEN[written]
    values = [write(number) for number in TINY]
    for sample in (values, *([each] for each in values)):
        decoded = form.decode(pa.array(sample, pa.binary()))
        assert [each.index for each in decoded.bad] == list(range(len(sample)))
        assert decoded.rows.num_rows == 0


def test_the_neighbours_of_such_a_number_are_rows() -> None:
    write = WRITTEN["json, number"][1]
    values = [write("1.25"), write("1e-999999999"), write("25e-1"), write("1e-194")]
    decoded = JsonFormat(ROW).decode(pa.array(values, pa.binary()))
    assert decoded.rows.column("p").to_pylist() == [Decimal("1.25"), Decimal("2.50")]
    assert [(each.index, each.reason) for each in decoded.bad][1] == (3, f"field p: {TOO_FINE}")


def test_a_number_that_arrow_makes_zero_is_bad() -> None:
    (bad,) = JsonFormat(ROW).decode(pa.array([b'{"id":1,"p":1e-194}'], pa.binary())).bad
    assert bad.reason == f"field p: {TOO_FINE}"


def test_a_double_may_be_close_to_zero() -> None:
    """Also a text, and the value of a field that no column has."""
    value = json.dumps({"id": 1, "d": 5e-324, "s": {"m": {"3e-999": [1]}}, "x": 1e-300, "y": "1e-999999999"})
    decoded = JsonFormat(DEEP).decode(pa.array([value.encode()], pa.binary()))
    assert decoded.bad == ()
    assert decoded.rows.column("d").to_pylist() == [5e-324]


def test_texts_that_are_too_fine() -> None:
    fine = ["1e-77", "0." + "0" * 77, "1.5e-76", "1E-0000000000077", "-.5e-76", "1e-99999999999999999999"]
    others = ["1e-76", "0." + "0" * 76, "1.5e-75", "1." + "0" * 80 + "e4", "x" * 100, "1e99999999999", "1e77", "e", ""]
    assert too_fine(pa.array([*fine, None, *others])).tolist() == [True] * len(fine) + [False] * (1 + len(others))
    assert too_fine(pa.array([], pa.string())).tolist() == []


@pytest.mark.parametrize(
    "values",
    [pa.array(["860", "1.5"]), pa.array([Decimal(860), Decimal("1.5")], pa.decimal128(38, 1))],
    ids=["text", "decimal"],
)
def test_a_decimal_that_is_scaled_up_never_overflows(values: pa.Array) -> None:
    found, wrong = cast_each(values, pa.decimal128(38, 37))
    assert wrong.tolist() == [True, False]
    assert found.to_pylist() == [None, Decimal("1.5")]


def test_an_integer_becomes_a_decimal_that_holds_it() -> None:
    """Arrow refuses the whole column because of integers that it does not have."""
    found, wrong = cast_each(pa.array([860, 2**62, None]), pa.decimal128(10, 2))
    assert wrong.tolist() == [False, True, False]
    assert found.to_pylist() == [Decimal(860), None, None]


@pytest.mark.parametrize("written", WRITTEN)
def test_a_number_with_very_many_digits_is_bad(written: str) -> None:
    """Arrow keeps the lower 256 bits of them: 300 nines are -1 then."""
    form, write = WRITTEN[written]
    texts = [
        f"{sign}{digit * count}{end}"
        for sign in ("", "-")
        for digit in "159"
        for count in range(77, 400, 7)
        for end in ("", ".5", "e-50")
    ]
    decoded = form.decode(pa.array([write(each) for each in (*texts, "1" * 10_000, "9" * 10_000)], pa.binary()))
    assert len(decoded.bad) == len(texts) + 2


def test_texts_that_are_too_long() -> None:
    long = ("9" * 77, "-" + "1" * 77, "1" * 40 + "." + "1" * 37, "0." + "1" * 77 + "e300", "+0009" + "9" * 76 + "E-300")
    others = ("9" * 76, "0" * 300 + "1", "-0." + "0" * 300 + "1e301", "1" * 38 + "." + "1" * 38, "1" * 76 + "e-10", "x")
    assert too_long(pa.array([*long, None, *others])).tolist() == [True] * len(long) + [False] * (1 + len(others))
    assert too_long(pa.array([], pa.string())).tolist() == []


def test_zeros_in_front_of_a_number_do_not_count() -> None:
    found, wrong = cast_each(pa.array(["0" * 300 + "12.5", "-" + "0" * 100 + "1"]), pa.decimal128(10, 2))
    assert found.to_pylist() == [Decimal("12.5"), Decimal(-1)]
    assert not wrong.any()
