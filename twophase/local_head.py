"""Head on a local disk: numbered files, created exclusively, never written twice (H21: no locks, no renames over)."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from eos.errors import HeadFormatError
from twophase.head import Versioned
from twophase.local_blobs import LocalBlobStore, create, naming, sweep, unusable
from wal.durable import sync_folder
from wal.private import make_durable, make_private

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
        self._is_swept = False
        with naming(folder):
            make_durable(self._head)
        self._records = self.blobs("records")

    def read(self) -> Versioned | None:
        """See HeadStore. A version may be cleaned away between the listing and the read, so that it lists again."""
        while versions := self._versions():
            try:
                return Versioned(versions[-1], self._path(versions[-1]).read_bytes())
            except FileNotFoundError:
                continue
            except OSError as error:
                raise unusable(self._head, error) from error
        return None

    def swap(self, expected: Versioned | None, value: bytes, needs: Sequence[str] = ()) -> bool:
        """See HeadStore. The link is the swap: it fails if the version exists, and appears with its whole content.

        A file is never written twice, so that the expected one can be compared before the link. Only a folder that was
        put back from a backup holds another one, or lacks it (H29).

        A version is cleaned away only when the newest is more than _KEPT above it. So while the newest is near, the
        link made a version that never existed. Otherwise this swap came too late to tell: refused, and its file means
        nothing.
        """
        version = expected.version + 1 if expected is not None else 1
        if not all(map(self._records.holds, needs)):
            return False
        if (expected is not None and not self._holds(expected)) or not create(self._path(version), value):
            return False
        if not self._is_swept:  # with the first swap, which is a driver's claim
            self._is_swept = True
            sweep(self._head)
            self._records.sweep()
        newest = self._versions()[-1]
        if newest - version >= _KEPT:
            return False
        self._clean(newest - _KEPT)
        return True

    def blobs(self, name: str) -> LocalBlobStore:
        with naming(self._folder):
            make_private(self._folder / name)
            sync_folder(self._folder)
        return LocalBlobStore(self._folder / name)

    def put_record(self, name: str, content: bytes) -> None:
        if not self._records.put(name, content) and self.get_record(name) != content:
            message = f"record {self._records.path(name)} exists with another content"
            raise HeadFormatError(message, remedy="restore the checkpoint location from a backup")

    def get_record(self, name: str) -> bytes:
        content = self._records.get(name)
        if content is None:
            message = f"record {self._records.path(name)} is missing, and head points at it"
            raise HeadFormatError(message, remedy="restore the checkpoint location from a backup")
        return content

    def delete_record(self, name: str) -> None:
        self._records.delete(name)

    def list_records(self) -> Sequence[str]:
        return self._records.names()

    def describe(self) -> str:
        """The folder."""
        return str(self._folder)

    def close(self) -> None:
        """Nothing is held open."""

    def _holds(self, expected: Versioned) -> bool:
        try:
            return self._path(expected.version).read_bytes() == expected.value
        except FileNotFoundError:
            return False
        except OSError as error:
            raise unusable(self._head, error) from error

    def _path(self, version: int) -> Path:
        return self._head / f"{version:020d}.json"

    def _versions(self) -> list[int]:
        # A glob would take a folder that it may not read for an empty one, and head for one that was never written.
        with naming(self._head), os.scandir(self._head) as entries:
            return sorted(int(entry.name[:-5]) for entry in entries if _VERSION.fullmatch(entry.name))

    def _clean(self, below: int) -> None:
        for version in self._versions():
            if version >= below:
                return
            with naming(self._head):
                self._path(version).unlink(missing_ok=True)
