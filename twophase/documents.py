"""Small documents that are replaced whole, beside head: they outlive the driver's machine where head does.

Where two drivers replace the same one, the last of them wins. So a document that decides has a name for each epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
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

    def names(self, folder: str) -> Sequence[str]:
        """Names in this folder, sorted and without it. Each document that was replaced is listed. Raises HeadError."""

    def delete(self, name: str) -> None:
        """Delete the document if it exists. Raises HeadError."""

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

    def names(self, folder: str) -> Sequence[str]:
        path = self._folder / folder
        with naming(path):
            try:
                return sorted(each.name for each in path.iterdir() if not each.name.startswith("."))
            except FileNotFoundError:
                return []

    def delete(self, name: str) -> None:
        path = self._folder / name
        with naming(path):
            path.unlink(missing_ok=True)

    def place(self, name: str) -> str:
        return str(self._folder / name)
