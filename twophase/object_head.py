"""Head in an object store: one object that is replaced only where it still is the expected one, and records beside it.

`head` holds the version and the value. A swap is a put with `If-Match` (on Google Cloud Storage: of that generation),
or with `If-None-Match: *` for the first one. S3, Azure and Google Cloud Storage compare and replace in one step, and
whoever reads afterwards gets the new object: a reader lists nothing, so that a stale list cannot mislead it.

A put without an answer is never sent again: it may have landed, or may land later (HeadUnknownError). One that lands
late finds another object, and changes nothing. Nothing expires and nothing is locked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, cast

import obstore
from obstore.exceptions import AlreadyExistsError, PreconditionError

from eos.errors import HeadAccessError, HeadError, HeadFormatError, HeadUnknownError
from twophase.head import Versioned
from wal.errors import StorageError, StorageRefusedError
from wal.object import ONCE, connect
from wal.refusals import Failure, failed

if TYPE_CHECKING:
    from obstore import UpdateVersion
    from obstore.store import ObjectStore

    from wal.address import ObjectAddress

_HEAD: Final = "head"
_DIGITS: Final = 20  # of the version, in front of the value

_REQUEST_S: Final = 20.0


class ObjectBlobStore:
    """A twophase.head.BlobStore below a prefix. Each look at its names is a listing, which a store charges for."""

    poll_interval_s: Final = 5.0

    def __init__(self, address: ObjectAddress, store: ObjectStore, folder: str) -> None:
        self._address = address
        self._store = store
        self._folder = f"{folder}/"

    def put(self, name: str, content: bytes) -> bool:
        """See BlobStore. A put that was sent twice, since its answer was lost, finds its own content."""
        try:
            with naming(self._address, f"write {self._folder}{name}"):
                obstore.put(self._store, self._folder + name, content, mode="create", use_multipart=False)
        except (AlreadyExistsError, PreconditionError):
            return self.get(name) == content
        return True

    def get(self, name: str) -> bytes | None:
        try:
            with naming(self._address, f"read {self._folder}{name}"):
                return bytes(obstore.get(self._store, self._folder + name).bytes())
        except FileNotFoundError:
            return None

    def holds(self, name: str) -> bool:
        """Whether there is a content of this name. Raises HeadError."""
        try:
            with naming(self._address, f"look for {self._folder}{name}"):
                obstore.head(self._store, self._folder + name)
        except FileNotFoundError:
            return False
        return True

    def delete(self, name: str) -> None:
        try:
            with naming(self._address, f"delete {self._folder}{name}"):
                obstore.delete(self._store, self._folder + name)
        except FileNotFoundError:
            return

    def names(self) -> Sequence[str]:
        with naming(self._address, f"list {self._folder}"):
            found = obstore.list_with_delimiter(self._store, self._folder)
        names = (each["path"].removeprefix(self._folder) for each in found["objects"])
        return sorted(name for name in names if name)  # some tools put the folder in


class ObjectHead:
    """twophase.head.HeadStore for one pipeline, below the prefix of an address."""

    def __init__(self, address: ObjectAddress) -> None:
        """Sends nothing. Raises HeadAccessError for options that cannot be right."""
        self._address = address
        try:
            self._store = connect(address, _REQUEST_S)
            self._swapping = connect(address, _REQUEST_S, ONCE)
        except Failure as error:
            message = f"cannot use {address}: {address.mask(str(error).partition(chr(10))[0])}"
            raise HeadAccessError(message, remedy="correct the options of the object store") from error
        self._records = self.blobs("records")
        self._newest: tuple[Versioned, UpdateVersion] | None = None
        """What the newest read or swap has seen, and how the store names it. Threads may replace it at any time."""

    def read(self) -> Versioned | None:
        try:
            with naming(self._address, "read head"):
                found = obstore.get(self._store, _HEAD)
                content = bytes(found.bytes())
        except FileNotFoundError:
            return None
        version, value = content[:_DIGITS], content[_DIGITS + 1 :]
        if not version.isdigit() or len(version) != _DIGITS:
            message = f"{self._address}/{_HEAD} is not the head of a pipeline"
            raise HeadFormatError(message, remedy="restore it from an older version of the object, or from a backup")
        seen = Versioned(int(version), value)
        self._newest = seen, _named(found.meta["e_tag"], found.meta["version"])
        return seen

    def swap(self, expected: Versioned | None, value: bytes, needs: Sequence[str] = ()) -> bool:
        """See HeadStore. The store compares by its own name of the object, which a read of the expected value gave."""
        if not all(map(self._records.holds, needs)):
            return False
        named = self._name_of(expected) if expected is not None else None
        if expected is not None and named is None:
            return False
        swapped = Versioned(expected.version + 1 if expected is not None else 1, value)
        content = b"%0*d\n" % (_DIGITS, swapped.version) + value
        try:
            put = obstore.put(self._swapping, _HEAD, content, mode=named or "create", use_multipart=False)
        except (AlreadyExistsError, PreconditionError):
            return False
        except Failure as error:
            if isinstance(error, FileNotFoundError) and self._is_bucket_there():  # the expected object is gone
                return False
            failure = failed(f"swap {self._address}/{_HEAD}", error)
            if failure.retriable:
                raise HeadUnknownError(failure.message, remedy=failure.remedy) from error
            raise HeadAccessError(failure.message, remedy=failure.remedy) from error
        self._newest = swapped, _named(put["e_tag"], put["version"])
        return True

    def _name_of(self, expected: Versioned) -> UpdateVersion | None:
        """How the store names the object with this version and value; None where it has another one."""
        if self._newest is None or self._newest[0] != expected:
            self.read()
        newest = self._newest
        return newest[1] if newest is not None and newest[0] == expected else None

    def _is_bucket_there(self) -> bool:
        try:
            self._records.names()
        except HeadError:
            return False
        return True

    def blobs(self, name: str) -> ObjectBlobStore:
        """See HeadStore. A prefix is there whenever it is used."""
        return ObjectBlobStore(self._address, self._store, name)

    def put_record(self, name: str, content: bytes) -> None:
        if not self._records.put(name, content):
            message = f"record {name} in {self._address} exists with another content"
            raise HeadFormatError(message, remedy="something else wrote it; do not go on")

    def get_record(self, name: str) -> bytes:
        content = self._records.get(name)
        if content is None:
            message = f"record {name} is missing in {self._address}, and head points at it"
            raise HeadFormatError(message, remedy="restore the object, from its older version or from a backup")
        return content

    def delete_record(self, name: str) -> None:
        self._records.delete(name)

    def list_records(self) -> Sequence[str]:
        return self._records.names()

    def describe(self) -> str:
        """The URL."""
        return str(self._address)

    def close(self) -> None:
        """Connections end with their client."""


@contextmanager
def naming(address: ObjectAddress, doing: str) -> Iterator[None]:
    """Around a request: raises HeadError that names the place. "Not found" and "exists" pass through."""
    try:
        yield
    except (AlreadyExistsError, PreconditionError, FileNotFoundError):
        raise
    except Failure as error:
        failure = failed(f"{doing} at {address}", error)
        raise _as_head_error(failure) from error


def _as_head_error(failure: StorageError) -> HeadError:
    kind = HeadAccessError if isinstance(failure, StorageRefusedError) else HeadError
    return kind(failure.message, remedy=failure.remedy)


def _named(e_tag: str | None, version: str | None) -> UpdateVersion:
    given = {"e_tag": e_tag, "version": version}
    return cast("UpdateVersion", {name: each for name, each in given.items() if each is not None})
