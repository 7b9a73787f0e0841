"""What a record's value looks like in a table and in JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from spark_jobs.cli.preview_command import cell, plain, printable, show


@pytest.mark.parametrize(
    "hostile", ["\x1b[2J", "\x9b31m", "\r", "\n", "\b" * 3, "\x00", "\u202e", "\u2028", "\ud800", "\x7f"]
)
def test_a_value_does_nothing_to_a_terminal(hostile: str) -> None:
    shown = printable(f"a{hostile}b")
    assert shown.isprintable()
    assert shown.startswith("a\\")
    assert shown.encode()


def test_ordinary_text_stays_as_it_is() -> None:
    assert printable("ünï 中 😀 [bold] it's \\ \"") == "ünï 中 😀 [bold] it's \\ \""


def test_values_are_json() -> None:
    row = {
        "b": b"\xff\x00",
        "d": Decimal("1.10"),
        "t": datetime(2024, 1, 1, tzinfo=UTC),
        "n": [float("nan"), float("-inf"), 1.5, None, True],
        "s": {"k": (b"", "x")},
    }
    assert json.loads(json.dumps(plain(row), allow_nan=False)) == {
        "b": "0xff00",
        "d": "1.10",
        "t": "2024-01-01 00:00:00+00:00",
        "n": ["nan", "-inf", 1.5, None, True],
        "s": {"k": ["0x", "x"]},
    }


def _shown(rows: list[dict[str, object]], capsys: pytest.CaptureFixture[str]) -> str:
    show([(name, "string") for name in rows[0]], rows)
    return capsys.readouterr().out


def test_rows_that_fit_are_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    shown = _shown([{"id": "1", "name": "x" * 100}, {"id": "2", "name": None}], capsys)
    assert "row 1" not in shown
    assert any("id" in line and "name" in line for line in shown.splitlines())


def test_wide_rows_are_shown_with_one_field_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"column_{letter}" for letter in "abcdefghijkl"]
    shown = _shown([dict.fromkeys(names, "a value"), dict.fromkeys(names, None)], capsys)
    lines = shown.splitlines()
    assert [line.strip() for line in lines if line.startswith("row ")] == ["row 1", "row 2"]
    for name in names:
        assert len([line for line in lines if name in line]) == 2
    assert all(sum(name in line for name in names) <= 1 for line in lines)
    assert "a value" in shown
    assert "NULL" in shown


def test_a_long_value_is_cut_in_a_table() -> None:
    assert len(cell("x" * 10**6).plain) == 201
    assert (cell(None).plain, cell(b"\x01").plain) == ("NULL", "0x01")
