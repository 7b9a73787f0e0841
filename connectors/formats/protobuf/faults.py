"""Reasons why messages are bad, by their numbers among the messages of one type."""

from __future__ import annotations

import numpy as np

from connectors.formats.spans import Flags, Ints


class Faults:
    """The first reason of each bad message. A bad message has any values, and is left out in the end."""

    def __init__(self) -> None:
        self.reasons: dict[int, str] = {}

    def add(self, rows: Ints, reason: str) -> None:
        """Add messages. A message that is bad already keeps its first reason."""
        for row in rows.tolist():
            self.reasons.setdefault(row, reason)

    def check(self, rows: Ints, wrong: Flags, reason: str) -> None:
        """Add the messages of `rows` whose flag is set."""
        if wrong.any():
            self.add(rows[wrong], reason)

    def lift(self, inner: Faults, rows: Ints) -> None:
        """Add the messages whose parts are bad. `rows`: the message of each part."""
        for at, reason in inner.reasons.items():
            self.reasons.setdefault(int(rows[at]), reason)


def nothing(count: int) -> Flags:
    """Return flags of which none is set."""
    return np.zeros(count, np.bool_)
