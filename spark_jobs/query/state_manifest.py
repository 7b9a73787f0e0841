"""The manifest of a kept state: where each file is, the names of the objects, and which of them a driver needs."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from eos.errors import HeadFormatError
from spark_jobs.query.state_files import inside
from twophase.codec import check_readable, sha256_of

FORMAT: Final = 1
RESTORE: Final = "restore the object from an older version of it, or from a backup"
_MANIFEST: Final = re.compile(r"(?P<checkpoint>[0-9]{12})\.(?P<epoch>[0-9]{8,})\.state")
_PACK: Final = re.compile(r"(?P<epoch>[0-9]{8,})\.[0-9a-f]{16}\.files")


@dataclass(frozen=True, slots=True)
class Located:
    """Where the bytes of a file are."""

    pack: str
    offset: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class KeptState:
    """The state after a checkpoint, as it is stored."""

    checkpoint_id: int
    files: Mapping[str, Located]  # by path in Spark's folder
    packs: Mapping[str, int]  # that hold these files -> their bytes

    @property
    def bytes(self) -> int:
        """Size of all files."""
        return sum(each.bytes for each in self.files.values())


def manifest_name(checkpoint_id: int, epoch: int) -> str:
    """Return the name of the manifest that the driver of this epoch writes after a checkpoint."""
    return f"{checkpoint_id:012d}.{epoch:08d}.state"


def pack_name(epoch: int) -> str:
    """Return a name for a new pack of this driver, which no other pack has."""
    return f"{epoch:08d}.{secrets.token_hex(8)}.files"


def choices(names: Collection[str], completed: int, oldest: int = -1) -> list[str]:
    """Return the manifests that a start may use, best first: after the newest completed checkpoint, or before it.

    `oldest`: none of an older checkpoint than this one, which Spark cannot repeat.
    """
    found = [match for name in names if (match := _MANIFEST.fullmatch(name))]
    usable = [each for each in found if int(each["checkpoint"]) in range(max(completed - 1, oldest), completed + 1)]
    usable.sort(key=lambda each: (int(each["checkpoint"]), int(each["epoch"])), reverse=True)
    return [each[0] for each in usable]


def unneeded(names: Collection[str], kept: Mapping[str, Collection[str]], epoch: int) -> list[str]:
    """Return the objects that the driver of this epoch may delete, manifests first.

    Args:
        names: the objects that exist.
        kept: the manifests to keep, each with its packs.
        epoch: of the driver, which has listed `names` after it had published its newest manifest.
    """
    needed_packs = {pack for packs in kept.values() for pack in packs}
    found = [match for name in names if (match := _MANIFEST.fullmatch(name) or _PACK.fullmatch(name))]
    deleted = [m for m in found if int(m["epoch"]) <= epoch and m[0] not in kept and m[0] not in needed_packs]
    return [match[0] for match in sorted(deleted, key=lambda match: (match.re is _PACK, match[0]))]


def encode(kept: KeptState) -> bytes:
    """JSON, with a hash of itself."""
    packs = sorted(kept.packs)
    number = {pack: index for index, pack in enumerate(packs)}
    files = {path: [number[at.pack], at.offset, at.bytes, at.sha256] for path, at in sorted(kept.files.items())}
    document: dict[str, Any] = {
        "format": FORMAT,
        "checkpoint_id": kept.checkpoint_id,
        "packs": [[pack, kept.packs[pack]] for pack in packs],
        "files": files,
    }
    return _dump({**document, "checksum": sha256_of(_dump(document))})


def decode(content: bytes, place: str) -> KeptState:
    """Return the value that `encode` was given. `place`: for messages. Raises HeadFormatError."""
    try:
        document = json.loads(content)
        check_readable(document, place, FORMAT)
        if document.pop("checksum") != sha256_of(_dump(document)):
            message = f"{place} is damaged: its content does not match its checksum"
            raise HeadFormatError(message, remedy=RESTORE)
        packs = {str(name): int(size) for name, size in document["packs"]}
        names = list(packs)
        files = {
            inside(path): Located(names[pack], _count(offset), _count(size), sha256)
            for path, (pack, offset, size, sha256) in document["files"].items()
        }
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        message = f"{place} is damaged: {error!r}"
        raise HeadFormatError(message, remedy=RESTORE) from error
    return KeptState(document["checkpoint_id"], files, packs)


def _count(number: int) -> int:
    """Return a number of bytes. Raises ValueError for a negative one, TypeError for another type."""
    if number < 0:
        raise ValueError(number)
    return number


def _dump(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
