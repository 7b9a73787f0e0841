"""The entry `registry` of a format, and the keys of a sink's format beside it. Imports no client."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from connectors.api.fields import LocalPath, NonEmpty, matching
from connectors.api.format import SinkFormatEntry
from connectors.api.model import Strict, wrong
from connectors.extras import require

if TYPE_CHECKING:
    from connectors.schema_registry.client import Connection
    from connectors.schema_registry.registration import Registration


_SENT: Final = re.compile(r"[^\x00-\x1f\x7f]+")


def _url(value: str) -> str:
    for each in value.split(","):
        try:
            parts = urlsplit(each.strip())
        except ValueError:  # in place of an IPv6 address; its message would quote the URL
            parts = urlsplit("")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise wrong("not a URL of a registry", "https://registry.example:8081", "several, separated by commas")
        if "@" in each:  # also where a / in a password hides them from `parts`
            raise wrong("the URL has a user or a password", "keys username and password")
        if parts.query or parts.fragment:
            raise wrong("the URL has a query or a fragment", "only scheme, host, port and path")
    return value


class RegistryEntry(Strict):
    """`registry: {url: …}`: a schema registry with Confluent's API."""

    url: Annotated[NonEmpty, AfterValidator(_url)]
    """Its address; several of one registry are separated by commas."""
    username: NonEmpty | None = None
    """For HTTP basic authentication."""
    password: NonEmpty | None = None
    """Best as `${env:NAME}` or `${file:/run/secrets/name}`."""
    token: NonEmpty | None = None
    """A bearer token, instead of username and password."""
    ca: LocalPath | None = None
    """PEM file of the authorities for its certificate; by default, certifi's."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.username is None) != (self.password is None):
            there, missing = ("password", "username") if self.username is None else ("username", "password")
            raise wrong(f"{there} without {missing}", "both, or neither", at=there)
        if ":" in (self.username or ""):
            raise wrong("a user with a colon, which HTTP basic authentication cannot send", at="username")
        if any(not _SENT.fullmatch(each) for each in (self.token, self.username, self.password) if each is not None):
            raise wrong("a character that HTTP cannot send", "printable characters, and no line end")
        if self.token is not None and self.username is not None:
            raise wrong("a token and a username", "one of them", at="token")
        if not self.is_encrypted and (self.token or self.password):
            raise wrong("a password or token over http, in plain text", "https://…", at="url")
        return self

    @property
    def is_encrypted(self) -> bool:
        """Whether each address is of https, or on this machine."""
        from connectors.api.tls import is_local

        parts = [urlsplit(each.strip()) for each in self.url.split(",")]
        return all(each.scheme == "https" or is_local(each.hostname) for each in parts)

    def connection(self) -> Connection:
        """Return the settings for tasks."""
        from connectors.schema_registry.client import Connection

        ca = None if self.ca is None else str(self.ca)
        return Connection(self.url, self.username, self.password, self.token, ca)


def check_encoding(encoding: str, registry: RegistryEntry | None) -> None:
    """Raise pydantic's error unless a format has a registry and the encoding `confluent`, or neither."""
    if (encoding == "confluent") != (registry is not None):
        found = "confluent without a registry" if registry is None else f"a registry with {encoding}"
        raise wrong(found, "encoding: confluent, and registry: {url: …}", at="encoding")


_FULL_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*"

_RecordName = Annotated[NonEmpty, matching(_FULL_NAME, "a name of letters, digits and _, such as com.example.Order")]


class RegisteredFormatEntry(SinkFormatEntry):
    """Base of the formats of a sink whose schema a registry keeps."""

    registry: RegistryEntry | None = None
    """The schema registry. The driver registers the schema there before the first task."""
    subject: Literal["topic-name", "record-name", "topic-record-name"] = "topic-name"
    """The name of the schema in the registry: of the topic with `-value` or `-key`, of the record, or of both."""
    register_: bool = Field(True, alias="register")
    """`false`: the registry must have the schema already."""
    record: _RecordName | None = None
    """The name of the record in a derived schema, with its namespace; by default `Value` or `Key`."""

    @model_validator(mode="after")
    def _check_registry(self) -> Self:
        if self.registry is None:
            for field in ("subject", "register_"):
                if field in self.model_fields_set:
                    raise wrong("no registry takes a schema", "registry: {url: …}", at=field.rstrip("_"))
        return self

    @property
    def needs_topic(self) -> bool:
        return self.registry is not None and self.subject != "record-name"

    def registration(self) -> Registration | None:
        """Return the settings of the registration; None without a registry. Raises SpecError."""
        if self.registry is None:
            return None
        require("registry")
        from connectors.schema_registry.registration import Registration

        return Registration(self.registry.connection(), self.subject, self.register_)
