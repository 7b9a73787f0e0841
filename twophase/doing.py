"""The action that a driver performs at this moment, for people who watch it. No decision depends on it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Final

from twophase.messages import Action

ADMIT: Final = "Admit"
"""Not an action of the protocol: the wait for sinks that are too far behind (`Limit`)."""


@dataclass(frozen=True, slots=True)
class Doing:
    """One action, from its begin to its end."""

    name: str
    sinks: tuple[str, ...] = ()  # empty: none, or every sink
    since: float = field(default_factory=time.time)  # seconds since 1970

    @classmethod
    def of(cls, name: str, action: Action[Any]) -> Doing:
        """Describe an action that begins now."""
        sinks = getattr(action, "committables", None) or getattr(action, "sinks", None) or ()
        return cls(name, tuple(sinks))
