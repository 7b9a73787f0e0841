"""What is caught and what is not, on a small project of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.mutants.mutant import Mutant
from tests.mutants.trial import BaselineError, Verdict, Workshop

SOURCE = "def double(value):\n    return value * 2\n"
TESTS = """
import pytest
from product import double

def test_of_it():
    assert double(3) == 6

def test_of_something_else():
    assert double(0) == 0

def test_that_fails():
    assert double(1) == 3

def test_that_ends_the_process():
    import os
    if double(3) != 6:
        os._exit(1)

@pytest.fixture
def six():
    assert double(3) == 6

def test_with_a_fixture_that_fails(six):
    pass
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    folder = tmp_path_factory.mktemp("project")
    (folder / "product.py").write_text(SOURCE)
    (folder / "test_product.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    made = Workshop(folder)
    yield made
    made.close()


def mutant(test: str, after: str = "* 4") -> Mutant:
    return Mutant("it is doubled twice", "R0", "product.py", "* 2", after, (f"test_product.py::{test}",))


def test_a_test_that_fails_has_caught_it_and_the_next_one_begins_with_the_source_as_it_was(copy: Workshop) -> None:
    assert copy.trial(mutant("test_of_it")).verdict is Verdict.CAUGHT
    assert (copy.folder / "product.py").read_text() == SOURCE
    copy.check({"test_product.py::test_of_it"})  # also of the compiled code: both sources have one size and one second
    assert copy.trial(mutant("test_of_it", "* 5")).verdict is Verdict.CAUGHT


def test_tests_that_pass_let_it_survive(copy: Workshop) -> None:
    assert copy.trial(mutant("test_of_something_else")).verdict is Verdict.SURVIVED


@pytest.mark.parametrize(
    ("test", "after"),
    [
        ("test_of_it", "* ("),  # the module cannot be imported
        ("test_that_is_not_there", "* 4"),
        ("test_with_a_fixture_that_fails", "* 4"),
        ("test_that_ends_the_process", "* 4"),
    ],
)
def test_what_could_not_run_has_caught_nothing(copy: Workshop, test: str, after: str) -> None:
    assert copy.trial(mutant(test, after)).verdict is Verdict.NOT_RUN


def test_tests_that_fail_without_a_mutant_show_nothing(copy: Workshop) -> None:
    with pytest.raises(BaselineError, match="test_that_fails"):
        copy.check({"test_product.py::test_of_it", "test_product.py::test_that_fails"})


def test_a_mutant_changes_one_place() -> None:
    assert mutant("test_of_it").line(SOURCE) == 2
    with pytest.raises(ValueError, match="2 times, not once"):
        mutant("test_of_it").applied(SOURCE + SOURCE)
