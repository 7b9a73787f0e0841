"""Small objects that are replaced only where they are as expected: what head needs of a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from wal.address import ObjectAddress


@dataclass(frozen=True, slots=True)
class Tag:
    """How a store names the content of an object: another content has another tag."""

    e_tag: str | None
    version: str | None  # of Google Cloud Storage: its generation


@dataclass(frozen=True, slots=True)
class Found:
    """An object as a read has found it."""

    content: bytes
    tag: Tag


class ConditionalObjects(Protocol):
    """Small objects below one address. May be used by several threads; each call blocks.

    An object that `create` or `replace` has written is never the object of a `swap`. Raises StorageError;
    StorageRefusedError where no repetition helps.
    """

    address: ObjectAddress

    def read(self, name: str) -> Found | None:
        """Return the newest content; None: the object does not exist."""

    def holds(self, name: str) -> bool:
        """Whether an object of this name exists."""

    def create(self, name: str, content: bytes) -> bool:
        """Create the object; False if the name is taken by another content. It is never visible in parts."""

    def replace(self, name: str, content: bytes) -> None:
        """Create the object, or replace the existing one, in one step."""

    def swap(self, name: str, expected: Tag | None, content: bytes) -> Tag | None:
        """Replace the object if it is the expected one (None: it does not exist). Return its tag; else None.

        Sent once. After a StorageError that is retriable it may have landed, or may land later.
        """

    def delete(self, name: str) -> None:
        """Delete the object if it exists."""

    def names(self, folder: str) -> Sequence[str]:
        """Names in this part of the prefix (empty, or with `/` at its end), sorted and without it."""

    def place(self, name: str) -> str:
        """Where it is, for messages."""
