"""A Storage in a folder of a local disk: written aside, synced, linked into place, and the folder synced.

`Files` has the few calls to the operating system that this takes, so that a test can stand in for the disk.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from wal.durable import sync_folder
from wal.errors import ObjectExistsError, ObjectMissingError, StorageError
from wal.filesystem import refuse_network_filesystem
from wal.private import make_durable
from wal.storage import check_name, in_folder, to_sweep, unfinished_in

_BUFFER_BYTES: Final = 1024 * 1024


class File(Protocol):
    """An open file that is being written."""

    def write(self, data: bytes | memoryview, /) -> int:
        """Append the bytes, and return their number."""

    def sync(self) -> None:
        """Return when every byte so far would survive a power cut."""

    def close(self) -> None:
        """Let go of it. Idempotent; promises nothing about the bytes."""


class Files(Protocol):
    """POSIX as far as it is needed here. Every call may raise OSError."""

    def make_folder(self, path: Path) -> None:
        """Create a folder and its parents. Its path survives a power cut, whoever created it. Idempotent."""

    def create(self, path: Path) -> File:
        """Create a file that must not exist."""

    def open(self, path: Path) -> BinaryIO:
        """Open for reading."""

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name, which must be free: atomic, and never over another file (a rename would be)."""

    def unlink(self, path: Path) -> None:
        """Take a name away."""

    def sync_folder(self, path: Path) -> None:
        """Return when every name given and taken so far would survive a power cut."""

    def list(self, path: Path) -> Sequence[str]:
        """Names of what lies in a folder and is no folder."""


class _OsFile:
    def __init__(self, path: Path) -> None:
        self._file = path.open("xb", buffering=_BUFFER_BYTES)

    def write(self, data: bytes | memoryview, /) -> int:
        return self._file.write(data)

    def sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


class OsFiles:
    """The real thing. See Files."""

    def make_folder(self, path: Path) -> None:
        make_durable(path)

    def create(self, path: Path) -> File:
        return _OsFile(path)

    def open(self, path: Path) -> BinaryIO:
        return path.open("rb")

    def link(self, source: Path, target: Path) -> None:
        os.link(source, target)

    def unlink(self, path: Path) -> None:
        path.unlink()

    def sync_folder(self, path: Path) -> None:
        sync_folder(path)

    def list(self, path: Path) -> Sequence[str]:
        with os.scandir(path) as entries:
            return [entry.name for entry in entries if not entry.is_dir()]


# A leading dot is no object's name, so that what is unfinished can never be taken for an object.
_UNFINISHED: Final = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{8}\.unfinished")


class LocalStorage:
    """See Storage. A folder that `prepare` has not made is made by the first `create`; until then nothing is in it."""

    def __init__(self, folder: Path, files: Files | None = None) -> None:
        """`files` stands in for the operating system in tests. Raises NetworkFilesystemError."""
        if files is None:
            refuse_network_filesystem(folder)
        self._folder = folder
        self._files = files or OsFiles()

    def prepare(self, folder: str) -> None:
        path = self._folder / check_name(folder)
        try:
            self._files.make_folder(path)
        except OSError as error:
            raise _failed("make", path, error) from error

    def create(self, name: str) -> LocalWriter:
        path = self._folder / check_name(name)
        partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.unfinished")
        try:
            try:
                return LocalWriter(self._files, partial, path)
            except FileNotFoundError:  # nobody has prepared the folder
                self._files.make_folder(path.parent)
                return LocalWriter(self._files, partial, path)
        except OSError as error:
            raise _failed("begin", path, error) from error

    def open(self, name: str) -> BinaryIO:
        path = self._folder / check_name(name)
        try:
            return self._files.open(path)
        except FileNotFoundError as error:
            message = f"{path} does not exist"
            raise ObjectMissingError(message) from error
        except OSError as error:
            raise _failed("read", path, error) from error

    def delete(self, name: str) -> None:
        self._remove(self._folder / check_name(name))

    def names(self, folder: str = "") -> Sequence[str]:
        return sorted(in_folder(folder, entry) for entry in self._list(folder) if not entry.startswith("."))

    def unfinished(self, folder: str = "") -> Sequence[str]:
        return unfinished_in(folder, self._list(folder), _UNFINISHED)

    def sweep(self, names: Collection[str]) -> None:
        """See Storage. Lists each folder once."""
        for folder, entry in to_sweep(names, self._list, _UNFINISHED):
            self._remove(self._folder / folder / entry)

    def describe(self) -> str:
        """The folder."""
        return str(self._folder)

    def _list(self, folder: str) -> Sequence[str]:
        path = self._folder / check_name(folder) if folder else self._folder
        try:
            return self._files.list(path)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise _failed("list", path, error) from error

    def _remove(self, path: Path) -> None:
        try:
            self._files.unlink(path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise _failed("remove", path, error) from error


class LocalWriter:
    """An object that is written to a local file."""

    def __init__(self, files: Files, partial: Path, target: Path) -> None:
        self._files = files
        self._partial = partial
        self._target = target
        self._file: File | None = files.create(partial)

    def write(self, data: bytes | memoryview, /) -> int:
        try:
            return self._open_file().write(data)
        except OSError as error:
            raise _failed("write", self._target, error) from error

    def publish(self) -> None:
        """See ObjectWriter. The order is the promise: bytes synced, name given, name synced."""
        file = self._open_file()
        try:
            file.sync()
            file.close()
            self._files.link(self._partial, self._target)
            self._files.sync_folder(self._target.parent)
        except FileExistsError as error:
            message = f"{self._target} exists already"
            raise ObjectExistsError(message, remedy="nothing was overwritten; two writers used one name") from error
        except FileNotFoundError as error:
            message = f"{self._target}: what was written for it has been swept away"
            raise ObjectMissingError(message, remedy="a newer owner of the folder has ended this writer") from error
        except OSError as error:
            raise _failed("publish", self._target, error) from error
        self.discard()

    def discard(self) -> None:
        file, self._file = self._file, None
        if file is None:
            return
        for step in (file.close, lambda: self._files.unlink(self._partial)):
            try:
                step()
            except OSError:
                continue  # what stays is unfinished by name, and swept by the folder's owner

    def _open_file(self) -> File:
        if self._file is None:
            message = f"{self._target} is no longer being written"
            raise StorageError(message)
        return self._file


def _failed(action: str, path: Path, error: OSError) -> StorageError:
    message = f"cannot {action} {path}: {error.strerror or error}"
    return StorageError(message, remedy="free space, or set right the permissions or the disk, at this folder")
