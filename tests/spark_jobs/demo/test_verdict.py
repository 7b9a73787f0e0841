"""The count at the end of the demo: records, expected rows, and the verdict."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable

import pytest

from spark_jobs.demo import reference
from spark_jobs.demo.verdict import Verdict, judge

RECORDS = list(reference.records(500))


def _rows(count: int = len(RECORDS)) -> list[str]:
    """Return the rows of a run without failures, each once, in the order of the topic."""
    return list(reference.expected_rows(RECORDS[:count]))


def _judge(rows: Iterable[str], prepared: tuple[str, ...] = ()) -> Verdict:
    return judge(RECORDS, Counter(rows), 1, prepared)


def test_the_reference_to_the_letter() -> None:
    produced = [("fox", "fox-0"), ("box", "box-0"), ("fox", "fox-1"), ("fox", "fox-2")]
    assert reference.expected_rows(produced) == Counter(
        {
            "pre:null;current:FOX-0:::map": 1,
            "pre:null;current:BOX-0:::map": 1,
            "pre:fox-0;current:FOX-1:::map": 1,
            "pre:fox-1;current:FOX-2:::map": 1,
        }
    )


def test_numbers_grow_for_each_word_and_some_words_have_an_x() -> None:
    for word in reference.WORDS:
        values = [value for key, value in RECORDS if key == word]
        assert values == [f"{word}-{number}" for number in range(len(values))]
    assert 50 < sum("x" in value for _, value in RECORDS) < 150


def test_a_table_that_is_right_in_any_order() -> None:
    verdict = _judge(random.Random(1).sample(_rows(), len(RECORDS)))
    assert verdict.clean
    assert "exactly once" in verdict.words(kills=2)
    assert verdict.json() == (
        '{"produced": 500, "in_sink": 500, "lost": 0, "duplicated": 0, "unexpected": 0, "restarts": 1}'
    )


def test_a_lost_row() -> None:
    verdict = _judge(_rows()[:250] + _rows()[251:])
    assert (verdict.lost, verdict.duplicated, verdict.unexpected, verdict.clean) == (1, 0, 0, False)
    assert "NOT exactly once" in verdict.words(kills=2)


def test_a_duplicated_row() -> None:
    verdict = _judge([*_rows(), _rows()[7]])
    assert (verdict.lost, verdict.duplicated, verdict.unexpected, verdict.clean) == (0, 1, 0, False)


def test_a_row_whose_predecessor_is_another() -> None:
    right = "pre:fox-0;current:FOX-1:::map"
    verdict = _judge(["pre:null;current:FOX-1:::map" if row == right else row for row in _rows()])
    assert (verdict.lost, verdict.duplicated, verdict.unexpected, verdict.clean) == (1, 0, 1, False)
    assert "fox: 0 is followed by 1 after 'null'" in verdict.complaints


def test_a_transaction_that_is_left_prepared() -> None:
    assert not _judge(_rows(), prepared=("X'00'",)).clean


def test_nothing_produced_is_no_success() -> None:
    assert not judge([], Counter(), 0, ()).clean


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        (["pre:fox-0;current:FOX-1:::map"], "fox: begins with 1 after 'fox-0'"),
        (["pre:box-9;current:FOX-0:::map"], "fox: begins with 0 after 'box-9'"),
        (["pre:null;current:FOX-0:::map", "pre:fox-1;current:FOX-2:::map"], "fox: 0 is followed by 2 after 'fox-1'"),
        (["pre:null;current:FOX-0"], "not a row of this job: 'pre:null;current:FOX-0'"),
    ],
)
def test_a_broken_chain_is_seen_without_knowing_what_was_produced(rows: list[str], complaint: str) -> None:
    assert reference.broken_chains(rows) == [complaint]
