"""Numbers and moments as people read them, in little room."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Final

from twophase.positions import Position

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def count(value: int | None) -> str:
    """`1,203,332`, or `unknown` where a source does not count."""
    return f"{value:,}" if value is not None else "unknown"


def position(value: Position) -> str:
    """An offset as `1,203,332`, any other position as JSON."""
    return f"{value:,}" if isinstance(value, int) else json.dumps(value, ensure_ascii=False)


def counted(value: int | None, what: str) -> str:
    """`1 failure`, `2 failures`, `3 tries`, `unknown records`."""
    many = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{count(value)} {what if value == 1 else many}"


def size(value: float) -> str:
    """Bytes, as `117.5 MiB`."""
    place = 0
    while value >= 1024 and place < len(_UNITS) - 1:
        value, place = value / 1024, place + 1
    return f"{value:,.0f} {_UNITS[place]}" if place == 0 else f"{value:,.1f} {_UNITS[place]}"


def seconds(value: float | None) -> str:
    """`0.004`, `0.24`, `12.1`, `734`; empty where nothing was measured."""
    if value is None:
        return ""
    digits = 3 if value < 0.1 else 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{digits}f}"


def ago(value: float) -> str:
    """`4 s`, `12 min`, `3.5 h`, `9 days`."""
    if value < 120:
        return f"{max(value, 0):.0f} s"
    if value < 7200:
        return f"{value / 60:.0f} min"
    return f"{value / 3600:.1f} h" if value < 172_800 else f"{value / 86_400:.0f} days"


def moment(at: float) -> str:
    """`2026-11-22 09:12:44`, UTC."""
    return _utc(at).strftime("%Y-%m-%d %H:%M:%S")


def short(at: float, today: date) -> str:
    """`09:12:44`, of another day `Nov 21 09:12`, of another year `2023-11-14`; UTC."""
    when = _utc(at)
    if when.year != today.year:
        return when.strftime("%Y-%m-%d")
    return when.strftime("%H:%M:%S" if when.date() == today else "%b %d %H:%M")


def _utc(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)
