"""A naive reader of the text format that LOAD DATA and COPY share, after their manuals."""

from __future__ import annotations

from collections.abc import Mapping


def read_text(data: bytes, escapes: Mapping[str, str]) -> list[list[str | None]]:
    """Return the rows of fields. `escapes`: what a letter after a backslash stands for; any other is itself."""
    rows: list[list[str | None]] = []
    fields: list[str | None] = []
    current, null, characters = "", False, iter(data.decode())
    for character in characters:
        if character == "\\":
            after = next(characters)
            null = null or (after == "N" and current == "")
            current += "" if null else escapes.get(after, after)
        elif character in "\t\n":
            fields.append(None if null else current)
            current, null = "", False
            if character == "\n":
                rows.append(fields)
                fields = []
        else:
            current += character
    assert (current, fields) == ("", [])
    return rows
