"""One savepoint in an object store: read, verified, downloaded and deleted. The rules are in `store`."""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from eos.errors import SavepointError
from spark_jobs.savepoints import manifest as manifests
from spark_jobs.savepoints.manifest import Entry, Manifest
from spark_jobs.savepoints.place import Whole
from spark_jobs.savepoints.store_requests import (
    CHUNK_BYTES,
    Progress,
    delete,
    in_parallel,
    naming,
    open_at,
    put,
)
from spark_jobs.session.locked_dirs import temporary
from twophase import faults
from wal.address import ObjectAddress
from wal.errors import ObjectExistsError, ObjectMissingError, ObjectNameError, WalError
from wal.storage import check_name

DISCARDED: Final = b'{"kind": "eos-savepoint-discarded"}'
"""The mark: it has the name of the manifest."""

OWN: Final = re.compile(r"savepoint-[0-9a-z]{1,6}-[0-9]+-[0-9a-f]{6,16}")
"""A name that a writer has given to a savepoint."""

_TEXTS: Final = (manifests.NAME, manifests.HEAD, manifests.RECORD, manifests.SPEC)
_OWN_FILE: Final = re.compile("|".join(map(re.escape, _TEXTS)) + rf"|{manifests.SPARK}/.*")


class StoreSavepoint:
    """A savepoint whose files are objects."""

    def __init__(self, at: ObjectAddress) -> None:
        """Send nothing. Raises SavepointError for options that cannot be right."""
        self.at = at
        self._storage = open_at(at)

    def manifest(self) -> Manifest:
        content = self.read_manifest()
        if content is None:
            with naming():
                there = f"it has no {manifests.NAME}" if self._storage.below() else "nothing is there"
            raise manifests.no_savepoint(self.at, there)
        if content == DISCARDED:
            raise manifests.no_savepoint(self.at, "it was discarded before it was finished")
        return self.decode(content)

    def read_manifest(self) -> bytes | None:
        """Return the object of this name; None: there is none."""
        try:
            with naming(), self._storage.open(manifests.NAME) as content:
                if content.seek(0, os.SEEK_END) > manifests.MAX_SMALL:
                    raise manifests.damaged(f"{self.at}/{manifests.NAME}", "it is too large")
                content.seek(0)
                return content.read()
        except SavepointError as error:
            if isinstance(error.__cause__, ObjectMissingError):
                return None
            raise

    def decode(self, content: bytes) -> Manifest:
        """Return the manifest. Raises SavepointError also for a file that no store can hold under its name."""
        manifest = manifests.decode(content, self.at)
        try:
            for path in manifest.files:
                check_name(path)
        except ObjectNameError as error:
            raise manifests.damaged(f"{self.at}/{manifests.NAME}", error.message) from error
        return manifest

    def damage(self, manifest: Manifest) -> list[str]:
        """See Savepoint. Keeps nothing of the bytes."""
        return self._damage(manifest, None)

    def content(self, path: str, manifest: Manifest) -> bytes:
        entry = manifest.files.get(path)
        if entry is None or entry.bytes > manifests.MAX_SMALL:
            raise manifests.damaged(str(self.at), f"{path} is missing, or too large")
        with naming(), self._storage.open(path) as content:
            return content.read(entry.bytes)

    @contextmanager
    def opened(self, scratch: Path) -> Iterator[Whole]:
        """See Savepoint. The copy is private, and deleted after the block or, after a kill, by the next one."""
        manifest = self.manifest()
        with ExitStack() as stack:
            try:
                folder = stack.enter_context(temporary(scratch / "download")) / "savepoint"
                found = self._damage(manifest, folder)
            except OSError as error:
                message = f"{self.at} cannot be downloaded: {error.filename or scratch}: {error.strerror}"
                raise SavepointError(
                    message, remedy="see that there is room for it at the checkpoint location"
                ) from error
            manifests.refuse_damaged(self.at, found)
            faults.point("savepoint-downloaded", manifest.checkpoint_id)
            yield Whole(folder, manifest)

    def dispose(self) -> Manifest:
        manifest = self.manifest()
        if others := self._strangers(manifest):
            raise manifests.holds_others(self.at, others)
        with naming():
            self._storage.delete(manifests.NAME)
        self._delete(manifest.files)
        return manifest

    def discard(self) -> None:
        """See Savepoint. Repeat it after an error."""
        with naming():
            names = self._storage.below()
        if not names or not OWN.fullmatch(self.at.prefix.rpartition("/")[2]):
            raise manifests.no_savepoint(self.at, "it is not unfinished either")
        if others := [name for name in names if not _OWN_FILE.fullmatch(name)]:
            raise manifests.holds_others(self.at, others)
        try:
            with naming():
                put(self._storage, manifests.NAME, io.BytesIO(DISCARDED))
        except SavepointError as error:
            if isinstance(error.__cause__, ObjectExistsError):
                message = f"{self.at} has a {manifests.NAME}: it is not unfinished"
                raise SavepointError(
                    message, remedy="`eos savepoint dispose` without --unfinished deletes it"
                ) from error
            raise
        with naming():
            names = self._storage.below()  # after the mark: no manifest will name these
        self._delete(name for name in names if _OWN_FILE.fullmatch(name) and name != manifests.NAME)

    def _delete(self, names: Iterable[str]) -> None:
        """Delete these objects, which are no longer a savepoint, and folders that are empty then."""
        try:
            delete(self._storage, names)
        except WalError as error:
            message = f"a part of {self.at} stays, and is not a savepoint: {error.message}"
            raise SavepointError(message, remedy="delete the rest by `eos savepoint dispose --unfinished`") from error

    def _strangers(self, manifest: Manifest) -> list[str]:
        with naming():
            return sorted({*self._storage.below()} - {*manifest.files, manifests.NAME})

    def _damage(self, manifest: Manifest, target: Path | None) -> list[str]:
        """See Savepoint. `target`: a folder that gets the files. Raises OSError where it cannot be written."""
        progress = Progress(f"reading {self.at}", manifest.bytes)
        found = list[str]()
        for path, damage in in_parallel(manifest.files, lambda path, entry: self._read(path, entry, target)):
            progress.add(manifest.files[path].bytes)
            found += [f"{path}: {damage}"] if damage else []
        others = (f"{path}: not part of the savepoint" for path in self._strangers(manifest))
        return [*sorted(found), *manifests.unnamed(manifest), *others]

    def _read(self, path: str, entry: Entry, target: Path | None) -> str:
        """Return the damage of one file; empty: none. Reads no more bytes than the manifest names."""
        try:
            with naming(), self._storage.open(path) as content, ExitStack() as stack:
                size = content.seek(0, os.SEEK_END)
                if size != entry.bytes:
                    return f"{size:,} bytes instead of {entry.bytes:,}"
                content.seek(0)
                file = None
                if target is not None:
                    (target / path).parent.mkdir(parents=True, exist_ok=True)
                    file = stack.enter_context((target / path).open("xb"))
                digest = hashlib.sha256()
                while chunk := content.read(CHUNK_BYTES):
                    digest.update(chunk)
                    if file is not None:
                        file.write(chunk)
        except SavepointError as error:
            if isinstance(error.__cause__, ObjectMissingError):
                return "it is missing"
            raise
        return "" if digest.hexdigest() == entry.sha256 else "its content does not match its hash"
