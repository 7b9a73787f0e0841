"""Text of anybody's does nothing to a terminal, also where it is printed for programs."""

from __future__ import annotations

import json
import sys
import unicodedata

import pytest

from connectors import dead_letters
from spark_jobs.cli.output import out
from spark_jobs.observe.log_lines import printable

_HOSTILE = ["\x1b[2J", "\x9b31m", "\x85", "\r", "\x00", "\x7f", "\u202e", "\u2066", "\u2028", "\ud800"]
_CATEGORIES = {"Cc", "Cs", "Zl", "Zp"}
_DIRECTIONS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def test_each_control_character_is_escaped_in_a_dead_letter_and_in_a_line() -> None:
    """By Unicode's own data: control characters, surrogates, ends of lines, and what turns text around."""
    for each in map(chr, range(sys.maxunicode + 1)):
        hostile = unicodedata.category(each) in _CATEGORIES or unicodedata.bidirectional(each) in _DIRECTIONS
        escape = each.encode("ascii", "backslashreplace").decode() if ord(each) >= 0x80 else f"\\x{ord(each):02x}"
        expected = escape if hostile else each
        assert dead_letters.printable(each) == expected
        assert printable(each) == (each if each in "\t\n" else expected)


@pytest.mark.parametrize("hostile", _HOSTILE)
def test_a_line_shows_it_as_its_escape(hostile: str) -> None:
    shown = printable(f"ünï 中\t😀\n{hostile}")
    assert shown.startswith("ünï 中\t😀\n\\")
    assert shown.splitlines()[1].isprintable()
    assert shown.encode()


@pytest.mark.parametrize("hostile", _HOSTILE)
def test_json_shows_it_as_its_escape_and_means_the_same(hostile: str, capsys: pytest.CaptureFixture[str]) -> None:
    facts = {"error": f"ünï 中 😀 {hostile}", f"key {hostile}": 1}
    out.facts(facts)
    shown = capsys.readouterr().out
    assert json.loads(shown) == facts
    assert "ünï 中 😀" in shown
    assert all(line.isprintable() for line in shown.split("\n"))
