"""Small documents that are replaced whole, beside head: they outlive the driver's machine where head does.

No decision depends on one. Where two drivers replace the same one, the last of them wins.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from twophase.local_blobs import naming
from wal.private import replace_durably


class Documents(Protocol):
    """Called by the driver's threads and by commands. Each call may block on the disk or the network."""

    def read(self, name: str) -> bytes | None:
        """The content; None if it does not exist. Raises HeadError."""

    def replace(self, name: str, content: bytes) -> None:
        """Have this content, durably. A reader sees this one or the one before. Raises HeadError."""

    def place(self, name: str) -> str:
        """Where it is, for messages."""


class LocalDocuments:
    """See Documents. A name may have folders."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, name: str) -> bytes | None:
        path = self._folder / name
        with naming(path):
            try:
                return path.read_bytes()
            except FileNotFoundError:
                return None

    def replace(self, name: str, content: bytes) -> None:
        path = self._folder / name
        with naming(path):
            replace_durably(path, content)

    def place(self, name: str) -> str:
        return str(self._folder / name)
