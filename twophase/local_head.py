"""Head on a local disk: numbered files, created exclusively, never written twice (H21: no locks, no renames over)."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

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
        link
        made a version that never existed. Otherwise this swap came too late to tell: refused, and its file means
        nothing.
        """
        target = self._path(expected + 1)
        partial = self._head / f".{secrets.token_hex(8)}.partial"
        _write_synced(partial, value)
        if not _link(partial, target):
            return False
        newest = self._versions()[-1]
        if newest - (expected + 1) >= _KEPT:
            return False
        self._clean(newest - _KEPT)
        return True

    def put_record(self, name: str, content: bytes) -> None:
        """See HeadStore."""
        target = self._records / name
        partial = self._records / f".{secrets.token_hex(8)}.partial"
        _write_synced(partial, content)
        if not _link(partial, target) and self.get_record(name) != content:
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


def _write_synced(path: Path, content: bytes) -> None:
    try:
        with path.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        path.unlink(missing_ok=True)
        message = f"cannot write {path}: {error.strerror}"
        raise HeadError(message, remedy="free space or permissions at the checkpoint location") from error


def _link(partial: Path, target: Path) -> bool:
    """Give the content its name; False if the name is taken. Either way the name is durable: who made it may not have
    lived to sync it.

    A folder that cannot be synced is a HeadError and not an unknown swap: the name may be there and yet not survive a
    power cut, so that finding it proves nothing. The next claim syncs the folder before anything is built on it.
    """
    with _naming(target.parent):
        try:
            os.link(partial, target)
            linked = True
        except FileExistsError:
            linked = False
        finally:
            partial.unlink()
        _sync_folder(target.parent)
    return linked


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
