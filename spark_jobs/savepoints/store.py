"""Savepoints in an object store or in HDFS: one object for each file, and the manifest last.

A store has no rename, so a savepoint is written under its name. It is one with its manifest: a put that creates
the object only where none exists. Objects without a manifest are an unfinished savepoint, which nothing uses.

Rules (H42; `tests/model/savepoints.py` tries every order of the requests):

- A writer publishes its manifest only after every other object is durable.
- A lost answer to the manifest is looked up, never repeated. If the look-up fails too, the writer deletes nothing: its
  manifest may arrive later.
- No process can know whether a writer elsewhere has ended, and no clocks are compared. So a user discards an unfinished
  savepoint. First a mark takes the name of the manifest, by the same kind of put. The writer's manifest is then
  refused, and the writer reports it. The mark stays.
- A disposal deletes the manifest first.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

from eos.errors import SavepointError
from spark_jobs.savepoints import manifest as manifests
from spark_jobs.savepoints.manifest import Entry, Manifest
from spark_jobs.savepoints.place import Found, Whole
from spark_jobs.savepoints.progress import Progress
from spark_jobs.session.locked_dirs import temporary
from twophase import faults
from wal.address import ObjectAddress
from wal.errors import ObjectExistsError, ObjectMissingError, ObjectNameError, StorageError, WalError
from wal.storage import TreeStorage, check_name
from wal.stores import open_storage

_log: Final = logging.getLogger("eos.savepoint")

_T = TypeVar("_T")
_R = TypeVar("_R")

DISCARDED: Final = b'{"kind": "eos-savepoint-discarded"}'
"""The mark: it has the name of the manifest."""

_AT_ONCE: Final = 8
"""Files that are sent or read at the same time."""
_CHUNK: Final = 1024 * 1024
_MAX_SMALL: Final = 64 * 1024 * 1024
"""Bytes of a manifest, or of another file that is read into memory."""
_OWN: Final = re.compile(r"savepoint-[0-9a-z]{1,6}-[0-9]+-[0-9a-f]{6,16}")
_OWN_FILE: Final = re.compile(
    "|".join(map(re.escape, (manifests.NAME, manifests.HEAD, manifests.RECORD, manifests.SPEC)))
    + rf"|{manifests.SPARK}/.*"
)
_UNFINISHED: Final = "unfinished: it has no manifest, and its writer may still be at work"
_DISCARDED: Final = "discarded: it was unfinished"


@contextmanager
def _naming() -> Iterator[None]:
    """Around requests to the store."""
    try:
        yield
    except WalError as error:
        raise SavepointError(error.message, remedy=error.remedy) from error


def _open(address: ObjectAddress) -> TreeStorage:
    with _naming():
        return open_storage(address)


def _each(jobs: Mapping[str, _T], do: Callable[[str, _T], _R]) -> Iterator[tuple[str, _R]]:
    """Do it for several jobs at a time; the first error ends all of them."""
    with ThreadPoolExecutor(_AT_ONCE, "eos-savepoint") as pool:
        yield from zip(jobs, pool.map(do, jobs, jobs.values()), strict=True)


class StorePlace:
    """A part of a store with a folder for each savepoint."""

    def __init__(self, address: ObjectAddress) -> None:
        """Send nothing. Raises SavepointError for options that cannot be right."""
        self._address = address
        self._storage = _open(address)

    def prepare(self) -> None:
        """See Place. Nothing: no process knows whether a writer has ended."""

    @contextmanager
    def begin(self, stem: str) -> Iterator[_Writing]:
        writing = _Writing(self._address.below(f"{stem}-{secrets.token_hex(8)}"))
        try:
            yield writing
        except BaseException:
            writing.give_up()
            raise

    def found(self) -> list[Found]:
        with _naming():
            names = self._storage.folders()
        addresses = {name: self._address.below(name) for name in names if _is_name(name)}
        found = [each for _, of_name in _each(addresses, _found) for each in of_name]
        return sorted(found, key=lambda each: each.manifest.taken_at if each.manifest else 0.0, reverse=True)


def _is_name(name: str) -> bool:
    """Whether a folder can be named by a URL."""
    with suppress(ObjectNameError):
        return bool(check_name(name))
    return False


def _found(name: str, address: ObjectAddress) -> list[Found]:
    savepoint = StoreSavepoint(address)
    try:
        content = savepoint.read_manifest()
        if content is None:
            return [Found(address, None, _UNFINISHED, is_unfinished=True)] if _OWN.fullmatch(name) else []
        if content == DISCARDED:
            return [Found(address, None, _DISCARDED, is_unfinished=True)]
        return [Found(address, savepoint.decode(content))]
    except SavepointError as error:
        if isinstance(error.__cause__, StorageError):
            raise  # nothing is known of it
        return [Found(address, None, error.message)]


class _Writing:
    """A savepoint under its own name, without its manifest."""

    def __init__(self, address: ObjectAddress) -> None:
        self._address = address
        self._storage = _open(address)
        self._begun: list[str] = []
        self._may_be_one = False  # its manifest may be in the store, now or later

    def write(self, texts: Mapping[str, bytes], files: Mapping[str, Path]) -> Mapping[str, Entry]:
        progress = Progress(f"writing {self._address}", sum(path.stat().st_size for path in files.values()))
        entries: dict[str, Entry] = {}
        sources: dict[str, bytes | Path] = {**texts, **files}
        with _naming():
            for path, entry in _each(sources, self._send):
                entries[path] = entry
                progress.add(entry.bytes)
        return entries

    def publish(self, manifest: bytes) -> ObjectAddress:
        """See Writing. One put. Raises SavepointError if a user has discarded the savepoint meanwhile."""
        self._may_be_one = True
        try:
            _put(self._storage, manifests.NAME, io.BytesIO(manifest))
        except ObjectExistsError as error:
            self._may_be_one = False
            message = f"{self._address} was discarded while it was written"
            remedy = "write another savepoint; discard an unfinished one only if its writer has ended"
            raise SavepointError(message, remedy=remedy) from error
        except StorageError as error:
            message = f"it is not known whether {self._address} became a savepoint: {error.message}"
            raise SavepointError(message, remedy="`eos savepoint list` shows it once the store answers") from error
        return self._address

    def give_up(self) -> None:
        """Delete the objects of this writer, unless they may be a savepoint. A failure of the store is a warning."""
        if self._may_be_one:
            return
        try:
            for _ in _each(dict.fromkeys(self._begun), lambda path, _: self._storage.delete(path)):
                pass
            self._storage.clear()
        except StorageError as error:
            _log.warning("%s stays unfinished: %s", self._address, error.message)

    def _send(self, path: str, source: bytes | Path) -> Entry:
        with source.open("rb") if isinstance(source, Path) else io.BytesIO(source) as content:
            self._begun.append(path)
            return _put(self._storage, path, content)


def _put(storage: TreeStorage, name: str, content: BinaryIO) -> Entry:
    """Create an object. Raises ObjectExistsError for one of other bytes, StorageError, ObjectNameError."""
    size, digest = 0, hashlib.sha256()
    writer = storage.create(name)
    try:
        while chunk := content.read(_CHUNK):
            digest.update(chunk)
            size += writer.write(chunk)
        writer.publish()
    finally:
        writer.discard()
    return Entry(size, digest.hexdigest())


class StoreSavepoint:
    """A savepoint whose files are objects."""

    def __init__(self, at: ObjectAddress) -> None:
        """Send nothing. Raises SavepointError for options that cannot be right."""
        self.at = at
        self._storage = _open(at)

    def manifest(self) -> Manifest:
        content = self.read_manifest()
        if content is None:
            with _naming():
                there = f"it has no {manifests.NAME}" if self._storage.below() else "nothing is there"
            raise manifests.no_savepoint(self.at, there)
        if content == DISCARDED:
            raise manifests.no_savepoint(self.at, "it was discarded before it was finished")
        return self.decode(content)

    def read_manifest(self) -> bytes | None:
        """Return the object of this name; None: there is none."""
        try:
            with _naming(), self._storage.open(manifests.NAME) as content:
                if content.seek(0, os.SEEK_END) > _MAX_SMALL:
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
        if entry is None or entry.bytes > _MAX_SMALL:
            raise manifests.damaged(str(self.at), f"{path} is missing, or too large")
        with _naming(), self._storage.open(path) as content:
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
        with _naming():
            self._storage.delete(manifests.NAME)
        self._delete(dict.fromkeys(manifest.files))
        return manifest

    def discard(self) -> None:
        """See Savepoint. Repeat it after an error."""
        with _naming():
            names = self._storage.below()
        if not names or not _OWN.fullmatch(self.at.prefix.rpartition("/")[2]):
            raise manifests.no_savepoint(self.at, "it is not unfinished either")
        if others := [name for name in names if not _OWN_FILE.fullmatch(name)]:
            raise manifests.holds_others(self.at, others)
        try:
            with _naming():
                _put(self._storage, manifests.NAME, io.BytesIO(DISCARDED))
        except SavepointError as error:
            if isinstance(error.__cause__, ObjectExistsError):
                message = f"{self.at} has a {manifests.NAME}: it is not unfinished"
                raise SavepointError(
                    message, remedy="`eos savepoint dispose` without --unfinished deletes it"
                ) from error
            raise
        with _naming():
            names = self._storage.below()  # after the mark: no manifest will name these
        self._delete({name: None for name in names if _OWN_FILE.fullmatch(name) and name != manifests.NAME})

    def _delete(self, names: Mapping[str, None]) -> None:
        """Delete these objects, which are no longer a savepoint, and folders that are empty then."""
        try:
            for _ in _each(names, lambda name, _: self._storage.delete(name)):
                pass
            self._storage.clear()
        except WalError as error:
            message = f"a part of {self.at} stays, and is not a savepoint: {error.message}"
            raise SavepointError(message, remedy="delete the rest by `eos savepoint dispose --unfinished`") from error

    def _strangers(self, manifest: Manifest) -> list[str]:
        with _naming():
            return sorted({*self._storage.below()} - {*manifest.files, manifests.NAME})

    def _damage(self, manifest: Manifest, target: Path | None) -> list[str]:
        """See Savepoint. `target`: a folder that gets the files. Raises OSError where it cannot be written."""
        progress = Progress(f"reading {self.at}", manifest.bytes)
        found = list[str]()
        for path, damage in _each(manifest.files, lambda path, entry: self._read(path, entry, target)):
            progress.add(manifest.files[path].bytes)
            found += [f"{path}: {damage}"] if damage else []
        return sorted(found) + [f"{path}: not part of the savepoint" for path in self._strangers(manifest)]

    def _read(self, path: str, entry: Entry, target: Path | None) -> str:
        """Return the damage of one file; empty: none. Reads no more bytes than the manifest names."""
        try:
            with _naming(), self._storage.open(path) as content, ExitStack() as stack:
                size = content.seek(0, os.SEEK_END)
                if size != entry.bytes:
                    return f"{size:,} bytes instead of {entry.bytes:,}"
                content.seek(0)
                file = None
                if target is not None:
                    (target / path).parent.mkdir(parents=True, exist_ok=True)
                    file = stack.enter_context((target / path).open("xb"))
                digest = hashlib.sha256()
                while chunk := content.read(_CHUNK):
                    digest.update(chunk)
                    if file is not None:
                        file.write(chunk)
        except SavepointError as error:
            if isinstance(error.__cause__, ObjectMissingError):
                return "it is missing"
            raise
        return "" if digest.hexdigest() == entry.sha256 else "its content does not match its hash"
