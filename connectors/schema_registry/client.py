"""Schemas by their ids, from a registry. A process keeps the schemas that it has met.

Source: Confluent Schema Registry, "API Reference": the schema of an id never changes, so it is requested once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from time import sleep
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from connectors.api.contracts import Finding
from eos.errors import SourceError

_KEPT: Final = 1_000
"""Schemas of a registry that a process keeps."""
_REGISTRIES: Final = 16
"""Registries whose schemas and connections a process keeps."""
_UNKNOWN_KEPT: Final = 10_000
_UNKNOWN_S: Final = 60.0
"""An id that the registry does not know is requested anew after this time."""
_LATE_S: Final = 2.0
"""After so long unknown ids are requested once more: a replica of the registry may be behind its leader."""

_MOST_LATE: Final = 20
"""With more unknown ids in a batch, no second request is sent: the cause is not a replica that is behind."""
_HIGHEST_ID: Final = 2**31 - 1
"""Registries number schemas with 32 bits and a sign. For a higher id, some answer as for a wrong path."""
_MOST_REFERENCES: Final = 1_000
_MOST_CHARACTERS: Final = 16 * 1024 * 1024
"""The references of a schema together."""
_DEEPEST: Final = 100
"""References of references of a schema. Each is a call inside of a call."""

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
    imports: tuple[tuple[str, str], ...] = ()  # of Protobuf: the same texts by the names that they are imported by
    problem: str = ""  # why no record can be read with it

    @property
    def fingerprint(self) -> str:
        """Hash of the whole schema. Spaces and the order of keys in its JSON do not count.

        Head keeps it (H35), so its method never changes.
        """
        texts = (self.text, *self.references)
        try:
            content = json.dumps([self.kind, *map(json.loads, texts)], sort_keys=True, separators=(",", ":"))
        except (ValueError, RecursionError):  # Protobuf
            content = json.dumps([self.kind, *texts])
        return hashlib.sha256(content.encode()).hexdigest()[:16]


def schemas_of(connection: Connection, ids: Sequence[int]) -> dict[int, RegisteredSchema | None]:
    """Return the schema of each id; None for an id that the registry does not know.

    Called in tasks, for the ids of a batch. Blocks for a few round trips per id that this process meets for the first
    time, and for two seconds if a few are unknown. Raises SourceError if the registry does not answer: an outage, which
    the pipeline's restart strategy ends, and never a reason to reject a record.
    """
    registry = _registry(connection)
    found = {each: registry.schema(each) for each in ids}
    late = [each for each, schema in found.items() if schema is None and registry.is_new(each)]
    if 0 < len(late) <= _MOST_LATE:
        sleep(_LATE_S)
        found |= {each: registry.schema(each) for each in late}
    registry.note_unknown(each for each in late if found[each] is None)
    return found


def subjects(connection: Connection) -> int:
    """Return how many subjects the registry has. Blocks for a round trip. Raises SourceError."""
    registry = _registry(connection)
    with outage(connection, "its subjects"):
        return len(registry.client.get_subjects())


def check_registry(connection: Connection) -> Finding:
    """Return whether the registry answers, for `eos doctor`. Blocks for a round trip. Raises nothing."""
    try:
        return Finding("schema registry", True, f"{connection.url}: {subjects(connection)} subjects")
    except SourceError as error:
        return Finding("schema registry", False, error.message, error.remedy)


class _UnusableError(Exception):
    """A schema that no record can be read with."""


class _Registry:
    """The schemas that this process has met. All caches are bounded."""

    def __init__(self, connection: Connection) -> None:
        from cachetools import LRUCache, TTLCache  # of the extra `registry`

        self._connection = connection
        self._known: MutableMapping[int, RegisteredSchema] = LRUCache(_KEPT)
        self._unknown: MutableMapping[int, None] = TTLCache(_UNKNOWN_KEPT, _UNKNOWN_S)
        with outage(connection, "a connection"):
            self.client: Any = open_client(connection)

    def is_new(self, schema_id: int) -> bool:
        """Whether no request for the id was sent lately, and the registry may know it."""
        return schema_id not in self._unknown and schema_id <= _HIGHEST_ID

    def note_unknown(self, ids: Iterable[int]) -> None:
        """Send no request for these ids for a while."""
        self._unknown.update(dict.fromkeys(ids))

    def schema(self, schema_id: int) -> RegisteredSchema | None:
        """Return the schema of an id, by a request if it is new here; None if the registry does not know the id."""
        found = self._known.get(schema_id)
        if found is None and self.is_new(schema_id):
            found = self._request(schema_id)
            if found is not None:
                self._known[schema_id] = found
        return found

    def _request(self, schema_id: int) -> RegisteredSchema | None:
        from confluent_kafka.schema_registry import SchemaRegistryError

        texts: dict[tuple[str, int], str] = {}
        names: dict[tuple[str, str, int], None] = {}
        with outage(self._connection, f"schema {schema_id}"):
            try:
                found = self.client.get_schema(schema_id)
                if not isinstance(found.schema_str, str) or not found.schema_str:
                    raise ValueError("an answer without a schema")
                kind = found.schema_type or "AVRO"
                self._collect(found.references or (), texts, names)
            except SchemaRegistryError as error:
                if error.error_code == _NO_SUCH_ID:
                    return None
                raise
            except _UnusableError as error:
                return RegisteredSchema(kind, found.schema_str, problem=str(error))
            finally:
                self.client.clear_caches()  # the client's own, which have no bound, and keep wrong answers
        imports = dict.fromkeys((name, texts[subject, version]) for name, subject, version in names)
        unique = tuple(dict.fromkeys(texts.values()))
        return RegisteredSchema(kind, found.schema_str, unique, tuple(imports) if kind == "PROTOBUF" else ())

    def _collect(
        self,
        references: Any,
        texts: dict[tuple[str, int], str],
        names: dict[tuple[str, str, int], None],
        depth: int = 1,
    ) -> None:
        """Add the texts of references, each behind the schemas that it refers to, and the names of references.

        Raises _UnusableError for too many of them: a user who may register a schema must not stop a pipeline.
        """
        if depth > _DEEPEST and references:
            raise _UnusableError(f"its references are nested deeper than {_DEEPEST} levels")
        for each in references:
            key = (each.subject, each.version)
            names[(each.name, *key)] = None
            if key in texts:
                continue
            if len(texts) >= _MOST_REFERENCES:
                raise _UnusableError(f"it has more than {_MOST_REFERENCES:,} references")
            texts[key] = ""  # of a reference to itself
            schema = self.client.get_version(*key, deleted=True).schema
            self._collect(schema.references or (), texts, names, depth + 1)
            del texts[key]
            texts[key] = schema.schema_str
            if sum(map(len, texts.values())) > _MOST_CHARACTERS:
                raise _UnusableError(f"its references have more than {_MOST_CHARACTERS:,} characters")


_registry = lru_cache(_REGISTRIES)(_Registry)


def open_client(connection: Connection) -> Any:
    """Return a new client, which keeps no schema yet. Use it as a context manager, inside `outage`."""
    from confluent_kafka.schema_registry import SchemaRegistryClient  # of the extra `registry`

    from connectors.schema_registry.bounded import BoundedClient  # loads httpx2

    client = SchemaRegistryClient(_settings(connection))
    rest = client._rest_client  # its settings know no bound of an answer
    rest.session.close()
    rest.session = BoundedClient(verify=rest.verify, auth=rest.auth, proxy=rest.proxy, timeout=rest.timeout)
    return client


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
def outage(connection: Connection, what: str) -> Iterator[None]:
    """Raise SourceError for each error that keeps the registry from giving `what`."""
    from confluent_kafka.schema_registry import SchemaRegistryError
    from httpx2 import HTTPError

    from connectors.schema_registry.bounded import AnswerTooLargeError

    url = connection.url
    try:
        _check_proxy(connection)
        yield
    except SchemaRegistryError as error:
        message = f"the schema registry at {url} answers {error.http_status_code} for {what}"
        if error.http_status_code in _DENIED:
            remedy = "check username and password, or token, of `registry`"
        else:
            remedy = "check the address of `registry`, and see the registry's log"
        raise SourceError(message, remedy=remedy) from None
    except AnswerTooLargeError as error:
        message = f"the schema registry at {url} does not give {what}: {error}"
        raise SourceError(message, remedy="check the address of `registry`: no registry keeps so much") from None
    except (HTTPError, OSError, RecursionError, *_NO_ANSWER) as error:  # of the connection, or of TLS
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        message = f"the schema registry at {url} does not give {what}: {reason}"
        raise SourceError(message, remedy="check its address and its TLS; the checkpoint is repeated") from None


def _check_proxy(connection: Connection) -> None:
    """Raise OSError if a proxy would get the password or token in plain text."""
    if connection.password is None and connection.token is None:
        return
    for each in connection.url.split(","):
        parts = urlsplit(each.strip())
        if parts.scheme == "http" and not proxy_bypass(parts.hostname or "") and {"http", "all"} & getproxies().keys():
            raise OSError(f"the environment's proxy would see its password: add {parts.hostname} to NO_PROXY")
