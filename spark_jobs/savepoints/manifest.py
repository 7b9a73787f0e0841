"""The format of a savepoint: plain files, and `manifest.json`, which names each with its hash.

The manifest is written last: without one it is no savepoint. It holds no absolute path: a savepoint may be copied
anywhere. Later versions read every format there has been (tests/golden).
"""

from __future__ import annotations

import errno
import json
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from eos.errors import HeadFormatError, SavepointError
from spark_jobs.query.state_files import hash_of, inside
from spark_jobs.savepoints.plan import Plan
from twophase.codec import check_readable, decode_record, sha256_of
from twophase.values import CheckpointRecord
from wal.address import ObjectAddress

FORMAT: Final = 1
NAME: Final = "manifest.json"
HEAD: Final = "head.json"
RECORD: Final = "record.json"
SPEC: Final = "spec.yaml"
SPARK: Final = "spark"
MAX_SMALL: Final = 64 * 1024 * 1024
"""Bytes of a manifest, or of another file that is read into memory."""
_MAX_NUMBER: Final = 2**63 - 1
_KIND: Final = "eos-savepoint"
_NO_SAVEPOINT: Final = "give the folder or URL that `eos savepoint` has named, or that `eos savepoint list` shows"
_DAMAGED: Final = "copy the savepoint again from where it was taken, or take another one"


@dataclass(frozen=True, slots=True)
class Entry:
    """One file."""

    bytes: int
    sha256: str

    def __post_init__(self) -> None:
        """Raise TypeError or ValueError for other values, which a hostile manifest may hold."""
        if type(self.bytes) is not int or not isinstance(self.sha256, str):
            raise TypeError(self.bytes, self.sha256)
        if not 0 <= self.bytes <= _MAX_NUMBER:
            raise ValueError(self.bytes)


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a savepoint says of itself."""

    id: str  # random
    pipeline: str
    incarnation: str
    checkpoint_id: int
    decided_at: float  # seconds since 1970, UTC
    taken_at: float
    later: int  # checkpoints that were completed when it was taken and are not in it
    versions: Mapping[str, str]  # of the product, Spark and Python that wrote it
    plan: Plan | None  # None: the pipeline was last run by a version that kept none
    files: Mapping[str, Entry]  # by path in the folder, with `/`

    def __post_init__(self) -> None:
        """Raise TypeError or ValueError for other values, which a hostile manifest may hold."""
        texts, numbers = (self.id, self.pipeline, self.incarnation), (self.checkpoint_id, self.later)
        if not all(isinstance(each, str) for each in (*texts, *self.versions, *self.versions.values())):
            raise TypeError(texts, self.versions)
        if not all(type(each) is int for each in numbers):
            raise TypeError(numbers)
        if not all(0 <= each <= _MAX_NUMBER for each in numbers):
            raise ValueError(numbers)
        for seconds in (self.decided_at, self.taken_at):
            datetime.fromtimestamp(seconds, UTC)

    @property
    def bytes(self) -> int:
        """Size of all files."""
        return sum(each.bytes for each in self.files.values())

    @property
    def lacking(self) -> str:
        """The checkpoints that were decided when it was taken, and that it does not hold; empty: none."""
        first, last = self.checkpoint_id + 1, self.checkpoint_id + self.later
        if not self.later:
            return ""
        return f"checkpoint {first}" if first == last else f"checkpoints {first} to {last}"

    @property
    def state_bytes(self) -> int:
        """Of what operators keep."""
        return sum(each.bytes for path, each in self.files.items() if path.startswith(f"{SPARK}/state/"))


def encode(manifest: Manifest) -> bytes:
    """JSON with a hash of its own."""
    document: dict[str, Any] = {
        "kind": _KIND,
        "format": FORMAT,
        "id": manifest.id,
        "pipeline": manifest.pipeline,
        "incarnation": manifest.incarnation,
        "checkpoint_id": manifest.checkpoint_id,
        "decided_at": manifest.decided_at,
        "taken_at": manifest.taken_at,
        "later": manifest.later,
        "versions": dict(manifest.versions),
        "plan": manifest.plan.to_json() if manifest.plan is not None else None,
        "files": {path: [each.bytes, each.sha256] for path, each in sorted(manifest.files.items())},
    }
    return _dump({**document, "checksum": sha256_of(_dump(document))})


def decode(content: bytes, where: Path | ObjectAddress) -> Manifest:
    """The manifest that `encode` wrote. `where`: the savepoint, for messages. Raises SavepointError."""
    try:
        document = json.loads(content)
        if not isinstance(document, dict) or document.get("kind") != _KIND:
            raise no_savepoint(where, f"its {NAME} is something else's")
        check_readable(document, str(where), FORMAT, "use the version that wrote it, or a newer one")
        if document.pop("checksum") != sha256_of(_dump(document)):
            raise damaged(f"{where}/{NAME}", "its content does not match its checksum")
        return Manifest(
            id=document["id"],
            pipeline=document["pipeline"],
            incarnation=document["incarnation"],
            checkpoint_id=document["checkpoint_id"],
            decided_at=document["decided_at"],
            taken_at=document["taken_at"],
            later=document["later"],
            versions=document["versions"],
            plan=Plan.from_json(document["plan"]) if document["plan"] is not None else None,
            files={inside(path): Entry(*each) for path, each in document["files"].items()},
        )
    except HeadFormatError as error:
        raise SavepointError(error.message, remedy=error.remedy) from error
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, OSError, RecursionError) as error:
        raise damaged(f"{where}/{NAME}", repr(error)) from error


def read(folder: Path) -> Manifest:
    """The manifest of a savepoint; its files are not looked at. Raises SavepointError."""
    try:
        content = _small(folder / NAME)
    except (FileNotFoundError, NotADirectoryError):
        there = "there is no such folder" if not folder.is_dir() else f"it has no {NAME}"
        raise no_savepoint(folder, there) from None
    except OSError as error:
        raise SavepointError(f"{folder / NAME} cannot be read: {error.strerror}") from error
    return decode(content, folder)


def read_file(path: Path) -> bytes:
    """Return the content of one small file of a savepoint. Raises SavepointError."""
    try:
        return _small(path)
    except OSError as error:
        raise SavepointError(f"{path} cannot be read: {error.strerror}") from error


def record(folder: Path, manifest: Manifest) -> CheckpointRecord | None:
    """Return the decision of the savepoint's checkpoint; None if it was not retained. Raises HeadFormatError."""
    return decode_record((folder / RECORD).read_bytes()) if RECORD in manifest.files else None


def damage(folder: Path, manifest: Manifest) -> list[str]:
    """What is missing, cut short, altered, or there without being named. Reads every byte."""
    found = []
    for path, entry in sorted(manifest.files.items()):
        try:
            _check_plain(folder / path)
            size, digest = hash_of(folder / path)
        except OSError as error:
            found.append(f"{path}: {error.strerror}")
            continue
        if size != entry.bytes:
            found.append(f"{path}: {size:,} bytes instead of {entry.bytes:,}")
        elif digest != entry.sha256:
            found.append(f"{path}: its content does not match its hash")
    return [*found, *unnamed(manifest), *(f"{path}: not part of the savepoint" for path in strangers(folder, manifest))]


def unnamed(manifest: Manifest) -> list[str]:
    """Return each file that every savepoint has, and that this manifest does not name."""
    needed = HEAD, f"{SPARK}/offsets/{manifest.checkpoint_id}"
    return [f"{path}: {NAME} does not name it" for path in needed if path not in manifest.files]


def strangers(folder: Path, manifest: Manifest) -> list[str]:
    """What is in the folder and not part of the savepoint: also each link, which may lead elsewhere. Raises OSError."""
    found = [path for path in folder.rglob("*") if not path.is_dir() or path.is_symlink()]
    named = {*manifest.files, NAME}
    others = [path.relative_to(folder).as_posix() for path in found if path.is_symlink()]
    others += [name for path in found if (name := path.relative_to(folder).as_posix()) not in named]
    return sorted(set(others))


def _small(path: Path) -> bytes:
    """Return the content of a file. Raises OSError also for a large one, and as `_check_plain`."""
    _check_plain(path)
    with path.open("rb") as file:
        content = file.read(MAX_SMALL + 1)
    if len(content) > MAX_SMALL:
        raise OSError(errno.EFBIG, "it is too large", str(path))
    return content


def _check_plain(path: Path) -> None:
    """Raise OSError unless a path is a file: to open a pipe would block, and a device may have no end."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "not a file", str(path))


def checked(folder: Path) -> Manifest:
    """The manifest of a savepoint that is whole. Reads every byte. Raises SavepointError."""
    manifest = read(folder)
    refuse_damaged(folder, damage(folder, manifest))
    return manifest


def refuse_damaged(where: Path | ObjectAddress, found: Sequence[str]) -> None:
    """Raise SavepointError if any damage of a savepoint was found."""
    if found:
        more = f", and {len(found) - 3} more" if len(found) > 3 else ""
        raise damaged(str(where), f"{'; '.join(found[:3])}{more}")


def damaged(what: str, why: str) -> SavepointError:
    """Return the error for a savepoint, or a file of one, that is not as it was written."""
    return SavepointError(f"{what} is damaged: {why}", remedy=_DAMAGED)


def no_savepoint(where: Path | ObjectAddress, why: str) -> SavepointError:
    """Return the error for a place that is not a savepoint."""
    return SavepointError(f"{where} is no savepoint: {why}", remedy=_NO_SAVEPOINT)


def holds_others(where: Path | ObjectAddress, others: Sequence[str]) -> SavepointError:
    """Return the error for files of others in a savepoint that is to be deleted."""
    message = f"{where} holds what is not part of the savepoint: {', '.join(others[:3])}"
    return SavepointError(message, remedy="move it away, or delete the folder by hand")


def _dump(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, indent=1, ensure_ascii=False).encode()
