"""Head in an object store: one object that is replaced only where it still is the expected one, and records beside it.

`head` holds the version and the value. Nothing expires, and nothing is locked. A swap without an answer is not
repeated: it may have landed, or may land later (HeadUnknownError). One that lands late finds another object, and
changes nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final

from eos.errors import HeadAccessError, HeadFormatError, HeadUnknownError
from twophase.head import Versioned, naming_storage
from wal.address import ObjectAddress
from wal.conditional_objects import ConditionalObjects, Tag
from wal.errors import StorageError, StorageRefusedError
from wal.stores import open_objects

_HEAD: Final = "head"
_DIGITS: Final = 20  # of the version, in front of the value


class ObjectBlobStore:
    """A twophase.head.BlobStore below a prefix. A look at its names is a listing, which stores charge more for."""

    poll_interval_s: Final = 5.0

    def __init__(self, objects: ConditionalObjects, folder: str) -> None:
        self._objects = objects
        self._folder = f"{folder}/"

    def put(self, name: str, content: bytes) -> bool:
        """See BlobStore. True also where it holds this very content."""
        with naming_storage():
            return self._objects.create(self._folder + name, content)

    def get(self, name: str) -> bytes | None:
        with naming_storage():
            found = self._objects.read(self._folder + name)
        return found.content if found is not None else None

    def holds(self, name: str) -> bool:
        """Whether there is a content of this name. Raises HeadError."""
        with naming_storage():
            return self._objects.holds(self._folder + name)

    def delete(self, name: str) -> None:
        with naming_storage():
            self._objects.delete(self._folder + name)

    def names(self) -> Sequence[str]:
        with naming_storage():
            return self._objects.names(self._folder)


class ObjectHead:
    """twophase.head.HeadStore for one pipeline, below the prefix of an address."""

    def __init__(self, address: ObjectAddress) -> None:
        """Sends nothing. Raises HeadAccessError for options that cannot be right."""
        with naming_storage():
            self._objects = open_objects(address)
        self._records = self.blobs("records")
        self._newest: tuple[Versioned, Tag] | None = None
        """The newest value that a read or swap has seen, with its tag. Threads may replace it at any time."""

    def read(self) -> Versioned | None:
        with naming_storage():
            found = self._objects.read(_HEAD)
        if found is None:
            return None
        version, value = found.content[:_DIGITS], found.content[_DIGITS + 1 :]
        if not version.isdigit() or len(version) != _DIGITS:
            message = f"{self._objects.place(_HEAD)} is not the head of a pipeline"
            raise HeadFormatError(message, remedy="restore it from an older version of the object, or from a backup")
        seen = Versioned(int(version), value)
        self._newest = seen, found.tag
        return seen

    def swap(self, expected: Versioned | None, value: bytes, needs: Sequence[str] = ()) -> bool:
        """See HeadStore. The store compares the tag, which belongs to the expected value."""
        if not all(map(self._records.holds, needs)):
            return False
        tag = self._tag_of(expected) if expected is not None else None
        if expected is not None and tag is None:
            return False
        swapped = Versioned(expected.version + 1 if expected is not None else 1, value)
        try:
            landed = self._objects.swap(_HEAD, tag, b"%0*d\n" % (_DIGITS, swapped.version) + value)
        except StorageRefusedError as error:
            raise HeadAccessError(error.message, remedy=error.remedy) from error
        except StorageError as error:
            raise HeadUnknownError(error.message, remedy=error.remedy) from error
        if landed is not None:
            self._newest = swapped, landed
        return landed is not None

    def _tag_of(self, expected: Versioned) -> Tag | None:
        """None where the object has another version or value."""
        if self._newest is None or self._newest[0] != expected:
            self.read()
        newest = self._newest
        return newest[1] if newest is not None and newest[0] == expected else None

    def require_conditions(self) -> None:
        """Refuse a store that ignores the conditions of puts. Called at a start. Some requests; raises HeadError.

        With such a store two drivers would both decide. Raises HeadAccessError.
        """
        name = f"probe/{secrets.token_hex(8)}"
        with naming_storage():
            try:
                first = self._objects.swap(name, None, b"one")
                honours_none = first is not None and self._objects.swap(name, None, b"two") is None
                swapped = self._objects.swap(name, first, b"three") if honours_none else None
                honours_match = swapped is not None and self._objects.swap(name, first, b"four") is None
            finally:
                self._objects.delete(name)
        if not (honours_none and honours_match):
            ignored = "If-Match" if honours_none else "If-None-Match"
            message = f"{self.describe()}: the store does not honour {ignored}, so two drivers could both decide"
            remedy = "use a store that does: S3, Google Cloud Storage, Azure, or a recent version of this one"
            raise HeadAccessError(message, remedy=remedy)

    def blobs(self, name: str) -> ObjectBlobStore:
        """See HeadStore. A prefix is there whenever it is used."""
        return ObjectBlobStore(self._objects, name)

    def put_record(self, name: str, content: bytes) -> None:
        if not self._records.put(name, content):
            message = f"record {name} in {self.describe()} exists with another content"
            raise HeadFormatError(message, remedy="something else wrote it; do not go on")

    def get_record(self, name: str) -> bytes:
        content = self._records.get(name)
        if content is None:
            message = f"record {name} is missing in {self.describe()}, and head points at it"
            raise HeadFormatError(message, remedy="restore the object, from its older version or from a backup")
        return content

    def delete_record(self, name: str) -> None:
        self._records.delete(name)

    def list_records(self) -> Sequence[str]:
        return self._records.names()

    def describe(self) -> str:
        """The URL."""
        return str(self._objects.address)

    def close(self) -> None:
        """Connections end with their client."""


class ObjectDocuments:
    """twophase.documents.Documents below the prefix of an address."""

    def __init__(self, address: ObjectAddress) -> None:
        """Sends nothing. Raises HeadAccessError for options that cannot be right."""
        with naming_storage():
            self._objects = open_objects(address)

    def read(self, name: str) -> bytes | None:
        with naming_storage():
            found = self._objects.read(name)
        return found.content if found is not None else None

    def replace(self, name: str, content: bytes) -> None:
        with naming_storage():
            self._objects.replace(name, content)

    def names(self, folder: str) -> Sequence[str]:
        with naming_storage():
            return self._objects.names(f"{folder}/")

    def delete(self, name: str) -> None:
        with naming_storage():
            self._objects.delete(name)

    def place(self, name: str) -> str:
        return self._objects.place(name)
