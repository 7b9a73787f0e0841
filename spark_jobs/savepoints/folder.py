"""Savepoints in a folder of this machine: written under a name that nothing uses, synced, and renamed."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from eos.errors import SavepointError
from spark_jobs.query.state_files import hash_of
from spark_jobs.savepoints import manifest as manifests
from spark_jobs.savepoints.manifest import Entry, Manifest
from spark_jobs.savepoints.place import Found, Whole
from spark_jobs.session.locked_dirs import LOCK, is_abandoned, locked, sweep
from wal.durable import sync, sync_folders
from wal.private import make_durable

PARTIAL: Final = ".partial"
"""End of the name of a folder that is being written, or was when its writer died."""


@dataclass(frozen=True, slots=True)
class FolderPlace:
    """See Place. A writer holds a lock in its folder: others know by it when the writer has ended."""

    folder: Path

    def prepare(self) -> None:
        make_durable(self.folder)
        sweep(self.folder.glob(f"savepoint-*{PARTIAL}"))

    @contextmanager
    def begin(self, stem: str) -> Iterator[_Writing]:
        target = self.folder / f"{stem}-{secrets.token_hex(3)}"
        partial = target.with_name(target.name + PARTIAL)
        with locked(partial):
            yield _Writing(partial, target)

    def found(self) -> list[Found]:
        if not self.folder.exists():
            return []
        try:
            paths = sorted(path for path in self.folder.iterdir() if path.is_dir())
        except OSError as error:
            message = f"{self.folder} cannot be read: {error.strerror}"
            raise SavepointError(message, remedy="name the folder that savepoints were written to") from error
        found = [each for path in paths for each in _found(path)]
        return sorted(found, key=lambda each: each.manifest.taken_at if each.manifest else 0.0, reverse=True)


def _found(path: Path) -> Iterator[Found]:
    if path.name.endswith(PARTIAL):
        if path.name.startswith("savepoint-"):
            why = "unfinished: its writer was killed" if is_abandoned(path) else "is being written"
            yield Found(path, None, why, is_unfinished=True)
        return
    if (path / manifests.NAME).exists():
        try:
            yield Found(path, manifests.read(path))
        except SavepointError as error:
            yield Found(path, None, error.message)


@dataclass(frozen=True, slots=True)
class _Writing:
    """A savepoint in a folder that nothing uses."""

    partial: Path
    target: Path

    def write(self, texts: Mapping[str, bytes], files: Mapping[str, Path]) -> Mapping[str, Entry]:
        entries = {path: _store(self.partial / path, content) for path, content in texts.items()}
        entries |= {path: _copy(source, self.partial / path) for path, source in files.items()}
        sync_folders(self.partial)
        return entries

    def publish(self, manifest: bytes) -> Path:
        _store(self.partial / manifests.NAME, manifest)
        (self.partial / LOCK).unlink()
        sync(self.partial)  # after the unlink: a lock file that a power cut brings back is not part of the savepoint
        self.partial.rename(self.target)
        sync(self.target.parent)
        return self.target


def _store(path: Path, content: bytes) -> Entry:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return Entry(*hash_of(path))


def _copy(source: Path, target: Path) -> Entry:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    sync(target)
    return Entry(*hash_of(target))


@dataclass(frozen=True, slots=True)
class FolderSavepoint:
    """A savepoint in its own folder."""

    at: Path

    def manifest(self) -> Manifest:
        return manifests.read(self.at)

    def damage(self, manifest: Manifest) -> list[str]:
        return manifests.damage(self.at, manifest)

    def content(self, path: str, manifest: Manifest) -> bytes:
        try:
            return (self.at / path).read_bytes()
        except OSError as error:
            raise SavepointError(f"{self.at / path} cannot be read: {error.strerror}") from error

    @contextmanager
    def opened(self, scratch: Path) -> Iterator[Whole]:
        yield Whole(self.at, manifests.checked(self.at))

    def dispose(self) -> Manifest:
        """See Savepoint. Deletes the files that the manifest names, then folders that are empty."""
        folder, manifest = self.at, self.manifest()
        if folder.is_symlink():
            raise SavepointError(f"{folder} is a link", remedy="name the folder that it leads to")
        if others := manifests.strangers(folder, manifest):
            raise manifests.holds_others(folder, others)
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

    def discard(self) -> None:
        message = f"{self.at} is a folder"
        remedy = (
            "the next savepoint that is written beside it deletes the files of a killed writer; or delete them by hand"
        )
        raise SavepointError(message, remedy=remedy)
