"""Requests of savepoints to an object store: several at a time, with progress and errors in the words of savepoints."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import BinaryIO, Final, TypeVar

from eos.errors import SavepointError
from spark_jobs.savepoints.manifest import Entry
from wal.address import ObjectAddress
from wal.errors import WalError
from wal.storage import TreeStorage
from wal.stores import open_storage

_log: Final = logging.getLogger("eos.savepoint")
_T = TypeVar("_T")
_R = TypeVar("_R")

_AT_ONCE: Final = 8
"""Files that are sent or read at the same time."""
CHUNK_BYTES: Final = 1024 * 1024
_INTERVAL_S: Final = 5.0
"""Between two lines of progress."""


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


def in_parallel(jobs: Mapping[str, _T], do: Callable[[str, _T], _R]) -> Iterator[tuple[str, _R]]:
    """Do it for several jobs at a time; the first error ends all of them."""
    with ThreadPoolExecutor(_AT_ONCE, "eos-savepoint") as pool:
        yield from zip(jobs, pool.map(do, jobs, jobs.values()), strict=True)


def delete(storage: TreeStorage, names: Iterable[str]) -> None:
    """Delete these objects, then unfinished ones and folders that are empty. Idempotent. Raises WalError."""
    for _ in in_parallel(dict.fromkeys(names), lambda name, _: storage.delete(name)):
        pass
    storage.clear()


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


class Progress:
    """Counts the bytes of a transfer, as log lines. For one thread. A transfer that is short logs nothing."""

    def __init__(self, doing: str, total: int) -> None:
        """
        Args:
            doing: names the transfer in the log.
            total: bytes that it will transfer.
        """
        self._doing = doing
        self._total = total
        self._done = 0
        self._next_s = time.monotonic() + _INTERVAL_S

    def add(self, size: int) -> None:
        """Count these bytes, and log the sum if the last line is old enough."""
        self._done += size
        if (now_s := time.monotonic()) >= self._next_s:
            self._next_s = now_s + _INTERVAL_S
            _log.info("%s: %s of %s bytes", self._doing, f"{self._done:,}", f"{self._total:,}")
