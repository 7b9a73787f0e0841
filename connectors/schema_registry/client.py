"""Schemas by their ids, from a registry. A process keeps the schemas that it has met.

Source: Confluent Schema Registry, "API Reference": the schema of an id never changes, so it is requested once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from eos.errors import SourceError

_KEPT: Final = 1_000
"""Schemas, and registries, that a process keeps."""

_NOT_FOUND: Final = 404
_DENIED: Final = (401, 403)


@dataclass(frozen=True, slots=True)
class Connection:
    """How a registry is reached. It is pickled into tasks; secrets are in no repr."""

    url: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    ca: str | None = None  # PEM file of the authorities; None: those of the machine
    timeout_s: float = 10.0  # of one request


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema of a registry."""

    kind: str  # AVRO, PROTOBUF or JSON
    text: str
    references: tuple[str, ...] = ()  # texts of the schemas that it uses, each before its first use


class UnknownSchemaError(Exception):
    """The registry has no schema of an id. The text says so."""


@lru_cache(_KEPT)
def schema_of(connection: Connection, schema_id: int) -> RegisteredSchema:
    """Return the schema of an id. Blocks for a few round trips, once per process and id.

    Called in tasks. Raises UnknownSchemaError if the registry has no such id, and SourceError if it does not answer:
    an outage, which the task repeats.
    """
    client = _client(connection)
    with _outage(connection, f"schema {schema_id}"):
        found = client.get_schema(schema_id)
        references = tuple(dict.fromkeys(_texts(client, found.references or ())))
    return RegisteredSchema(found.schema_type or "AVRO", found.schema_str or "", references)


def _texts(client: Any, references: Any) -> Iterator[str]:
    """Yield the schemas of references, and before each the schemas that it refers to."""
    for each in references:
        schema = client.get_version(each.subject, each.version).schema
        yield from _texts(client, schema.references or ())
        yield schema.schema_str


@lru_cache(_KEPT)
def _client(connection: Connection) -> Any:
    from confluent_kafka.schema_registry import SchemaRegistryClient  # of the extra `registry`

    settings: dict[str, Any] = {"url": connection.url, "timeout": connection.timeout_s}
    if connection.username is not None:
        settings["basic.auth.user.info"] = f"{connection.username}:{connection.password or ''}"
    if connection.token is not None:
        settings["bearer.auth.credentials.source"] = "STATIC_TOKEN"
        settings["bearer.auth.token"] = connection.token
        settings["bearer.auth.logical.cluster"] = _NO_CLUSTER
    if connection.ca is not None:
        settings["ssl.ca.location"] = connection.ca
    return SchemaRegistryClient(settings)


_NO_CLUSTER: Final = "none"
"""The client requires Confluent Cloud's header `target-sr-cluster`. Other registries ignore it."""


@contextmanager
def _outage(connection: Connection, what: str) -> Iterator[None]:
    from confluent_kafka.schema_registry import SchemaRegistryError
    from httpx2 import HTTPError

    try:
        yield
    except SchemaRegistryError as error:
        if error.http_status_code == _NOT_FOUND:
            raise UnknownSchemaError(f"{what} is not in the schema registry") from None
        denied = error.http_status_code in _DENIED
        message = f"the schema registry at {connection.url} answers {error.http_status_code} for {what}"
        remedy = "check the user, password or token of `registry`" if denied else "see the registry's log"
        raise SourceError(message, remedy=remedy) from None
    except (HTTPError, OSError, ValueError) as error:  # no connection; TLS; an answer that is not JSON
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        message = f"the schema registry at {connection.url} does not answer: {reason}"
        raise SourceError(message, remedy="check its address and its TLS; the checkpoint is tried again") from error
