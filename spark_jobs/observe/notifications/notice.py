"""A notice, and the forms of the body in which an endpoint gets it. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from connectors.spec.notifications import EventName, Notification
from eos.bounded import shorten

_MOST_CHARS: Final = 2_500
"""Length of a text. Slack takes blocks of 3,000 characters."""
_TITLES: Final[Mapping[EventName, str]] = {
    "failure": "failed",
    "dead-letters": "has dead letters",
    "lag": "is behind",
    "schema-change": "has another schema",
}
_SLACK: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


@dataclass(frozen=True, slots=True)
class Notice:
    """One event, as an endpoint gets it. Its texts have no secrets."""

    event: EventName
    pipeline: str
    message: str
    at: float  # seconds since 1970
    remedy: str = ""
    facts: Mapping[str, object] = field(default_factory=dict)  # plain data
    repeated: int = 0  # events of this kind since the last notice, which were not sent

    @property
    def title(self) -> str:
        """One line."""
        return f"eos: {self.pipeline} {_TITLES[self.event]}"

    @property
    def text(self) -> str:
        """All lines, for people."""
        lines = [
            shorten(self.message, _MOST_CHARS),
            *([f"remedy: {shorten(self.remedy, _MOST_CHARS)}"] if self.remedy else []),
            *([f"{self.repeated} more since the last message"] if self.repeated else []),
            datetime.fromtimestamp(self.at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        ]
        return "\n".join(lines)


def body(entry: Notification, notice: Notice) -> bytes:
    """Return the JSON for an endpoint."""
    return json.dumps(_BODIES[entry.template](entry, notice), ensure_ascii=False).encode()


def _json(_entry: Notification, notice: Notice) -> Mapping[str, object]:
    return {
        "event": notice.event,
        "pipeline": notice.pipeline,
        "at": notice.at,
        "title": notice.title,
        "message": shorten(notice.message, _MOST_CHARS),
        "remedy": shorten(notice.remedy, _MOST_CHARS),
        "repeated": notice.repeated,
        "facts": dict(notice.facts),
    }


def _slack(_entry: Notification, notice: Notice) -> Mapping[str, object]:
    title, text = (each.translate(_SLACK) for each in (notice.title, notice.text))
    return {"text": title, "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": f"*{title}*\n{text}"}}]}


def _mail(entry: Notification, notice: Notice) -> Mapping[str, object]:
    sender = {"from": entry.sender} if entry.sender else {}
    return {**sender, "to": entry.to, "subject": notice.title, "text": notice.text}


_BODIES: Final[Mapping[str, Callable[[Notification, Notice], Mapping[str, object]]]] = {
    "json": _json,
    "slack": _slack,
    "mail": _mail,
}
