"""Small objects of an object store, each read and written whole: created once, or replaced where they are as expected.

S3, Azure and Google Cloud Storage compare and replace in one step: a put names the object that it replaces
(`If-Match`, or a generation) or requires that it does not exist (`If-None-Match: *`). A later read returns the new
object. Nothing here rests on a listing.

A put whose condition does not hold is answered 412, or 404 where the object to replace is missing. S3 answers 409
(`ConditionalRequestConflict`) while another request for the object is under way: such a put has not landed, and whether
the object is the expected one remains open. Azure answers 409 where the object to create exists.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, cast

import obstore
from obstore.exceptions import AlreadyExistsError, PreconditionError

from wal.address import ObjectAddress
from wal.conditional_objects import Found, Tag
from wal.errors import StorageError, StorageRefusedError
from wal.object import connect
from wal.refusals import Failure, failed, status_of

if TYPE_CHECKING:
    from obstore import PutMode, UpdateVersion
    from obstore.store import ObjectStore

_REQUEST_S: Final = 20.0
_CONFLICT: Final = 409
_BUSY: Final = frozenset({429, 503})
_BUSY_S: Final = 1.1
"""Pause after a swap that the store refused as too early. Google takes one write a second of one object, and a driver
repeats a swap a few times only."""

_NO_BUCKET: Final = ("<Code>NoSuchBucket</Code>", "<Code>ContainerNotFound</Code>")
"""Of S3 and Google, and of Azure. An answer to HEAD, which `holds` sends, has no body, and so no code."""


class SmallObjects:
    """The objects of one prefix. May be used by several threads; each call is one request, and blocks for it.

    Raises StorageError; StorageRefusedError where no repetition helps.
    """

    def __init__(self, address: ObjectAddress) -> None:
        """Sends nothing."""
        self.address = address
        self._store = self._open()
        self._once = self._open(once=True)

    def read(self, name: str) -> Found | None:
        """Return the object; None: it does not exist."""
        with suppress(FileNotFoundError), self._naming("read", name):
            found = obstore.get(self._store, name)
            return Found(bytes(found.bytes()), Tag(found.meta["e_tag"], found.meta["version"]))
        return None

    def holds(self, name: str) -> bool:
        """Whether an object of this name exists."""
        with suppress(FileNotFoundError), self._naming("look for", name):
            obstore.head(self._store, name)
            return True
        self.names("")  # raises where the bucket is not there
        return False

    def create(self, name: str, content: bytes) -> bool:
        """Create the object; False if the name is taken by another content.

        The client repeats a put whose answer was lost. It may then meet what it has sent before: that is its own (H20).
        """
        try:
            with self._naming("write", name, absence=False):
                obstore.put(self._store, name, content, mode="create", use_multipart=False)
        except (AlreadyExistsError, PreconditionError) as error:
            found = self.read(name)
            if found is None:  # deleted since, or the other put is still under way
                message = f"cannot write {self.place(name)}: another request for this name was under way"
                raise StorageError(message, remedy="the request is repeated") from error
            return found.content == content
        return True

    def replace(self, name: str, content: bytes) -> None:
        """Create the object, or replace the existing one."""
        with self._naming("write", name, absence=False):
            obstore.put(self._store, name, content, use_multipart=False)

    def swap(self, name: str, expected: Tag | None, content: bytes) -> Tag | None:
        """Replace the object if it is the expected one (None: it does not exist). Return its tag; else None.

        Sent once. After a StorageError that is retriable it may have landed, or may land later. The error of a store
        that is too busy follows a pause.
        """
        try:
            with self._naming("swap", name):
                mode: PutMode = "create" if expected is None else _update(expected)
                put = obstore.put(self._once, name, content, mode=mode, use_multipart=False)
        except (AlreadyExistsError, PreconditionError) as error:
            if status_of(error) == _CONFLICT and (expected is not None or not self.holds(name)):
                raise failed(f"swap {self.place(name)}", error) from error
            return None
        except StorageError as error:
            if isinstance(error.__cause__, Exception) and status_of(error.__cause__) in _BUSY:
                time.sleep(_BUSY_S)
            raise
        except FileNotFoundError:  # S3's answer where the expected object is gone; the bucket's absence is an error
            self.names("")
            return None
        return Tag(put["e_tag"], put["version"])

    def delete(self, name: str) -> None:
        """Delete the object if it exists."""
        with suppress(FileNotFoundError), self._naming("delete", name):
            obstore.delete(self._store, name)

    def names(self, folder: str) -> Sequence[str]:
        """Names in this part of the prefix (empty, or with `/` at its end), sorted and without it."""
        with self._naming("list", folder):
            found = obstore.list_with_delimiter(self._store, folder)
        names = (each["path"].removeprefix(folder) for each in found["objects"])
        return sorted(name for name in names if name)  # some tools put the folder in

    def place(self, name: str) -> str:
        """Where it is, for messages."""
        return f"{self.address}/{name}"

    def _open(self, *, once: bool = False) -> ObjectStore:
        try:
            return connect(self.address, _REQUEST_S, once=once)
        except Failure as error:
            message = f"cannot use {self.address}: {self.address.mask(str(error).partition(chr(10))[0])}"
            raise StorageRefusedError(message, remedy="correct the options of the object store") from error

    @contextmanager
    def _naming(self, doing: str, name: str, *, absence: bool = True) -> Iterator[None]:
        """Around a request: "exists" passes through, and "not found" of an object, never of a bucket.

        `absence`: an answer to this request may be that there is no such object.
        """
        try:
            yield
        except Failure as error:
            judged = (AlreadyExistsError, PreconditionError, *((FileNotFoundError,) if absence else ()))
            if isinstance(error, judged) and not any(code in str(error) for code in _NO_BUCKET):
                raise
            raise failed(f"{doing} {self.place(name)}", error) from error


def _update(tag: Tag) -> UpdateVersion:
    given = {"e_tag": tag.e_tag, "version": tag.version}
    return cast("UpdateVersion", {name: each for name, each in given.items() if each is not None})
