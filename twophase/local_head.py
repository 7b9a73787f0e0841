"""Head on a local disk: numbered files, created exclusively, never written twice (H21: no locks, no renames over)."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from twophase.errors import HeadError, HeadFormatError
from twophase.head import Versioned

_KEPT: Final = 16
"""How many old versions stay. A swap that comes later than that is refused (see `swap`)."""

_VERSION: Final = re.compile(r"[0-9]{20}\.json")


class LocalHead:
    """A HeadStore in a folder: `head/<version>.json` and `records/<name>`.

    The folder must be on a filesystem whose hard links are atomic on this machine; network filesystems are refused
    before this class is made.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._head = folder / "head"
        self._records = folder / "records"
        self._is_swept = False
        with _naming(folder):
            for path in (self._head, self._records):
                path.mkdir(parents=True, exist_ok=True)
            _sync_folder(folder)
            _sync_folder(folder.parent)

    def read(self) -> Versioned | None:
        """See HeadStore. A version may be cleaned away between the listing and the read, so that it lists again."""
        while versions := self._versions():
            try:
                return Versioned(versions[-1], self._path(versions[-1]).read_bytes())
            except FileNotFoundError:
                continue
            except OSError as error:
                raise _unusable(self._head, error) from error
        return None

    def swap(self, expected: int, value: bytes) -> bool:
        """See HeadStore. The link is the swap: it fails if the version exists, and appears with its whole content.

        A version is cleaned away only when the newest is more than _KEPT above it. So while the newest is near, the
        link made a version that never existed. Otherwise this swap came too late to tell: refused, and its file means
        nothing.
        """
        target = self._path(expected + 1)
        if not _create(target, value):
            return False
        if not self._is_swept:  # with the first swap, which is a driver's claim
            self._is_swept = True
            _sweep(self._head)
            _sweep(self._records)
        newest = self._versions()[-1]
        if newest - (expected + 1) >= _KEPT:
            return False
        self._clean(newest - _KEPT)
        return True

    def put_record(self, name: str, content: bytes) -> None:
        """See HeadStore."""
        target = self._records / name
        if not _create(target, content) and self.get_record(name) != content:
            message = f"record {target} exists with another content"
            raise HeadFormatError(message, remedy="restore the checkpoint location from a backup")

    def get_record(self, name: str) -> bytes:
        """See HeadStore."""
        try:
            return (self._records / name).read_bytes()
        except FileNotFoundError:
            message = f"record {self._records / name} is missing, and head points at it"
            raise HeadFormatError(message, remedy="restore the checkpoint location from a backup") from None
        except OSError as error:
            raise _unusable(self._records, error) from error

    def delete_record(self, name: str) -> None:
        """See HeadStore."""
        with _naming(self._records):
            (self._records / name).unlink(missing_ok=True)

    def list_records(self) -> Sequence[str]:
        """See HeadStore."""
        with _naming(self._records):
            return sorted(path.name for path in self._records.iterdir() if not path.name.startswith("."))

    def describe(self) -> str:
        """The folder."""
        return str(self._folder)

    def close(self) -> None:
        """Nothing is held open."""

    def _path(self, version: int) -> Path:
        return self._head / f"{version:020d}.json"

    def _versions(self) -> list[int]:
        # A glob would take a folder that it may not read for an empty one, and head for one that was never written.
        with _naming(self._head), os.scandir(self._head) as entries:
            return sorted(int(entry.name[:-5]) for entry in entries if _VERSION.fullmatch(entry.name))

    def _clean(self, below: int) -> None:
        for version in self._versions():
            if version >= below:
                return
            with _naming(self._head):
                self._path(version).unlink(missing_ok=True)


def _create(target: Path, content: bytes) -> bool:
    """Give the content its name, whole and synced; False if the name is taken.

    Either way the name is durable: who made it may not have lived to sync it. A folder that cannot be synced is a
    HeadError and not an unknown swap: the name may be there and yet not survive a power cut, so that finding it proves
    nothing. The next claim syncs the folder before anything is built on it.
    """
    partial, file = _open_partial(target.parent)
    try:
        with file:
            try:
                if file.write(content) != len(content):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(file.fileno())
            except OSError as error:
                message = f"cannot write {partial}: {error.strerror}"
                raise HeadError(message, remedy="free space or permissions at the checkpoint location") from error
            with _naming(target.parent):
                linked = _link(partial, target)
                _sync_folder(target.parent)
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


def _open_partial(folder: Path) -> tuple[Path, BinaryIO]:
    """A new file, locked for as long as it is open: so `_sweep` knows that its writer lives."""
    while True:
        path = folder / f".{secrets.token_hex(8)}.partial"
        with _naming(folder):
            file = path.open("xb", buffering=0)  # closing it must not write once more
        with suppress(OSError):  # where there are no locks, nothing is swept either
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return path, file
        file.close()  # swept in the moment between


def _sweep(folder: Path) -> None:
    """Delete what drivers that died while they wrote have left.

    A file that somebody still writes is locked, also by a driver in another container, and stays: the system lets go of
    the lock when the process ends, however it ends. What cannot be deleted now is no reason to fail: it means nothing.
    """
    for path in folder.glob(".*.partial"):
        with suppress(OSError), path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


@contextmanager
def _naming(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _unusable(place, error) from error


def _unusable(place: Path, error: OSError) -> HeadError:
    message = f"head at {place} cannot be used: {error.strerror}"
    return HeadError(message, remedy="see that the checkpoint location is there, writable and not full")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
