"""Values of records, which come from anywhere, as a terminal and as JSON can hold them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Final

from rich.text import Text

from spark_jobs.cli.output import out

_SHOWN: Final = 200  # characters of a value in a table


def cell(value: object) -> Text:
    """A value in a table: cut, and without secrets."""
    if value is None:
        return Text("NULL", style="dim")
    text = printable(value if isinstance(value, str) else str(plain(value)))
    return out.text(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def printable(text: str) -> str:
    """What would move the cursor, colour the terminal or turn the line around is shown as an escape."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def plain(value: object) -> object:
    """As JSON can hold it: bytes in hex, decimals, moments and numbers that JSON has not as text."""
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return str(value)
    if isinstance(value, (Decimal, datetime, date, time, timedelta)):
        return str(value)
    return value
