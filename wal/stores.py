"""The client for an address: of S3, Google Cloud Storage and Azure by obstore, of HDFS by hdfs-native."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from wal.address import ObjectAddress
from wal.storage import Storage

if TYPE_CHECKING:
    from wal.values import Found, Tag


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


def open_objects(address: ObjectAddress) -> ConditionalObjects:
    """Return the small objects below an address. Sends nothing. Raises StorageRefusedError for wrong options."""
    if address.scheme == "hdfs":
        from wal.hdfs_objects import HdfsObjects

        return HdfsObjects(address)
    from wal.small_objects import SmallObjects  # loads obstore

    return SmallObjects(address)


def open_storage(address: ObjectAddress) -> Storage:
    """Return the storage below an address. Sends nothing. Raises StorageRefusedError for wrong options."""
    if address.scheme == "hdfs":
        from wal.hdfs_storage import HdfsStorage

        return HdfsStorage(address)
    from wal.object import ObjectStorage  # loads obstore

    return ObjectStorage(address)


def module_of(address: ObjectAddress) -> str:
    """Return the module that `open_storage` loads, for processes that import it before their first task."""
    return "wal.hdfs_storage" if address.scheme == "hdfs" else "wal.object"
