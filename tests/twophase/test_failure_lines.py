"""Failures in a row: the first with its remedy, each other in one line that counts."""

from __future__ import annotations

from eos.errors import PrepareError, SinkUnavailableError
from twophase.failure_lines import FailureLines


def _away(number: int = 7, details: str = "") -> SinkUnavailableError:
    return SinkUnavailableError(f"checkpoint {number}: the server is away{details}", remedy="see that it runs")


def test_the_remedy_is_with_the_first_and_not_repeated() -> None:
    lines = FailureLines()
    assert lines.line(_away(7)) == ("checkpoint 7: the server is away; remedy: see that it runs (EOS-SINK-UNAVAILABLE)")
    assert lines.line(_away(7)) == "checkpoint 7: the server is away (failure 2 in a row)"
    assert lines.line(_away(8)) == "checkpoint 8: the server is away (failure 3 in a row)"


def test_another_failure_is_told_whole() -> None:
    lines = FailureLines()
    lines.line(_away())
    assert lines.line(PrepareError("a task failed", remedy="read it")) == "a task failed; remedy: read it (EOS-PREPARE)"
    assert "remedy: see that it runs" in lines.line(_away())


def test_a_checkpoint_in_between_ends_the_row() -> None:
    lines = FailureLines()
    lines.line(_away(), 3)
    assert "in a row" in lines.line(_away(), 3)
    assert "remedy: see that it runs" in lines.line(_away(), 4)


def test_a_repeated_failure_is_one_line_of_bounded_length() -> None:
    lines = FailureLines()
    long = "!" * 200
    assert lines.line(_away(7, f"{long}\nsecond line")).count("\n") == 1
    repeated = lines.line(_away(7, f"{long}\nsecond line"))
    assert "\n" not in repeated
    assert len(repeated) < 150


def test_an_error_of_another_library_has_no_remedy() -> None:
    assert FailureLines().line(ValueError("odd")) == "odd"
