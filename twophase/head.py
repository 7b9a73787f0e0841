"""The head register: the one place that decides (R1, R6). This is its contract; `local_head` keeps it in files.

Called from several threads at once; every call may block on the disk or the network. Two processes may
use the same register at once: that is what it is for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from eos.errors import HeadAccessError, HeadError
from wal.errors import StorageError, StorageRefusedError


@dataclass(frozen=True, slots=True)
class Versioned:
    """What `read` saw. `version` counts the swaps that landed, from 1.

    A register that was set back to an older copy reaches the same version a second time, with another value.
    """

    version: int
    value: bytes


class BlobStore(Protocol):
    """Named small contents that never change, each whole and durable or not there."""

    @property
    def poll_interval_s(self) -> float:
        """How long whoever waits for a name lets pass between two looks: a server has many that wait."""

    def put(self, name: str, content: bytes) -> bool:
        """Store it durably; False if the name is taken. Raises HeadError."""

    def get(self, name: str) -> bytes | None:
        """The content; None if there is none of this name. Raises HeadError."""

    def delete(self, name: str) -> None:
        """Forget it. Idempotent. Raises HeadError."""

    def names(self) -> Sequence[str]:
        """All names, sorted. Raises HeadError."""


class HeadStore(Protocol):
    """A compare-and-swap register with shelves of immutable contents beside it, one of them for the records.

    `swap` is atomic and durable: once it has answered True, every later `read` by anybody sees this value or a newer
    one, also after a power cut. A value is small (some KiB); what is large is among the records before
    (`parted_head`).
    """

    def read(self) -> Versioned | None:
        """The newest value, or None if head was never written. Raises HeadError."""

    def swap(self, expected: Versioned | None, value: bytes, needs: Sequence[str] = ()) -> bool:
        """Write `value` as the next version if the register holds `expected`, version and value (None: nothing yet).

        The value is compared byte by byte, because a version alone can be another history's (H29). `needs`: names of
        records without which it must not land; the store may have lost one since it was put (R6).
        False: the register holds something else, or a record is not there. Raises HeadUnknownError when the answer did
        not come: the swap may have landed or may land later, and only a read that finds the value proves that it did.
        """

    def put_record(self, name: str, content: bytes) -> None:
        """Store an immutable record.

        The same name with the same content again is fine; with another, HeadFormatError.
        """

    def get_record(self, name: str) -> bytes:
        """The content of a record. Raises HeadFormatError if it is missing: head points at it, so it must be there."""

    def delete_record(self, name: str) -> None:
        """Forget a record that head no longer points at. Idempotent."""

    def list_records(self) -> Sequence[str]:
        """Names of all records, sorted."""

    def blobs(self, name: str) -> BlobStore:
        """A shelf for something else, made if it is missing; usable until `close`. Raises HeadError."""

    def describe(self) -> str:
        """Where this head is, for messages; without secrets."""

    def close(self) -> None:
        """Let go of connections."""


@contextmanager
def naming_storage() -> Iterator[None]:
    """Around a request to an object store: raises HeadError, HeadAccessError where no repetition helps."""
    try:
        yield
    except StorageError as error:
        kind = HeadAccessError if isinstance(error, StorageRefusedError) else HeadError
        raise kind(error.message, remedy=error.remedy) from error
