"""Text from outside, as a terminal can show it: errors quote records, and records may hold control characters."""

from __future__ import annotations

from typing import Final

from connectors.control_characters import escapes

_ESCAPES: Final = escapes(keep="\t\n")
_JSON_ESCAPES: Final = {code: f"\\u{code:04x}" for code in escapes() if code >= 0x7F}  # JSON has escaped the others


def printable(text: str) -> str:
    r"""Return the text with each control character but tab and line feed as its escape, such as \x1b."""
    return text.translate(_ESCAPES)


def printable_json(text: str) -> str:
    r"""Return the same JSON with each control character of its texts as its escape, such as \u009b."""
    return text.translate(_JSON_ESCAPES)
