"""Savepoints in a folder: which there are, and the end of one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from eos.errors import SavepointError
from spark_jobs.savepoints import manifest as manifests
from spark_jobs.savepoints.manifest import Manifest
from spark_jobs.savepoints.take import PARTIAL
from spark_jobs.session.locked_dirs import is_abandoned


@dataclass(frozen=True, slots=True)
class Found:
    """A folder that is a savepoint, or was to become one."""

    folder: Path
    manifest: Manifest | None
    why: str = ""  # there is no manifest that can be read


def found_in(folder: Path) -> list[Found]:
    """The newest first. Raises SavepointError where the folder is not there."""
    try:
        paths = sorted(path for path in folder.iterdir() if path.is_dir())
    except FileNotFoundError:
        raise SavepointError(
            f"{folder} is not there", remedy="name the folder that savepoints were written to"
        ) from None
    except OSError as error:
        raise SavepointError(f"{folder} cannot be read: {error.strerror}") from error
    found = [each for path in paths for each in _found(path)]
    return sorted(found, key=lambda each: each.manifest.taken_at if each.manifest else 0.0, reverse=True)


def _found(path: Path) -> Iterator[Found]:
    if path.name.endswith(PARTIAL):
        if path.name.startswith("savepoint-"):
            yield Found(path, None, "unfinished: its writer was killed" if is_abandoned(path) else "is being written")
        return
    if (path / manifests.NAME).exists():
        try:
            yield Found(path, manifests.read(path))
        except SavepointError as error:
            yield Found(path, None, error.message)


def dispose(folder: Path) -> Manifest:
    """Delete a savepoint, and nothing else: only files that its manifest names, then folders that are empty.

    The manifest goes first: what a crash leaves is no savepoint any more. Raises SavepointError, with nothing deleted,
    for what is no savepoint, and for one that holds anything besides.
    """
    manifest = manifests.read(folder)
    if folder.is_symlink():
        raise SavepointError(f"{folder} is a link", remedy="name the folder that it leads to")
    if others := manifests.strangers(folder, manifest):
        message = f"{folder} holds what is not part of the savepoint: {', '.join(others[:3])}"
        raise SavepointError(message, remedy="move it away, or delete the folder by hand")
    try:
        (folder / manifests.NAME).unlink()
        for path in manifest.files:
            (folder / path).unlink(missing_ok=True)
        for empty in sorted((each for each in folder.rglob("*") if each.is_dir()), reverse=True):
            empty.rmdir()
        folder.rmdir()
    except OSError as error:
        message = f"{error.filename}: {error.strerror}"
        raise SavepointError(message, remedy="delete the rest of the folder by hand") from error
    return manifest
