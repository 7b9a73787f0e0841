"""Numbers and moments as people read them, in little room."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Final

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def count(value: int) -> str:
    """`1,203,332`."""
    return f"{value:,}"


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
    return (
        f"{value:.3f}"
        if value < 0.1
        else f"{value:.2f}"
        if value < 10
        else f"{value:.1f}"
        if value < 100
        else f"{value:.0f}"
    )


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


def day(at: float, today: date) -> str:
    """`09:12:44`, and the date where it is another one."""
    return moment(at)[11:] if _utc(at).date() == today else moment(at)


def _utc(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)
