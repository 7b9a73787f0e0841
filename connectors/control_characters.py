"""Characters that records may hold, and that errors, logs and terminals show as escapes. Imports nothing heavy."""

from __future__ import annotations

from typing import Final

RANGES: Final = ((0x00, 0x1F), (0x7F, 0x9F), (0x2028, 0x202E), (0x2066, 0x2069), (0xD800, 0xDFFF))
"""First and last code points: controls, line ends, direction marks, and surrogates, which UTF-8 cannot encode."""


def escapes(*, keep: str = "") -> dict[int, str]:
    r"""Return a table for `str.translate`: each character but those of `keep` to its escape, such as \x1b or \u202e."""
    codes = (code for first, last in RANGES for code in range(first, last + 1) if chr(code) not in keep)
    return {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in codes}
