"""Schemas that records name: a name means one schema, in all checkpoints of an incarnation (R6, H35).

Records have only the name, such as an id of a registry. A checkpoint that is read once more gives the same rows only if
the name means the same schema. Head keeps each name with the fingerprint of its schema. Tasks get these at the start of
a query, and refuse another schema before its first row. A decision compares the schemas that tasks have met since.
"""

from __future__ import annotations

from typing import Final

from eos.errors import ConnectorError, IdentityError, SourceError
from twophase.values import MetSchemas, Schemas

UNKNOWN: Final = "unknown"
"""In place of a fingerprint: nobody knows a schema of this name. Its records are bad."""


def other_schema(checkpoint_id: int, known: Schemas, met: MetSchemas) -> ConnectorError | None:
    """Return the error if a name has got another schema; None if each has the same as in head, or is new (H35).

    `known`: the schemas of head.
    """
    for source, schemas in met.items():
        where = f"checkpoint {checkpoint_id}: source {source}"
        found: dict[str, set[str]] = {}
        for name, fingerprint in schemas:
            found.setdefault(name, set()).add(fingerprint)
        for name, fingerprints in sorted(found.items()):
            before = known.get(source, {}).get(name)
            if before is None and len(fingerprints) == 2 and UNKNOWN in fingerprints:
                message = f"{where}: some tasks did not get {name}, which others got"
                return SourceError(message, remedy="it is repeated: a replica of the registry is behind")
            others = sorted(fingerprints - {before})
            if before is None:
                before, others = others[0], others[1:]
            if others:
                return changed(where, name, others[0], before)
    return None


def changed(where: str, name: str, now: str, before: str) -> IdentityError:
    """Return the error for a name whose schema is another one now. `now`, `before`: fingerprints."""
    told = "is now unknown" if now == UNKNOWN else f"is now another schema (fingerprint {now})"
    message = f"{where}: {name} {told}; records were decoded with another one before (fingerprint {before})"
    remedy = (
        "the schema registry was set back or replaced: restore its newest state. If its ids have new "
        "meanings for good, `eos reset` reads on without the old ones"
    )
    return IdentityError(message, remedy=remedy)


def pinned(met: MetSchemas) -> Schemas:
    """Return the schemas that a decision keeps. Names without a schema may get one later."""
    found = {
        source: {name: each for name, each in sorted(schemas) if each != UNKNOWN} for source, schemas in met.items()
    }
    return {source: schemas for source, schemas in found.items() if schemas}
