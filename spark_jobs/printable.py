"""Text of anybody's for a terminal: a record's content stands in error messages, and may hold what moves a cursor, or
turns a line around."""

from __future__ import annotations

import re
from typing import Final

_BEYOND: Final = r"\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_CONTROL: Final = re.compile(rf"[\x00-\x08\x0b-\x1f{_BEYOND}]")  # all but tab and line feed
_NOT_IN_JSON: Final = re.compile(f"[{_BEYOND}]")  # JSON has escaped the others


def printable(text: str) -> str:
    r"""The text with each control character as its escape, such as \x1b."""
    return _CONTROL.sub(lambda found: _escape(ord(found[0])), text)


def printable_json(text: str) -> str:
    r"""JSON with each control character of its texts as its escape, such as \u009b: the same JSON."""
    return _NOT_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
