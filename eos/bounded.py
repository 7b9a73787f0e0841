"""Texts of a bounded length: an error may quote a record, and a record may be a megabyte of anything."""

from __future__ import annotations

from typing import Final

CUT: Final = "…"
"""Stands where the rest of a text is left out."""

MOST_CHARS: Final = 16_000
"""Characters of a message. Longer than any message about the columns of a wide table, and read in a moment."""


def shorten(text: str, most_chars: int = MOST_CHARS) -> str:
    """Return the text itself, or its first `most_chars` characters and `CUT`."""
    return text if len(text) <= most_chars else text[:most_chars] + CUT


def shorten_middle(text: str, most_chars: int) -> str:
    """Return the text itself, or as many characters of its beginning and its end: a stack trace says most there."""
    if len(text) <= most_chars:
        return text
    half = most_chars // 2
    return f"{text[:half]}{CUT} ({len(text) - 2 * half} characters are left out) {CUT}{text[-half:]}"
