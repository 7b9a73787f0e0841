"""Text of anybody's for a terminal: a record's content stands in error messages, and may hold what moves a cursor."""

from __future__ import annotations

import re
from typing import Final

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tab and line feed


def printable(text: str) -> str:
    r"""The text with each control character as its escape, such as \x1b."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
