"""The example job's reference and verdict, and its step on rows in any order."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable

import pytest
from pyspark.sql import Row

from examples.eos.chain import Chain, InjectedFailureError, OneChain
from examples.eos.reference import broken_links, one_chain
from spark_jobs.demo import reference
from spark_jobs.demo.verdict import Verdict, judge

RECORDS = list(reference.records(500))


def _rows(count: int = len(RECORDS)) -> list[str]:
    """Of a run without failures, each once, in the order of the topic."""
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


_ONE_CHAIN = ["pre:;current:A:::map", "pre:a;current:FOX:::map", "pre:fox;current:B:::map", "pre:b;current:C:::map"]


def test_one_chain_to_the_letter() -> None:
    assert one_chain(["a", "fox", "b", "c"]) == _ONE_CHAIN
    assert broken_links(_ONE_CHAIN) == []
    assert broken_links([]) == []


@pytest.mark.parametrize(
    ("order", "fault"),
    [
        ([1, 2, 3], "row 1 follows '', but has the predecessor 'a'"),
        ([0, 1, 3], "row 3 follows 'FOX', but has the predecessor 'b'"),
        ([0, 1, 1, 2, 3], "row 3 follows 'FOX', but has the predecessor 'a'"),
        ([0, 2, 1, 3], "row 2 follows 'A', but has the predecessor 'fox'"),
    ],
)
def test_a_lost_or_repeated_row_breaks_the_one_chain(order: list[int], fault: str) -> None:
    assert fault in broken_links([_ONE_CHAIN[each] for each in order])


def test_a_row_of_another_job_breaks_the_one_chain() -> None:
    assert broken_links(["a"]) == ["row 1 is not a row of this job: 'a'"]


class _Handle:
    """Spark's handle, as far as the step uses it: the state of one word."""

    def __init__(self) -> None:
        self.value: tuple[str] | None = None

    def getValueState(self, _name: str, _schema: str) -> _Handle:  # noqa: N802 Spark's name
        return self

    def get(self) -> tuple[str] | None:
        return self.value

    def update(self, value: tuple[str]) -> None:
        self.value = value


def _chain(failure_probability: float) -> Chain:
    chain = Chain(failure_probability)
    chain.init(_Handle())  # type: ignore[arg-type]
    return chain


def _input(word: str) -> list[Row]:
    values = [value for key, value in RECORDS if key == word]
    return [Row(word=word, value=value, split=0, position=number) for number, value in enumerate(values)]


def test_the_step_puts_rows_of_a_checkpoint_into_the_order_of_the_topic() -> None:
    chain, rows = _chain(0.0), _input("fox")
    half = len(rows) // 2
    parts = [random.Random(2).sample(part, len(part)) for part in (rows[:half], rows[half:])]
    links = [row.link for part in parts for row in chain.handleInputRows(("fox",), iter(part), None)]
    assert [f"{link}:::map" for link in links] == list(reference.expected_rows([("fox", row.value) for row in rows]))


def test_a_record_with_an_x_makes_the_task_fail_and_no_other_does() -> None:
    with pytest.raises(InjectedFailureError, match="fox-0 contains an x"):
        list(_chain(1.0).handleInputRows(("fox",), iter(_input("fox")), None))
    assert list(_chain(1.0).handleInputRows(("river",), iter(_input("river")), None))


def test_one_chain_begins_empty_and_fails_by_a_division() -> None:
    chain = OneChain(0.0)
    chain.init(_Handle())  # type: ignore[arg-type]
    values = [row.value for row in _input("fox")]
    links = [row.link for row in chain.handleInputRows(("all",), iter(_input("fox")), None)]
    assert [f"{link}:::map" for link in links] == one_chain(values)
    failing = OneChain(1.0)
    failing.init(_Handle())  # type: ignore[arg-type]
    with pytest.raises(ZeroDivisionError):
        list(failing.handleInputRows(("all",), iter(_input("fox")), None))
    assert list(failing.handleInputRows(("all",), iter(_input("river")), None))
