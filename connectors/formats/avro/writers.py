"""The schemas of the writers of a topic: given in the spec, or found in a registry by the id in front of a record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Final

from connectors.api.contracts import Finding
from connectors.formats.avro.inlining import inlined
from connectors.formats.avro.nodes import Schema, parse_schema
from connectors.formats.framing import CONFLUENT, Header
from connectors.formats.registered import PinnedRegistry, fingerprint_of, pinned_schemas, unusable
from connectors.schema_registry.client import Connection, RegisteredSchema, schemas_of
from eos.errors import SpecError

_KEPT: Final = 1_000
"""Schemas that a process keeps parsed."""
_KIND: Final = "AVRO"


SINGLE_OBJECT: Final = Header("Avro's single-object encoding", b"\xc3\x01", "<u8", "the schema of fingerprint {:016x}")
"""The key is the CRC-64-AVRO fingerprint of the schema. Source: Avro 1.12 specification, "Single-object encoding"."""


@dataclass(frozen=True, slots=True)
class Writer:
    """The writer of the records with one key."""

    schema: Schema | str  # or the reason why its records are bad
    fingerprint: str = ""  # of the registry's schema; empty where a key can have no other schema
    registered: RegisteredSchema | None = None  # the schema as the registry has it


class Writers(ABC):
    """The schemas of the writers of a topic. Immutable; pickled into tasks."""

    header: ClassVar[Header | None] = None
    """The bytes in front of each record; None: nothing, and all records have one schema."""

    def given(self) -> Sequence[Schema]:
        """Return the schemas that are known before any record is read. Never blocks. Raises SpecError."""
        return ()

    def check(self) -> Sequence[Finding]:
        """Return the findings for `eos doctor`. May block; raises nothing."""
        return ()

    @abstractmethod
    def find(self, keys: Sequence[int]) -> Mapping[int, Writer]:
        """Return the writer of each key, 0 without a header.

        May block where this process meets a key for the first time. Raises SourceError if a registry does not answer,
        IdentityError if a key has another schema than it had in an earlier checkpoint.
        """


@dataclass(frozen=True, slots=True)
class OneWriter(Writers):
    """All records have one schema."""

    text: str

    def given(self) -> Sequence[Schema]:
        return [parsed(self.text)]

    def find(self, keys: Sequence[int]) -> Mapping[int, Writer]:
        return dict.fromkeys(keys, Writer(parsed(self.text)))


@dataclass(frozen=True, slots=True)
class GivenWriters(Writers):
    """The fingerprint in front of a record selects one of these schemas."""

    texts: tuple[str, ...]
    header: ClassVar[Header | None] = SINGLE_OBJECT

    def given(self) -> Sequence[Schema]:
        return [parsed(text) for text in self.texts]

    def find(self, keys: Sequence[int]) -> Mapping[int, Writer]:
        known = {int.from_bytes(schema.fingerprint, "little"): schema for schema in self.given()}
        return {key: Writer(known.get(key, "it is not among `writer_schema_files`")) for key in keys}


@dataclass(frozen=True, slots=True)
class RegisteredWriters(PinnedRegistry, Writers):
    """The id in front of a record is of a schema in a registry."""

    header: ClassVar[Header] = CONFLUENT

    def find(self, keys: Sequence[int]) -> Mapping[int, Writer]:
        found = pinned_schemas(self.registry, keys, self.pinned)
        return {key: _usable(schema) for key, schema in found.items()}


@lru_cache(_KEPT)
def _usable(found: RegisteredSchema | None) -> Writer:
    reason = unusable(found, _KIND)
    if found is None or reason:
        return Writer(reason, fingerprint_of(found), found)
    try:
        return Writer(parsed(found.text, found.references), fingerprint_of(found), found)
    except SpecError as error:
        return Writer(f"it cannot be read: {error.message}", fingerprint_of(found), found)


def newest_of(registry: Connection, ids: Sequence[int]) -> tuple[int, str] | None:
    """Return the last of these ascending ids, with its schema as one JSON text; None if one has no Avro schema.

    May block. Raises SourceError if the registry does not answer, SpecError if the schema is not valid.
    """
    newest = None
    for found in schemas_of(registry, ids).values():
        if found is None or found.kind != _KIND:
            return None
        newest = found
    assert newest is not None
    return ids[-1], inlined(newest.text, newest.references)


@lru_cache(_KEPT)
def parsed(text: str, references: tuple[str, ...] = ()) -> Schema:
    """Parse a schema once per process. Raises SpecError."""
    return parse_schema(text, references)
