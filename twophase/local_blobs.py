"""Immutable small files in a folder on a local disk, each whole and durable or not there (H21: no renames over)."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from eos.errors import HeadError
from wal.durable import sync_folder

_LOCATION: Final = "the checkpoint location"


class LocalBlobStore:
    """A twophase.head.BlobStore in a folder that is there."""

    poll_interval_s: Final = 0.2

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, name: str, content: bytes) -> bool:
        return create(self.path(name), content)

    def get(self, name: str) -> bytes | None:
        try:
            return self.path(name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise unusable(self._folder, error) from error

    def holds(self, name: str) -> bool:
        """Whether there is a content of this name. Raises HeadError."""
        with naming(self._folder):
            return self.path(name).exists()

    def delete(self, name: str) -> None:
        with naming(self._folder):
            self.path(name).unlink(missing_ok=True)

    def names(self) -> Sequence[str]:
        with naming(self._folder):
            return sorted(path.name for path in self._folder.iterdir() if not path.name.startswith("."))

    def path(self, name: str) -> Path:
        """Where it is, for messages."""
        return self._folder / name

    def sweep(self) -> None:
        """Delete what writers that died have left."""
        sweep(self._folder)


def create(target: Path, content: bytes) -> bool:
    """Give the content its name, whole and synced; False if the name is taken.

    Either way the name is durable: who made it may not have lived to sync it. A folder that cannot be synced is a
    HeadError and not an unknown swap: the name may be there and yet not survive a power cut, so that finding it proves
    nothing. The next claim syncs the folder before anything is built on it.
    """
    partial, file = open_partial(target.parent)
    try:
        with file:
            try:
                write_all(file, content)
                os.fsync(file.fileno())
            except OSError as error:
                message = f"cannot write {partial}: {error.strerror}"
                raise HeadError(message, remedy="free space or permissions at the checkpoint location") from error
            with naming(target.parent):
                linked = _link(partial, target)
                sync_folder(target.parent)
                return linked
    finally:
        with suppress(OSError):  # what stays is swept
            partial.unlink()


def _link(partial: Path, target: Path) -> bool:
    try:
        os.link(partial, target)
    except FileExistsError:
        return False
    return True


def open_partial(folder: Path) -> tuple[Path, BinaryIO]:
    """A new file, unbuffered, and locked for as long as it is open: so `sweep` knows that its writer lives."""
    while True:
        path = folder / f".{secrets.token_hex(8)}.partial"
        with naming(folder):
            file = path.open("xb", buffering=0)  # closing it must not write once more
        with suppress(OSError):  # where there are no locks, nothing is swept either
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return path, file
        file.close()  # swept in the moment between


def write_all(file: BinaryIO, content: bytes) -> None:
    """All of it. A disk that is getting full takes a part, and says so only the next time. Raises OSError."""
    if file.write(content) != len(content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def sweep(folder: Path) -> None:
    """Delete what drivers that died while they wrote have left.

    A file that somebody still writes is locked, also by a driver in another container, and stays: the system lets go of
    the lock when the process ends, however it ends. What cannot be deleted now is no reason to fail: it means nothing.
    """
    for path in folder.glob(".*.partial"):
        with suppress(OSError), path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


@contextmanager
def naming(place: Path, whole: str = _LOCATION) -> Iterator[None]:
    """Around a use of the disk: raises HeadError that names the place. `whole`: the folder that the user can mend."""
    try:
        yield
    except OSError as error:
        raise unusable(place, error, whole) from error


def unusable(place: Path, error: OSError, whole: str = _LOCATION) -> HeadError:
    """What to raise where the disk refuses."""
    message = f"{place} cannot be used: {error.strerror}"
    return HeadError(message, remedy=f"see that {whole} is there, writable and not full")
