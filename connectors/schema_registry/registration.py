"""The registration of schemas that this pipeline writes with, before its first task. Called on the driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn

from connectors.api.contracts import Finding
from connectors.api.encoding import MessagePart
from connectors.dead_letters import printable
from connectors.schema_registry.client import Connection, open_client, outage
from eos.errors import SinkUnavailableError, SourceError, TargetError

Strategy = Literal["topic-name", "record-name", "topic-record-name"]

_INCOMPATIBLE: Final = 409
_INVALID: Final = 422
_DENIED: Final = (401, 403)
_UNKNOWN: Final = (40401, 40402, 40403)
"""Codes of a registry for a subject, a version or a schema that it does not have."""


@dataclass(frozen=True, slots=True)
class Registration:
    """How schemas get their ids. `connection` holds secrets, which no repr shows."""

    connection: Connection
    strategy: Strategy = "topic-name"
    register: bool = True  # False: the schema must be there

    def subject(self, part: MessagePart, record: str) -> str:
        """Return the name under which the registry keeps the versions of the schema. `record`: its full name."""
        if self.strategy == "record-name":
            return record
        assert part.topic is not None  # the spec refuses it
        return f"{part.topic}-{record if self.strategy == 'topic-record-name' else part.part}"

    def id_of(self, sink: str, subject: str, kind: str, text: str) -> int:
        """Return the id of a schema, which is registered first if `register` is true.

        Blocks for a round trip or two. Raises TargetError if the registry refuses the schema, does not know it, or
        denies access: a restart does not help. Raises SinkUnavailableError for an outage, which a restart may end.
        """
        from confluent_kafka.schema_registry import Schema

        with self._requesting(sink, subject, text) as client:
            schema = Schema(text, kind)
            if self.register:
                found = client.register_schema_full_response(subject, schema)
            else:
                found = client.lookup_schema(subject, schema)
            return _checked_id(found.schema_id)

    def dry_run(self, sink: str, subject: str, kind: str, text: str) -> int | None:
        """Return the id of a schema; None if `id_of` would register it. Raises as `id_of` does; registers nothing."""
        from confluent_kafka.schema_registry import Schema, SchemaRegistryError

        with self._requesting(sink, subject, text) as client:
            try:
                return _checked_id(client.lookup_schema(subject, Schema(text, kind)).schema_id)
            except SchemaRegistryError as error:
                if error.error_code not in _UNKNOWN or not self.register:
                    raise
            try:
                fits = client.test_compatibility(subject, Schema(text, kind))
            except SchemaRegistryError as error:
                if error.error_code not in _UNKNOWN:  # the first version of the subject
                    raise
                return None
        if not fits:
            raise _incompatible(sink, subject, "")
        return None

    def finding(self, sink: str, subject: str, kind: str, text: str) -> Finding:
        """Return the result of a dry run, for `eos doctor`."""
        check = f"schema of {subject}"
        try:
            found = self.dry_run(sink, subject, kind, text)
        except (TargetError, SinkUnavailableError) as error:
            return Finding(check, False, error.message, error.remedy)
        detail = f"{self.connection.url}: registered as id {found}" if found is not None else "a start registers it"
        return Finding(check, True, f"{detail}: {text}")

    @contextmanager
    def _requesting(self, sink: str, subject: str, text: str) -> Iterator[Any]:
        """Give a client that has kept nothing: the registry may have been replaced since the last start."""
        from confluent_kafka.schema_registry import SchemaRegistryError

        try:
            with outage(self.connection, f"the schema of subject {subject}"), open_client(self.connection) as client:
                try:
                    yield client
                except SchemaRegistryError as error:
                    self._refuse(sink, subject, text, error)
        except SourceError as error:
            raise SinkUnavailableError(f"sink {sink}: {error.message}", remedy=error.remedy) from None

    def _refuse(self, sink: str, subject: str, text: str, error: Any) -> NoReturn:
        """Raise TargetError for an answer that a restart does not change; the error itself otherwise."""
        status, said = error.http_status_code, printable(str(error.error_message or ""))
        if status == _INCOMPATIBLE:
            raise _incompatible(sink, subject, said) from None
        if status == _INVALID:
            message = f"sink {sink}: the schema registry does not take the schema of subject {subject}: {said}"
            raise TargetError(message, remedy=f"correct the columns of the last step, or `schema`: {text}") from None
        if status in _DENIED:
            message = f"sink {sink}: the schema registry at {self.connection.url} answers {status} for {subject}"
            remedy = "check username and password, or token, of `registry`; `register: false` needs no right to write"
            raise TargetError(message, remedy=remedy) from None
        if error.error_code in _UNKNOWN and not self.register:
            message = f"sink {sink}: the schema registry has no such schema under the subject {subject}"
            raise TargetError(message, remedy=f"register it there, or set `register: true`: {text}") from None
        raise error


def _incompatible(sink: str, subject: str, said: str) -> TargetError:
    message = f"sink {sink}: the schema of the rows is not compatible with earlier versions of subject {subject}"
    remedy = (
        "let the last step select the columns and types of before, with new columns only as columns that may be NULL; "
        "or set another compatibility for the subject; or write to another topic"
    )
    return TargetError(f"{message}: {said}" if said else message, remedy=remedy)


def _checked_id(found: object) -> int:
    """Return an id that the 4 bytes of the wire format hold. Raises ValueError, which is an outage."""
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found < 2**31:
        raise ValueError("an answer without an id")
    return found
