"""The section `notifications`: HTTP endpoints that get failures, dead letters, lag and schema changes."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, PlainValidator, model_validator

from connectors.api.fields import AtLeastOne, Duration, NonEmpty, Printable, StepName, as_written
from connectors.api.masking import MASK
from connectors.api.model import Strict, shown, wrong

EventName = Literal["failure", "dead-letters", "lag", "schema-change"]

_ALL: Final[tuple[EventName, ...]] = ("failure", "dead-letters", "lag", "schema-change")
_EXAMPLE: Final = "https://hooks.example.com/…"
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


class Webhook:
    """A URL of which each part after the host is a secret. Immutable, picklable."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The whole URL. Only the request needs it."""
        return self._text

    def __str__(self) -> str:
        parts = urlsplit(self._text)
        return f"{parts.scheme}://{parts.hostname}/{MASK}"

    def __repr__(self) -> str:
        return f"Webhook({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Webhook) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


def _webhook(value: object) -> Webhook:
    if isinstance(value, Webhook):
        return value
    if not isinstance(value, str):
        raise wrong(f"{shown(value)} is not a URL", _EXAMPLE)
    if not value.isprintable() or " " in value:
        raise wrong("the URL has a blank, or a character that cannot be printed", _EXAMPLE)
    try:
        parts = urlsplit(value)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise wrong("the URL has no valid host and port", _EXAMPLE) from None
    if parts.scheme not in {"https", "http"} or not host:
        raise wrong("the URL is not one of a web server", _EXAMPLE)
    if parts.username is not None or parts.password is not None:
        raise wrong("the URL has a user name or password", "headers: {Authorization: …}")
    return Webhook(value)


def _headers(value: dict[str, str]) -> dict[str, str]:
    for name, text in value.items():
        if not _HEADER.fullmatch(name) or not text.isprintable():
            raise wrong(f"'{name}' cannot be a header", "a name of HTTP, and a printable text", at=name)
        if name.lower() in {"content-length", "content-type", "host", "transfer-encoding"}:
            raise wrong(f"the header '{name}' is set by eos", at=name)
    return value


def secrets_of(path: tuple[Any, ...], key: str, value: str) -> set[str]:
    """Return the secrets in a value of a notification as it is written: the URL and its path, and each header."""
    if path[:1] != ("notifications",):
        return set()
    if path[-1] == "headers":
        return {value}
    if key != "url":
        return set()
    _, _, rest = value.partition("://")
    _, slash, tail = rest.partition("/")
    return {value, slash + tail} if tail else {value}


class Notification(Strict):
    """One endpoint, and the events that it gets."""

    name: StepName
    """Its name in the log; unique."""
    url: Annotated[Webhook, PlainValidator(_webhook, json_schema_input_type=str)]
    """Where each event is sent by POST. A secret: best as `${env:NAME}`. Redirects are not followed."""
    template: Literal["json", "slack", "mail"] = "json"
    """Form of the body. `json`: the event. `slack`: a message of Slack. `mail`: a message for a mail gateway."""
    events: Annotated[list[EventName], Field(min_length=1)] = Field(default_factory=lambda: [*_ALL])
    """Which events are sent; `lag` only with `lag_above`."""
    lag_above: AtLeastOne | None = None
    """Event `lag`: so many records that can be read and are not processed, over all sources."""
    lag_for_s: Duration = Field(300.0, alias="lag_for")
    """How long the lag must be above `lag_above`."""
    repeat_after_s: Duration = Field(900.0, alias="repeat_after")
    """The same event is sent once in this time. The next message has the number of events in between."""
    headers: Annotated[dict[str, str], as_written, AfterValidator(_headers)] = Field(default_factory=dict)
    """Headers of the request, such as `Authorization`. Each value is a secret."""
    to: list[Annotated[Printable, NonEmpty]] = Field(default_factory=list)
    """Template `mail`: the addresses."""
    sender: Printable = Field("", alias="from")
    """Template `mail`: the address of the sender."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if "lag" in self.events and "events" in self.model_fields_set and self.lag_above is None:
            raise wrong("the event 'lag' needs a number of records", "lag_above: 100000", at="lag_above")
        if self.template == "mail" and not self.to:
            raise wrong("the template 'mail' needs an address", "to: [operations@example.com]", at="to")
        if self.template != "mail" and (self.to or self.sender):
            raise wrong("addresses are of the template 'mail'", "template: mail", at="template")
        return self

    def wants(self, event: EventName) -> bool:
        """Whether the endpoint gets this event."""
        return event in self.events and (event != "lag" or self.lag_above is not None)


def _unique(entries: list[Notification]) -> list[Notification]:
    names = [each.name for each in entries]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise wrong(f"the notification '{twice}' is named twice", "a different name for each")
    return entries


Notifications = Annotated[list[Notification], AfterValidator(_unique)]
