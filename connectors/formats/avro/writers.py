"""The schemas of the writers of a topic: given in the spec, or found in a registry by the id in front of a record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Final, Protocol

from connectors.formats.avro.framing import CONFLUENT, SINGLE_OBJECT, Header
from connectors.formats.avro.nodes import Schema, parse_schema
from connectors.schema_registry.client import Connection, UnknownSchemaError, schema_of
from eos.errors import SpecError

_KEPT: Final = 1_000
"""Schemas that a process keeps parsed."""


class UnknownWriterError(Exception):
    """No schema is known for a key. The text is the reason why the record is bad."""


class Writers(Protocol):
    """The schemas of the writers of a topic. Immutable; pickled into tasks."""

    @property
    def header(self) -> Header | None:
        """The bytes in front of each record; None: there are none, and all records have one schema."""

    def given(self) -> Sequence[Schema]:
        """Return the schemas that are known before any record is read. Never blocks. Raises SpecError."""

    def find(self, key: int) -> Schema:
        """Return the schema of a key, 0 without a header. May block once per key.

        Raises UnknownWriterError if there is none, SourceError if a registry does not answer.
        """


@dataclass(frozen=True, slots=True)
class OneWriter:
    """All records have one schema."""

    text: str
    header: ClassVar[Header | None] = None

    def given(self) -> Sequence[Schema]:
        return [parsed(self.text)]

    def find(self, key: int) -> Schema:
        return parsed(self.text)


@dataclass(frozen=True, slots=True)
class GivenWriters:
    """The fingerprint in front of a record selects one of these schemas."""

    texts: tuple[str, ...]
    header: ClassVar[Header | None] = SINGLE_OBJECT

    def given(self) -> Sequence[Schema]:
        return [parsed(text) for text in self.texts]

    def find(self, key: int) -> Schema:
        fingerprint = key.to_bytes(8, "little")
        for schema in self.given():
            if schema.fingerprint == fingerprint:
                return schema
        raise UnknownWriterError(f"written with an unknown schema, of fingerprint {key:016x}")


@dataclass(frozen=True, slots=True)
class RegisteredWriters:
    """The id in front of a record is of a schema in a registry."""

    registry: Connection
    header: ClassVar[Header | None] = CONFLUENT

    def given(self) -> Sequence[Schema]:
        return []

    def find(self, key: int) -> Schema:
        try:
            found = schema_of(self.registry, key)
        except UnknownSchemaError as error:
            raise UnknownWriterError(str(error)) from None
        if found.kind != "AVRO":
            raise UnknownWriterError(f"schema {key} of the registry is of the kind {found.kind}, not AVRO")
        try:
            return parsed(found.text, found.references)
        except SpecError as error:
            raise UnknownWriterError(f"schema {key} of the registry: {error.message}") from None


@lru_cache(_KEPT)
def parsed(text: str, references: tuple[str, ...] = ()) -> Schema:
    """Parse a schema once per process. Raises SpecError."""
    return parse_schema(text, references)
