"""An object that is kept in a file of this machine until it is sent, as a whole, and the look-up of a lost answer."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO, Final, cast

from wal.errors import ObjectExistsError, ObjectMissingError, StorageError, StorageRefusedError
from wal.remote import no_room
from wal.storage import Storage

MAX_BYTES: Final = 4 * 1024**3
"""Of one object. S3 takes 5 GiB in one request, Azure 5000 MiB."""

_CHUNK_BYTES: Final = 4 * 1024 * 1024


class ObjectUpload:
    """See ObjectWriter. Its file has no name, and goes with the process."""

    def __init__(self, place: str, put: Callable[[BinaryIO], None], max_bytes: int) -> None:
        """
        Args:
            place: what the object is called in errors.
            put: sends all of a file. Raises what ObjectWriter.publish raises.
            max_bytes: that one request may have.
        """
        self._place = place
        self._put = put
        self._left = max_bytes
        self._file: BinaryIO | None = None
        try:
            self._file = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115
        except OSError as error:
            raise no_room("make", error) from error

    def write(self, data: bytes | memoryview, /) -> int:
        """See ObjectWriter. Raises StorageRefusedError for more than one object may hold."""
        file = self._open_file()
        self._left -= len(data)
        if self._left < 0:
            message = f"{self._place} becomes larger than an object store takes in one request"
            raise StorageRefusedError(
                message, remedy="let a checkpoint have fewer records, or more tasks (partitions) share them"
            )
        try:
            return file.write(data)
        except OSError as error:
            raise no_room("write to", error) from error

    def publish(self) -> None:
        """See ObjectWriter. One request, and more where its answer says too little."""
        file = self._open_file()
        try:
            file.flush()
        except OSError as error:
            raise no_room("write to", error) from error
        self._put(file)
        self.discard()

    def discard(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):  # what could not be written, nobody wants
                file.close()

    def _open_file(self) -> BinaryIO:
        if self._file is None:
            message = f"{self._place} is no longer being written"
            raise StorageError(message)
        return self._file


def holds(storage: Storage, name: str, content: BinaryIO) -> bool:
    """Whether the storage has an object of these bytes. Raises ObjectExistsError for one of others."""
    try:
        with storage.open(name) as found:
            if found.seek(0, os.SEEK_END) == content.seek(0, os.SEEK_END) and is_equal(found, content):
                return True
    except ObjectMissingError:
        return False
    message = f"{storage.describe()}/{name} exists already"
    raise ObjectExistsError(message, remedy="nothing was overwritten; two writers used one name")


def holds_in_doubt(storage: Storage, name: str, content: BinaryIO, failure: StorageError) -> bool:
    """As `holds`; raises `failure`, which led to the question, where the answer to it is lost as well."""
    try:
        return holds(storage, name, content)
    except StorageError as error:
        raise (failure if error.retriable else error) from error


def is_equal(one: BinaryIO, other: BinaryIO) -> bool:
    """Whether they are of the same bytes from their beginnings on."""
    one.seek(0)
    other.seek(0)
    while chunk := one.read(_CHUNK_BYTES):
        if other.read(len(chunk)) != chunk:
            return False
    return not other.read(1)
