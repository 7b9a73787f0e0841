"""The steps of the examples on rows in any order, and the rows of the one chain."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import Row

from examples.eos.chain import Chain, InjectedFailureError, OneChain
from examples.eos.reference import broken_links, one_chain
from spark_jobs.demo import reference

RECORDS = list(reference.records(500))

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
