"""Texts of which a server would store a part only are found, each of them, and no others."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.formats.json_loss import check_names, check_names_and_doubles, check_no_nul

NAMES = st.sampled_from(
    [
        *("", "a", "b", ":", '"', "\\", "ü", "billing_address", "shipping_address", "\0"),
        *("a name of many letters 1", "a name of many letters 2", "a NAME of many letters 1", '":"', "a\n"),
    ]
)
SPACE = st.sampled_from(["", "", "", " ", "\n\t"])


@st.composite
def objects(draw: st.DrawFn, values: st.SearchStrategy[str]) -> str:
    """An object whose names may be equal, each written with or without escapes."""
    pairs = []
    for name in draw(st.lists(NAMES, max_size=4)):
        plain = json.dumps(name, ensure_ascii=draw(st.booleans()))
        written = plain.replace("a", "\\u0061") if draw(st.booleans()) else plain
        pairs.append(f"{draw(SPACE)}{written}{draw(SPACE)}:{draw(SPACE)}{draw(values)}")
    return "{" + ",".join(pairs) + draw(SPACE) + "}"


LEAVES = st.sampled_from(["1", "null", '"a"', '":"', '"\\""', '"x\\":1"', "-1.5e3", "9" * 5000, "[]"])
TEXTS = st.recursive(
    LEAVES,
    lambda inner: objects(inner) | st.lists(inner, max_size=3).map(lambda each: f"[{','.join(each)}]"),
    max_leaves=12,
)


def repeats(text: str) -> bool:
    """Whether Python finds two equal names in one object."""
    found = []

    def look(pairs: Sequence[tuple[str, object]]) -> None:
        found.append(len(dict(pairs)) < len(pairs))

    json.loads(text, object_pairs_hook=look, parse_int=str)
    return any(found)


def passes(check: Callable[[pa.Array], None], texts: pa.Array) -> bool:
    try:
        check(texts)
    except pa.ArrowInvalid:
        return False
    return True


@given(texts=st.lists(st.none() | TEXTS, max_size=6))
def test_every_object_with_equal_names_is_found_and_no_other(texts: list[str | None]) -> None:
    column = pa.array(texts, pa.string())
    expected = [text is None or not repeats(text) for text in texts]
    assert [passes(check_names, column.slice(at, 1)) for at in range(len(texts))] == expected
    assert passes(check_names, column) == all(expected)
    assert passes(check_names, column.slice(1)) == all(expected[1:])


@pytest.mark.parametrize("length", range(20))
def test_equal_names_of_any_length_are_found_without_a_space_or_an_escape(length: int) -> None:
    name = "abcdefghijklmnopqrst"[:length]
    for text in (f'{{"{name}":1,"{name}":22}}', f'[[],{{"x":{{"{name}":[],"y":0,"{name}":{{}}}}}}]'):
        for column in (pa.array([text]), pa.array(['{"a":1}', None, "", text, '{"b":1}'])):
            assert not passes(check_names, column)
    for at in range(length):
        other = f"{name[:at]}-{name[at + 1 :]}"
        assert passes(check_names, pa.array([f'{{"{name}":1,"{other}":22,"{name[:at]}":3}}', f'{{"{name}":1}}']))


def test_one_text_among_many_is_found() -> None:
    texts = [f'{{"id":{n},"billing_address":"x","shipping_address":{{"id":1}}}}' for n in range(5000)]
    check_names(pa.array(texts))
    texts[4321] = '{"id":1,"billing_address":"x","billing_address":"y"}'
    with pytest.raises(pa.ArrowInvalid, match="an object names 'billing_address' twice"):
        check_names(pa.array(texts))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a" : 1, }', "not JSON"),
        ('{"a" : NaN}', "not JSON: NaN is not a JSON number"),
        ('{"a" :' * 100_000 + "1" + "}" * 100_000, "nested too deeply"),
    ],
)
def test_a_suspect_that_cannot_be_read_is_refused(text: str, said: str) -> None:
    with pytest.raises(pa.ArrowInvalid, match=said):
        check_names(pa.array([text]))


def test_a_suspect_that_is_not_utf_8_is_refused() -> None:
    column = pa.array([b"{}", b'{"a" : "\xff"}'], pa.binary()).view(pa.string())
    with pytest.raises(pa.ArrowInvalid, match="not JSON: 'utf-8' codec"):
        check_names(column)


KEPT = ["0.1", "1.5e300", "-0.30000000000000004", "1e22", "18446744073709551615", "-9223372036854775808", "1.50", "-0"]
LOST = [
    "0.12345678901234567",
    "18446744073709551616",
    "-9223372036854775809",
    "1.2345678901234567e10",
    "1e999",
    "1e-999",
]


@given(
    numbers=st.lists(st.sampled_from(KEPT) | st.floats(allow_nan=False, allow_infinity=False).map(repr), max_size=5),
    lost=st.none() | st.sampled_from(LOST),
)
def test_a_number_that_is_no_double_is_found(numbers: list[str], lost: str | None) -> None:
    kept = pa.array([f"[{number}]" for number in [*numbers, "1"]])
    assert passes(check_names_and_doubles, kept)
    if lost is not None:
        assert not passes(check_names_and_doubles, pa.array([f"[{number}]" for number in [*numbers, lost]]))
        assert passes(check_names_and_doubles, pa.array([f'["{lost}"]', None]))


@pytest.mark.parametrize(
    ("text", "taken"),
    [(r"[]", True), (r'["\u0000"]', False), (r'["\\u0000"]', True), (r'["\\\u0000x"]', False), (r'["\u00001"]', False)],
)
def test_a_nul_is_found_where_its_escape_is_one(text: str, taken: bool) -> None:
    assert passes(check_no_nul, pa.array([text, None])) == taken
