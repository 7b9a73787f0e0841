"""The writers' messages of a topic: the reader's own, or found in a registry by the header in front of a record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from connectors.formats.protobuf.compiler import compile_text
from connectors.formats.protobuf.descriptors import message_names, name_at
from connectors.formats.protobuf.indexes import Written
from connectors.formats.registered import PinnedRegistry, fingerprint_of, pinned_schemas, unusable
from connectors.schema_registry.client import Connection, RegisteredSchema, schemas_of
from eos.errors import SpecError

_KEPT: Final = 1_000
"""Schemas that a process keeps compiled."""
_KIND: Final = "PROTOBUF"


@dataclass(frozen=True, slots=True)
class Writer:
    """The schema of the records with one id."""

    descriptors: bytes | str  # or the reason why its records are bad
    fingerprint: str


@dataclass(frozen=True, slots=True)
class RegisteredWriters(PinnedRegistry):
    """The id in front of a record is of a schema in a registry."""

    def find(self, ids: Sequence[int]) -> dict[int, Writer]:
        """Return the writer of each id. See pinned_schemas."""
        found = pinned_schemas(self.registry, ids, self.pinned)
        return {key: Writer(_compiled(schema), fingerprint_of(schema)) for key, schema in found.items()}


@lru_cache(_KEPT)
def _compiled(found: RegisteredSchema | None) -> bytes | str:
    """Return the descriptors of a schema, or why its records are bad. Blocks while it is compiled."""
    reason = unusable(found, _KIND)
    if found is None or reason:
        return reason
    try:
        return descriptors_of(found)
    except SpecError as error:
        return f"it cannot be read: {error.message}"


def descriptors_of(schema: RegisteredSchema) -> bytes:
    """Return the descriptors of a registry's schema, of which all messages are valid. Raises SpecError."""
    imports = dict(schema.imports)
    if len(imports) < len(schema.imports):
        raise SpecError("the schema imports two files of one name")
    descriptors = compile_text(schema.text, imports)
    message_names(descriptors)
    return descriptors


class Newest(NamedTuple):
    """The newest schema of some records, and the message that all of them are."""

    schema_id: int
    message: str
    schema: RegisteredSchema


def newest_of(registry: Connection, found: Sequence[Written]) -> Newest | None:
    """Return the schema with the highest id; None if one is not of Protobuf, or if records are of several messages.

    May block. Raises SourceError if the registry does not answer, SpecError if a schema is not valid.
    """
    known = schemas_of(registry, sorted({each.schema_id for each in found}))
    schemas = {key: schema for key, schema in known.items() if schema is not None and schema.kind == _KIND}
    if len(schemas) < len(known):
        return None
    names = {name_at(descriptors_of(schemas[each.schema_id]), each.path) for each in found}
    name = names.pop() if len(names) == 1 else None
    newest = max(schemas)
    return None if name is None else Newest(newest, name, schemas[newest])
