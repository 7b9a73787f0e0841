"""The few calls to the operating system that `local` is made of, so that a test can stand in for the disk."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from wal.durable import sync_folder
from wal.private import make_durable

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
