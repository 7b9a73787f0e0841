"""Many bad records: what becomes of each is what halving would say, in a small part of its time."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from connectors.api.decoding import Format
from connectors.formats.ddl import parse_ddl
from connectors.formats.json_judge import Judge
from connectors.formats.json_values import JsonFormat, _parse
from connectors.formats.plain import StringFormat
from tests.connectors.formats.test_json import AT_COMMA, BEHIND_COMMA, SCHEMA, values
from tests.halving import halved, rows_of
from tests.mixed_records import DDL, MIXTURES, mixed
from tests.searches import examples

_FORMAT: Final = JsonFormat(parse_ddl(DDL))
_GOLDEN: Final = json.loads((Path(__file__).parents[2] / "golden" / "mixed_records.json").read_text())


def _column(records: list[bytes | None]) -> pa.Array:
    return pa.array(records, pa.binary())


@pytest.mark.parametrize("golden", _GOLDEN, ids=lambda golden: str(golden["mixture"]))
def test_rows_and_reasons_are_those_of_the_version_that_halved(golden: dict[str, Any]) -> None:
    column = _column(mixed(*golden["mixture"]))
    decoded = _FORMAT.decode(column)
    found = [[each.index, each.reason.replace(AT_COMMA, BEHIND_COMMA)] for each in decoded.bad]
    assert found == golden["bad"]
    assert decoded.rows.num_rows == golden["rows"]
    assert hashlib.sha256(repr(decoded.rows.to_pylist()).encode()).hexdigest() == golden["digest"]
    assert [[each.index, each.reason] for each in StringFormat().decode(column).bad] == golden["not_utf8"]


def test_the_kept_outcomes_are_of_many_kinds() -> None:
    assert [tuple(golden["mixture"]) for golden in _GOLDEN] == list(MIXTURES)
    assert sum(golden["rows"] for golden in _GOLDEN) == 3_886
    assert sum(len(golden["bad"]) for golden in _GOLDEN) == 634
    assert len({reason for golden in _GOLDEN for _, reason in golden["bad"]}) == 118


def _assert_as_halved(records: list[bytes | None], schema: pa.Schema) -> None:
    column = _column(records)
    decoded = JsonFormat(schema).decode(column)
    found = (rows_of(decoded.rows), [(each.index, each.reason) for each in decoded.bad])
    assert repr(found) == repr(halved(column, schema))  # NaN is in no row, and -0.0 is another text than 0.0


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 60), st.sampled_from([0.02, 0.2, 0.5, 1.0]))
def test_random_mixtures_are_decoded_as_by_halving(seed: int, size: int, share: float) -> None:
    _assert_as_halved(mixed(seed, size, share), _FORMAT.schema)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(values, max_size=6))
@example([b'{"m":"1e9999999999999999999"}', b'{"m":1e-99999999999999999999}', b'{"m":"0e99"}', b'{"m":0e5}'])
@example([b'{"x":%s}' % (b"9" * 309), b'{"zz":%s}' % (b"9" * 309), b'{"i":%s}' % (b"9" * 5000)])
@example([b'{"ts":"2024-01-01T00:00+24:00"}', b'{"ts":"2024-01-01T00:00+0060"}', b'{"ts":"2024-01-01T00-01"}'])
@example(
    [b'{"ts":"2024-01-01T00:00+99:00","n":"x"}', b'{"ts":"2024-01-01T00:00+01:00","n":"x"}', b'{"m":"0e99","i":"x"}']
)
@example([b'{"f":3.4028235e38}', b'{"f":3.4028236e38}', b'{"f":340282356779733661637539395458142568448}'])
@example(
    [b'{"zz":9e308}', b'{"zz":[10e308]}', b'{"zz":-1.5e309}', b'{"zz":1e321}', b'{"zz":0.5e309,"i":1}', b'{"i":"x"}']
)
@example(
    [b'{"f":9e308}', b'{"x":-9e308}', b'{"m":9e308,"i":"x"}', b'{"i":9e308}', b'{"s":9e308}', b'{"o":{"i":9e308}}']
)
@example([b'{"x":9e308,"zz":1e309}', b'{"x":1e309}', b'{"x":7,"f":-1e309}', b'{"zz":1e309,"s":7}', b'{"l":[9e308]}'])
@example([b'{"zz":"\\udc00","i":"x"}', b'{"zz":"\\uD800","i":"x"}', b'{"zz":"\\\\ud800","i":"x"}'])
@example([b'{"zz":Inf}', b'{"zz":-Inf,}', b'{"zz":NaN,"i":"x"}', b'{"s":"Inf"'])
@example([b'{"o":null}', b'{"o":{}}', b'{"o":{"i":null}}', b'{"o":{"i":1,"i":1}}', b'{"o":[]}'])
def test_any_values_are_decoded_as_by_halving(records: list[bytes | None]) -> None:
    _assert_as_halved(records, SCHEMA)


@settings(max_examples=examples(300), deadline=None)
@given(values)
def test_the_judge_calls_nothing_bad_that_the_parser_takes(record: bytes | None) -> None:
    try:
        text = record.decode() if record is not None else None
    except UnicodeDecodeError:
        return
    if text is not None and Judge(SCHEMA).fault(text) is not None:
        with pytest.raises(ValueError, match=r"."):
            _parse(_column([record]), SCHEMA)


def test_the_judge_leaves_little_to_the_parser() -> None:
    """What it leaves is found by halving, each in milliseconds. It would be all of a topic where a kind is missing."""
    judge = Judge(_FORMAT.schema)
    found = []
    for seed in range(20):
        records = mixed(seed, 200, 1.0)
        bad = {each.index for each in _FORMAT.decode(_column(records)).bad}
        found += [each for at, each in enumerate(records) if at in bad and each is not None]
    left = [each for each in found if (text := each.decode(errors="replace")).isprintable() and not judge.fault(text)]
    assert len(found) > 3_000
    assert len(left) < 0.01 * len(found), left[:20]


_RECORDS: Final = 20_000
"""As many as a batch has."""

_MOST_RATIO: Final = 20.0
_TRIES: Final = 10

_SMALL: Final = JsonFormat(parse_ddl("id BIGINT, user STRING, amount DOUBLE, ts TIMESTAMP"))


def _good(number: int) -> bytes:
    return b'{"id": %d, "user": "user %d", "amount": 7.25, "ts": "2026-01-31T12:00:00Z"}' % (number, number)


_BAD: Final[dict[str, Callable[[int], bytes]]] = {
    "no JSON": lambda number: b'{"id": "seven %d' % number,
    "text": lambda number: b"hello %d" % number,
    "another type": lambda number: b'{"id": "%d", "user": "u", "ts": "2026-01-31T12:00:00Z"}' % number,
    "another type in a struct": lambda number: b'{"id": %d, "user": {"name": "u"}}' % number,
    "out of range": lambda number: b'{"id": %d99999999999999999999, "user": "u"}' % (number + 1),
    "no time": lambda number: b'{"id": %d, "ts": "yesterday %d"}' % (number, number),
    "no UTF-8": lambda number: b'{"id": %d, "user": "\xff"}' % number,
    "given twice": lambda number: b'{"id": 1, "id": %d}' % number,
    "no bytes": lambda number: b"",
    "too large": lambda number: b'{"id": %d, "amount": 9e308}' % number,
}


def _seconds(decoder: Format, records: list[bytes], bad: int) -> float:
    column = _column(list(records))
    start_s = time.process_time()
    decoded = decoder.decode(column)
    took_s = time.process_time() - start_s
    assert (decoded.rows.num_rows, len(decoded.bad)) == (len(records) - bad, bad)
    return took_s


@pytest.mark.parametrize("kind", _BAD)
def test_bad_records_cost_at_most_twenty_times_as_much_as_good_ones(kind: str) -> None:
    """In time of the processor, at any share of bad ones. By halving it was 50 to 800 times as much."""
    good = [_good(number) for number in range(_RECORDS)]
    for step in (1000, 50, 2, 1):
        records = [_BAD[kind](at) if at % step == 0 else each for at, each in enumerate(good)]
        ratios: list[float] = []
        while len(ratios) < _TRIES and min(ratios, default=_MOST_RATIO) >= _MOST_RATIO:  # others use the machine, too
            ratios.append(_seconds(_SMALL, records, _RECORDS // step) / _seconds(_SMALL, good, 0))
        assert min(ratios) < _MOST_RATIO, f"1 of {step}: {ratios} times"
