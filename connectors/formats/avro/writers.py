"""The schemas of the writers of a topic: given in the spec, or found in a registry by the id in front of a record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from connectors.api.contracts import Finding
from connectors.formats.avro.cursor import Flags
from connectors.formats.avro.inlining import inlined
from connectors.formats.avro.nodes import Schema, parse_schema
from connectors.schema_registry.client import Connection, RegisteredSchema, schemas_of, subjects
from eos.errors import SourceError, SpecError
from twophase.schemas import UNKNOWN, changed

_KEPT: Final = 1_000
"""Schemas that a process keeps parsed."""


@dataclass(frozen=True, slots=True)
class Header:
    """The bytes in front of a record that name the writer's schema: a marker, and behind it the key of the schema."""

    name: str  # for messages
    marker: bytes
    key_type: str  # numpy's type of the key, with its byte order
    schema_name: str  # for messages; formats the key

    @property
    def size(self) -> int:
        """Bytes of marker and key."""
        return len(self.marker) + np.dtype(self.key_type).itemsize

    def keys(self, values: pa.Array) -> tuple[NDArray[np.uint64], Flags]:
        """Return the key of each value of a binary column without nulls, and whether the value has the header."""
        offsets = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4).astype(np.int64)
        padded = np.frombuffer((values.buffers()[2] or pa.py_buffer(b"")).to_pybytes() + bytes(self.size), np.uint8)
        heads = padded[offsets[:-1, None] + np.arange(self.size)]
        marked = (heads[:, : len(self.marker)] == np.frombuffer(self.marker, np.uint8)).all(axis=1)
        keys = np.ascontiguousarray(heads[:, len(self.marker) :]).view(self.key_type).reshape(-1)
        return keys.astype(np.uint64), marked & (np.diff(offsets) >= self.size)


SINGLE_OBJECT: Final = Header("Avro's single-object encoding", b"\xc3\x01", "<u8", "the schema of fingerprint {:016x}")
"""The key is the CRC-64-AVRO fingerprint of the schema. Source: Avro 1.12 specification, "Single-object encoding"."""

CONFLUENT: Final = Header("Confluent's wire format", b"\0", ">u4", "schema {}")
"""The key is the id of the schema in a registry. Source: Confluent Schema Registry, "Wire format"."""


@dataclass(frozen=True, slots=True)
class Writer:
    """The writer of the records with one key."""

    schema: Schema | str  # or the reason why its records are bad
    fingerprint: str = ""  # of the registry's schema; empty where a key can have no other schema


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
class RegisteredWriters(Writers):
    """The id in front of a record is of a schema in a registry."""

    registry: Connection
    pinned: Mapping[str, str] = field(default_factory=dict)  # name -> fingerprint, of head (H35)
    header: ClassVar[Header] = CONFLUENT

    def check(self) -> Sequence[Finding]:
        try:
            return [Finding("schema registry", True, f"{self.registry.url}: {subjects(self.registry)} subjects")]
        except SourceError as error:
            return [Finding("schema registry", False, error.message, error.remedy)]

    def registered(self, keys: Sequence[int]) -> Mapping[int, RegisteredSchema | None]:
        """Return the schema of each key as the registry has it; None for an unknown key. See `schemas_of`."""
        return schemas_of(self.registry, keys)

    def find(self, keys: Sequence[int]) -> Mapping[int, Writer]:
        found = {key: _usable(registered) for key, registered in self.registered(keys).items()}
        for key, writer in found.items():
            name = self.header.schema_name.format(key)
            before = self.pinned.get(name, writer.fingerprint)
            if writer.fingerprint != before:
                raise changed(f"the schema registry at {self.registry.url}", name, writer.fingerprint, before)
        return found


@lru_cache(_KEPT)  # a fingerprint is computed once, and not for each batch
def _usable(found: RegisteredSchema | None) -> Writer:
    if found is None:
        return Writer("the schema registry does not have it", UNKNOWN)
    if found.kind != "AVRO":
        return Writer(f"it is of the kind {found.kind}, not AVRO", found.fingerprint)
    try:
        return Writer(parsed(found.text, found.references), found.fingerprint)
    except SpecError as error:
        return Writer(f"it cannot be read: {error.message}", found.fingerprint)


def ids_in(values: Sequence[bytes]) -> list[int] | None:
    """Return the ids in front of these values, ascending; None if a value is not in Confluent's wire format."""
    keys, marked = CONFLUENT.keys(pa.array(values, pa.binary()))
    found: list[int] = np.unique(keys).tolist()
    return found if marked.all() else None


def newest_of(registry: Connection, ids: Sequence[int]) -> tuple[int, str] | None:
    """Return the last of these ascending ids, with its schema as one JSON text; None if one has no Avro schema.

    May block. Raises SourceError if the registry does not answer, SpecError if the schema is not valid.
    """
    newest = None
    for found in schemas_of(registry, ids).values():
        if found is None or found.kind != "AVRO":
            return None
        newest = found
    assert newest is not None
    return ids[-1], inlined(newest.text, newest.references)


@lru_cache(_KEPT)
def parsed(text: str, references: tuple[str, ...] = ()) -> Schema:
    """Parse a schema once per process. Raises SpecError."""
    return parse_schema(text, references)
