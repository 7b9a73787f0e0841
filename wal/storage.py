"""What is asked of a place for bytes: a flat set of immutable objects, each of which is there whole or not at all.

`local.LocalStorage` keeps them in a folder, `object.ObjectStorage` in a bucket. They differ in what can be done about a
writer that still lives when somebody else cleans up: in a folder `sweep` ends it; in a bucket nothing does, so that its
object may come later. Whoever keeps a Storage therefore gives each writer a name of its own, and reads only the names
that were decided on (R5, R6, H8).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import BinaryIO, Final, Protocol

from wal.errors import ObjectNameError

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


class ObjectWriter(Protocol):
    """One object being written. Used by one thread; after an error only `discard` may follow."""

    def write(self, data: bytes | memoryview, /) -> int:
        """Append bytes; returns their number. Raises StorageError."""

    def publish(self) -> None:
        """Make every byte durable, and only then the object visible under its name, durably.

        Guarantees: when it returns, the object survives a power cut. Raises ObjectExistsError if the name is taken by
        other bytes, ObjectMissingError if `sweep` came first, StorageError otherwise: then the object may be visible,
        or may become so, and if so it is whole.
        """

    def discard(self) -> None:
        """Forget what was written. Idempotent, nothing after `publish`. Never raises: `sweep` takes what stays."""


class Storage(Protocol):
    """A flat set of named, immutable objects. Every call may block, and may raise StorageError.

    Names: ASCII letters, digits, `.`, `_` and `-`, at most 200, the first a letter or a digit; else ObjectNameError.
    """

    def create(self, name: str) -> ObjectWriter:
        """Begin an object. Nothing is visible under `name` until its writer publishes."""

    def open(self, name: str) -> BinaryIO:
        """The object's bytes, seekable; the caller closes it. Raises ObjectMissingError."""

    def delete(self, name: str) -> None:
        """Remove an object. Idempotent. After a power cut, or by a publish still under way, it may be there again."""

    def names(self) -> Sequence[str]:
        """Names of all published objects, sorted."""

    def unfinished(self) -> Sequence[str]:
        """Names under which a writer that was neither published nor discarded left something; sorted, each once."""

    def sweep(self, names: Collection[str]) -> None:
        """Remove what is unfinished under these names. Writers whose bytes it was can no longer publish. Idempotent."""

    def describe(self) -> str:
        """Where this storage is, for messages; without secrets."""


def check_name(name: str) -> str:
    """Return `name` if every storage can hold it and it cannot leave its folder. Raises ObjectNameError."""
    if _NAME.fullmatch(name) is None:
        message = f"{name!r} is not a name for an object"
        raise ObjectNameError(message, remedy="use letters, digits, '.', '_', '-'; begin with a letter or a digit")
    return name
