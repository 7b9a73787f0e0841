"""Schemas of records by their ids, compared with the schemas that these ids had in earlier checkpoints (H35)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from connectors.api.contracts import Finding
from connectors.formats.framing import CONFLUENT
from connectors.schema_registry.client import Connection, RegisteredSchema, check_registry, schemas_of
from twophase.schemas import UNKNOWN, changed

_KEPT: Final = 1_000
"""Fingerprints that a process keeps."""


@dataclass(frozen=True, slots=True)
class PinnedRegistry:
    """A registry, and the schemas that checkpoints were decoded with. Pickled into tasks."""

    registry: Connection
    pinned: Mapping[str, str] = field(default_factory=dict)  # name -> fingerprint, of head (H35)

    def check(self) -> Sequence[Finding]:
        """Return the findings for `eos doctor`: whether the registry answers."""
        return [check_registry(self.registry)]


def pinned_schemas(
    registry: Connection, ids: Sequence[int], pinned: Mapping[str, str]
) -> dict[int, RegisteredSchema | None]:
    """Return the schema of each id; None for an id that the registry does not know.

    `pinned`: fingerprints of decided checkpoints by the name of the schema. Blocks where this process meets an id for
    the first time. Raises SourceError if the registry does not answer, IdentityError if an id has another schema than
    its pin.
    """
    found = schemas_of(registry, ids)
    for key, schema in found.items():
        name = CONFLUENT.schema_name.format(key)
        now = fingerprint_of(schema)
        before = pinned.get(name, now)
        if now != before:
            raise changed(f"the schema registry at {registry.url}", name, now, before)
    return found


@lru_cache(_KEPT)  # computed once, and not for each batch
def fingerprint_of(schema: RegisteredSchema | None) -> str:
    """Return the fingerprint that a format reports for a schema, or for an id without one."""
    return UNKNOWN if schema is None else schema.fingerprint


def unusable(schema: RegisteredSchema | None, kind: str) -> str:
    """Return why records of this schema are bad; empty if it is of the kind, and can be read."""
    if schema is None:
        return "the schema registry does not have it"
    if schema.problem:
        return schema.problem
    return "" if schema.kind == kind else f"it is of the kind {schema.kind}, not {kind}"
