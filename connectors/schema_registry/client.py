"""Schemas by their ids, from a registry. A process keeps the schemas that it has met.

Source: Confluent Schema Registry, "API Reference": the schema of an id never changes, so it is requested once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from eos.errors import SourceError

_KEPT: Final = 1_000
"""Schemas of a registry that a process keeps."""
_REGISTRIES: Final = 16
"""Registries whose schemas and connections a process keeps."""
_UNKNOWN_KEPT: Final = 10_000
_UNKNOWN_S: Final = 60.0
"""For so long an id that the registry does not know is not requested again."""
_LATE_S: Final = 2.0
"""After so long unknown ids are requested once more: a replica of the registry may be behind its leader."""

_NO_SUCH_ID: Final = 40403
"""The registry's own code: a status 404 without it is of another server, or of a wrong path."""
_NO_ANSWER: Final = (ValueError, TypeError, AttributeError, KeyError)
"""Errors of the client for an answer that is not JSON, or not of a registry."""
_DENIED: Final = (401, 403)
_RETRIES: Final = {"max.retries": 2, "retries.wait.ms": 200, "retries.max.wait.ms": 1_000}
"""For a connection that breaks. A longer outage ends the try of the checkpoint, and `restart` says what is next."""
_NO_CLUSTER: Final = "none"
"""The client requires Confluent Cloud's header `target-sr-cluster`. Other registries ignore it."""


@dataclass(frozen=True, slots=True)
class Connection:
    """How a registry is reached. It is pickled into tasks; secrets are in no repr."""

    url: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    ca: str | None = None  # PEM file of the authorities; None: certifi's
    timeout_s: float = 10.0  # of one request


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema of a registry."""

    kind: str  # AVRO, PROTOBUF or JSON
    text: str
    references: tuple[str, ...] = ()  # texts of the schemas that it uses, each before its first use


def schemas_of(connection: Connection, ids: Sequence[int]) -> dict[int, RegisteredSchema | None]:
    """Return the schema of each id; None for an id that the registry does not know.

    Called in tasks, for the ids of a batch. Blocks for a few round trips per id that this process meets for the first
    time, and for two seconds if some are unknown. Raises SourceError if the registry does not answer: an outage, which
    the pipeline's restart strategy ends, and never a reason to reject a record.
    """
    registry = _registry(connection)
    late = [each for each in ids if not registry.looked_up(each)]
    if late:
        time.sleep(_LATE_S)
        for each in late:
            registry.look_up_late(each)
    return {each: registry.found(each) for each in ids}


def subjects(connection: Connection) -> int:
    """Return how many subjects the registry has. Blocks for a round trip. Raises SourceError."""
    registry = _registry(connection)
    with _outage(connection.url, "its subjects"):
        return len(registry.client.get_subjects())


class _Registry:
    """The schemas that this process has met. Both caches are bounded."""

    def __init__(self, connection: Connection) -> None:
        from cachetools import LRUCache, TTLCache  # of the extra `registry`
        from confluent_kafka.schema_registry import SchemaRegistryClient

        self._url = connection.url
        self._known: MutableMapping[int, RegisteredSchema] = LRUCache(_KEPT)
        self._unknown: MutableMapping[int, None] = TTLCache(_UNKNOWN_KEPT, _UNKNOWN_S)
        self.client: Any = SchemaRegistryClient(_settings(connection))

    def found(self, schema_id: int) -> RegisteredSchema | None:
        return self._known.get(schema_id)

    def looked_up(self, schema_id: int) -> bool:
        """Request the schema of an id that is new here. Return whether the registry knows it, or did not lately."""
        if schema_id not in self._known and schema_id not in self._unknown:
            schema = self._request(schema_id)
            if schema is None:
                return False
            self._known[schema_id] = schema
        return True

    def look_up_late(self, schema_id: int) -> None:
        """Request the schema of an unknown id once more."""
        schema = self._request(schema_id)
        if schema is None:
            self._unknown[schema_id] = None
        else:
            self._known[schema_id] = schema

    def _request(self, schema_id: int) -> RegisteredSchema | None:
        from confluent_kafka.schema_registry import SchemaRegistryError

        with _outage(self._url, f"schema {schema_id}"):
            try:
                found = self.client.get_schema(schema_id)
            except SchemaRegistryError as error:
                if error.error_code == _NO_SUCH_ID:
                    return None
                raise
            references = tuple(dict.fromkeys(self._texts(found.references or ())))
            if not found.schema_str:
                raise ValueError("an answer without a schema")
        return RegisteredSchema(found.schema_type or "AVRO", found.schema_str, references)

    def _texts(self, references: Any) -> Iterator[str]:
        """Yield the schemas of references, and before each the schemas that it refers to."""
        for each in references:
            schema = self.client.get_version(each.subject, each.version).schema
            yield from self._texts(schema.references or ())
            yield schema.schema_str


_registry = lru_cache(_REGISTRIES)(_Registry)


def _settings(connection: Connection) -> dict[str, Any]:
    settings: dict[str, Any] = {"url": connection.url, "timeout": connection.timeout_s, **_RETRIES}
    if connection.username is not None:
        settings["basic.auth.user.info"] = f"{connection.username}:{connection.password or ''}"
    if connection.token is not None:
        settings["bearer.auth.credentials.source"] = "STATIC_TOKEN"
        settings["bearer.auth.token"] = connection.token
        settings["bearer.auth.logical.cluster"] = _NO_CLUSTER
    if connection.ca is not None:
        settings["ssl.ca.location"] = connection.ca
    return settings


@contextmanager
def _outage(url: str, what: str) -> Iterator[None]:
    """Raise SourceError for each error that keeps the registry from giving `what`."""
    from confluent_kafka.schema_registry import SchemaRegistryError
    from httpx2 import HTTPError

    try:
        yield
    except SchemaRegistryError as error:
        message = f"the schema registry at {url} answers {error.http_status_code} for {what}"
        if error.http_status_code in _DENIED:
            remedy = "check username and password, or token, of `registry`"
        else:
            remedy = "check the address of `registry`, and see the registry's log"
        raise SourceError(message, remedy=remedy) from None
    except (HTTPError, OSError, *_NO_ANSWER) as error:  # of the connection, or of TLS
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        message = f"the schema registry at {url} does not answer: {reason}"
        raise SourceError(message, remedy="check its address and its TLS; the checkpoint is tried again") from error
