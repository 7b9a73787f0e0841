"""A Storage in an object store: each object is one conditional put, which is there whole or not at all.

What is written is kept in a file of this machine that has no name, and sent with `publish`, in one request that
creates the object only where none is. obstore completes no upload in parts on that condition; one request takes up to
MAX_BYTES everywhere.

A put without an answer has landed, or has not, or may still land. It is looked up: an object of these very bytes is
ours, also where the client itself tried again and met what it had sent before (H20); other bytes are somebody else's;
none is a StorageError.

**A put under way cannot be called back.** There is nothing `unfinished` here and nothing to `sweep`: what a writer has
not sent nobody sees, and what it has sent may become visible after its owner was fenced, gave up or died, and after
a `delete` of that name. This is harmless, since to be visible is not to be decided:

- Only a name that the decision holds is ever read. A writer acknowledges its name after `publish`, so that whoever was
  fenced before (R1), or whose try was aborted (R8), is in no decision, and late bytes change nothing of it.
- Every attempt has a name of its own, with its epoch (R5, H8), and nothing is overwritten: late bytes cannot take the
  place of decided ones, nor a late `delete`, of a name that was given up, an object that is needed.
- What came late is an orphan under a name that tells whose it is: the next start lists it and gives it up, and it is
  collected once its checkpoint is applied.

It rests on what S3, Google Cloud Storage and Azure promise: what was put is there for the next get. A listing that
lags only collects later.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Collection, Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, BinaryIO, Final, cast

import obstore
from obstore.exceptions import AlreadyExistsError, PreconditionError
from obstore.store import AzureStore, GCSStore, S3Store

from wal.address import ObjectAddress
from wal.errors import ObjectMissingError, StorageError, StorageRefusedError
from wal.refusals import Failure, failed, status_of
from wal.remote import PIECE_BYTES, RemoteFile
from wal.storage import check_name, in_folder
from wal.upload import MAX_BYTES, ObjectUpload, holds, holds_in_doubt

if TYPE_CHECKING:
    from obstore.store import AzureConfig, ClientConfig, GCSConfig, ObjectStore, RetryConfig, S3Config

_RETRIES: Final[RetryConfig] = {
    "max_retries": 5,
    "retry_timeout": timedelta(seconds=30),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2},
}
"""Of obstore's own: for a connection that cannot be made or is cut, and for the answers 408, 429 and from 500 on.
Nobody tries again beside it: a longer outage is an error, and who asked decides."""

_OF_CLIENT: Final = ("allow_http", "root_certificate")


def connect(address: ObjectAddress, timeout_s: float, *, once: bool = False) -> ObjectStore:
    """A client of the store below the prefix. Sends nothing. Raises what `refusals.Failure` names.

    Everything that says where the store is, is given, so that nothing of it is taken from the environment.

    Args:
        timeout_s: of one request, from connecting to its last byte.
        once: each request is sent once: for a put that must not be taken for refused because it met itself (H20).
    """
    retries: RetryConfig = {**_RETRIES, "max_retries": 0} if once else _RETRIES
    options = {name: value for name, value in address.options if name not in (*_OF_CLIENT, "endpoint")}
    given = {name: value for name, value in address.options if name in _OF_CLIENT}
    client = cast("ClientConfig", {"timeout": timedelta(seconds=timeout_s), "allow_http": "false", **given})
    at = address.endpoint
    if address.scheme == "s3":
        options |= {"region": address.region, "endpoint": at, "aws_endpoint_url_s3": at, "conditional_put": "etag"}
        options["disable_bulk_delete"] = "true"  # not every store knows it
        s3 = cast("S3Config", options)
        return S3Store(address.bucket, prefix=address.prefix, config=s3, client_options=client, retry_config=retries)
    if address.scheme == "gs":
        gs = cast("GCSConfig", options | {"base_url": at})
        return GCSStore(address.bucket, prefix=address.prefix, config=gs, client_options=client, retry_config=retries)
    az = cast("AzureConfig", options | {"endpoint": at, "use_emulator": "false"})
    return AzureStore(address.bucket, prefix=address.prefix, config=az, client_options=client, retry_config=retries)


_REQUEST_S: Final = 30.0
_SLOWEST: Final = 1024 * 1024  # bytes that a request moves in a second, or it is given up
_CHUNK_BYTES: Final = 4 * 1024 * 1024
_LISTED: Final = 1000
_EMPTY: Final = 416  # the answer to a range of an object without bytes


class ObjectStorage:
    """See Storage. A folder is a further part of the prefix. May be used by several threads."""

    def __init__(self, address: ObjectAddress, max_bytes: int = MAX_BYTES) -> None:
        """Sends nothing. Raises StorageRefusedError for options that cannot be right."""
        self._address = address
        self._max_bytes = max_bytes
        self._store = self._connect(0)

    def prepare(self, folder: str) -> None:
        """See Storage. A part of a name is there whenever it is used."""
        check_name(folder)

    def create(self, name: str) -> ObjectUpload:
        """See Storage. Asks the store nothing yet."""
        place = self._place(check_name(name))
        return ObjectUpload(place, lambda content: self._put(name, content), self._max_bytes)

    def open(self, name: str) -> BinaryIO:
        """See Storage. What lies between the object's ends is read from a copy on this machine."""
        place = self._place(check_name(name))

        def fetch(start: int, end: int) -> bytes:
            try:
                return bytes(obstore.get_range(self._store, name, start=start, end=end))
            except Failure as error:
                raise self._unread(name, error) from error

        def stream() -> Iterator[bytes]:
            try:
                yield from map(bytes, obstore.get(self._connect(size), name).stream(_CHUNK_BYTES))
            except Failure as error:
                raise self._unread(name, error) from error

        try:
            found = obstore.get(self._store, name, options={"range": (0, PIECE_BYTES)})
            size, first = found.meta["size"], bytes(found.bytes())
        except Failure as error:
            if status_of(error) != _EMPTY:
                raise self._unread(name, error) from error
            size, first = 0, b""
        return cast("BinaryIO", RemoteFile(place, size, first, fetch, stream))

    def delete(self, name: str) -> None:
        try:
            obstore.delete(self._store, check_name(name))
        except FileNotFoundError:
            return
        except Failure as error:
            raise failed(f"delete {self._place(name)}", error) from error

    def names(self, folder: str = "") -> Sequence[str]:
        start = in_folder(folder, "")
        try:
            found = obstore.list_with_delimiter(self._store, start)
        except Failure as error:
            raise failed(f"list {self._place(start)}", error) from error
        paths = (each["path"] for each in found["objects"])
        entries = (path.removeprefix(start) for path in paths if path.startswith(start))  # some tools put the folder in
        return sorted(start + entry for entry in entries if entry and not entry.startswith("."))

    def folders(self, folder: str = "") -> Sequence[str]:
        """See TreeStorage. A listing has the parts of names before the next slash."""
        start = in_folder(folder, "")
        try:
            found = obstore.list_with_delimiter(self._store, start)
        except Failure as error:
            raise failed(f"list {self._place(start)}", error) from error
        return sorted(path for path in found["common_prefixes"] if path.startswith(start))

    def below(self, folder: str = "") -> Sequence[str]:
        """See TreeStorage. One request for each thousand objects."""
        start = in_folder(folder, "")
        try:
            paths = [each["path"] for batch in obstore.list(self._store, start, chunk_size=_LISTED) for each in batch]
        except Failure as error:
            raise failed(f"list {self._place(start)}", error) from error
        return sorted(path for path in paths if path.startswith(start) and path != start)

    def clear(self, folder: str = "") -> None:
        """See TreeStorage. Nothing: a put is never unfinished, and a folder is a part of names."""

    def unfinished(self, folder: str = "") -> Sequence[str]:
        """See Storage. None: see above."""
        return ()

    def sweep(self, names: Collection[str]) -> None:
        """See Storage. Nothing: see above."""
        for name in names:
            check_name(name)

    def describe(self) -> str:
        """The URL."""
        return str(self._address)

    def _put(self, name: str, content: BinaryIO) -> None:
        """Create an object of all the bytes of a file. Raises what ObjectWriter.publish raises."""
        place, size = self._place(name), content.seek(0, os.SEEK_END)
        try:
            self._send(name, content, size)
        except (AlreadyExistsError, PreconditionError) as error:
            if not holds(self, name, content):
                message = f"{place}: another request for this name was under way"
                raise StorageError(message, remedy="it is asked again, under another name") from error
        except Failure as error:
            failure = failed(f"publish {place}", error)
            if not failure.retriable or not holds_in_doubt(self, name, content, failure):
                raise failure from error

    def _send(self, name: str, content: BinaryIO, size: int) -> None:
        """From the page cache, not a copy. obstore may hold the mapping for longer than this call: nobody closes it."""
        content.flush()
        sent = mmap.mmap(content.fileno(), size, access=mmap.ACCESS_READ) if size else b""
        obstore.put(self._connect(size), name, sent, mode="create", use_multipart=False)

    def _unread(self, name: str, error: Exception) -> StorageError:
        """Raises StorageRefusedError where the bucket is not there: no object of it is lost, then."""
        if not isinstance(error, FileNotFoundError):
            return failed(f"read {self._place(name)}", error)
        self.names(name)  # that lists nothing: many may be missing at once
        return ObjectMissingError(f"{self._place(name)} does not exist")

    def _connect(self, size: int) -> ObjectStore:
        """A client whose requests may take as long as so many bytes need."""
        try:
            return connect(self._address, _REQUEST_S + size / _SLOWEST)
        except Failure as error:
            message = f"cannot use {self._address}: {self._address.mask(str(error).partition(chr(10))[0])}"
            raise StorageRefusedError(message, remedy="correct the options of the object store") from error

    def _place(self, name: str) -> str:
        return f"{self._address}/{name}"
