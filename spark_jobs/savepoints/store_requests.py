"""Requests of savepoints to an object store: several at a time, with errors in the words of savepoints."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import BinaryIO, Final, TypeVar

from eos.errors import SavepointError
from spark_jobs.savepoints.manifest import Entry
from wal.address import ObjectAddress
from wal.errors import WalError
from wal.storage import TreeStorage
from wal.stores import open_storage

_T = TypeVar("_T")
_R = TypeVar("_R")

_AT_ONCE: Final = 8
"""Files that are sent or read at the same time."""
CHUNK_BYTES: Final = 1024 * 1024


@contextmanager
def naming() -> Iterator[None]:
    """Around requests to the store: raises SavepointError, whose cause is the error of the store."""
    try:
        yield
    except WalError as error:
        raise SavepointError(error.message, remedy=error.remedy) from error


def open_at(address: ObjectAddress) -> TreeStorage:
    """Return the storage below an address. Sends nothing. Raises SavepointError for wrong options."""
    with naming():
        return open_storage(address)


def at_once(jobs: Mapping[str, _T], do: Callable[[str, _T], _R]) -> Iterator[tuple[str, _R]]:
    """Do it for several jobs at a time; the first error ends all of them."""
    with ThreadPoolExecutor(_AT_ONCE, "eos-savepoint") as pool:
        yield from zip(jobs, pool.map(do, jobs, jobs.values()), strict=True)


def put(storage: TreeStorage, name: str, content: BinaryIO) -> Entry:
    """Create an object. Raises ObjectExistsError for one of other bytes, StorageError, ObjectNameError."""
    size, digest = 0, hashlib.sha256()
    writer = storage.create(name)
    try:
        while chunk := content.read(CHUNK_BYTES):
            digest.update(chunk)
            size += writer.write(chunk)
        writer.publish()
    finally:
        writer.discard()
    return Entry(size, digest.hexdigest())
