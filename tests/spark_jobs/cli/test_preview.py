"""What a record's value looks like in a table and in JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from spark_jobs.cli.preview_command import cell, plain, printable


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


def test_a_long_value_is_cut_in_a_table() -> None:
    assert len(cell("x" * 10**6).plain) == 201
    assert (cell(None).plain, cell(b"\x01").plain) == ("NULL", "0x01")
