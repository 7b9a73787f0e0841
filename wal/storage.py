"""What is asked of a place for bytes: a set of immutable objects, each of which is there whole or not at all.

`local.LocalStorage` keeps them in a folder, `object.ObjectStorage` in a bucket. They differ in what can be done about a
writer that still lives when somebody else cleans up: in a folder `sweep` ends it; in a bucket nothing does, so that its
object may come later. Whoever keeps a Storage therefore gives each writer a name of its own, and reads only the names
that were decided on (R5, R6, H8).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import BinaryIO, Final, Protocol

from wal.errors import ObjectNameError

_MAX_CHARACTERS: Final = 200
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*")


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
    """Named, immutable objects, in folders. Every call may block, and may raise StorageError.

    Names: ASCII letters, digits, `.`, `_` and `-`, the first a letter, a digit or `_`; before it, folders that are
    named alike, each with a `/` behind it; at most 200 characters in all. Else ObjectNameError.

    A listing costs what lies in the one folder: many who share a storage keep to a folder each.
    """

    def prepare(self, folder: str) -> None:
        """Make a folder that survives a power cut with all that is published in it. Called before anybody writes there:
        of two who make it at once, the one who finds it made could not know whether it survives. Idempotent."""

    def create(self, name: str) -> ObjectWriter:
        """Begin an object. Nothing is visible under `name` until its writer publishes."""

    def open(self, name: str) -> BinaryIO:
        """The object's bytes, seekable; the caller closes it. Raises ObjectMissingError."""

    def delete(self, name: str) -> None:
        """Remove an object. Idempotent. After a power cut, or by a publish still under way, it may be there again."""

    def names(self, folder: str = "") -> Sequence[str]:
        """Whole names of all published objects that lie in the folder itself, not deeper, sorted. "": in none."""

    def unfinished(self, folder: str = "") -> Sequence[str]:
        """Names, as of `names`, under which a writer that was neither published nor discarded left something; sorted,
        each once."""

    def sweep(self, names: Collection[str]) -> None:
        """Remove what is unfinished under these names. Writers whose bytes it was can no longer publish. Idempotent."""

    def describe(self) -> str:
        """Where this storage is, for messages; without secrets."""


class TreeStorage(Storage, Protocol):
    """A Storage whose folders can be listed and deleted as a tree."""

    def folders(self, folder: str = "") -> Sequence[str]:
        """Whole names of the folders in a folder, not deeper, sorted. In an object store none of them is empty."""

    def below(self, folder: str = "") -> Sequence[str]:
        """Whole names of all published objects in a folder and in the folders below it, sorted.

        Another program may have written one whose name no call here takes.
        """

    def clear(self, folder: str = "") -> None:
        """Remove unfinished objects in a folder and below it, and each folder that is empty then. Idempotent.

        Writers whose bytes these were can no longer publish.
        """


def check_name(name: str) -> str:
    """Return `name` if every storage can hold it and it cannot leave its folder. Raises ObjectNameError."""
    if len(name) > _MAX_CHARACTERS or _NAME.fullmatch(name) is None:
        message = f"{name!r} is not a name for an object"
        remedy = "use letters, digits, '.', '_', '-' between slashes; begin no part with '.' or '-'"
        raise ObjectNameError(message, remedy=remedy)
    return name


def unfinished_in(folder: str, entries: Iterable[str], mark: re.Pattern[str]) -> list[str]:
    """Return the names that are being written in a folder. `mark`: of an unfinished entry, with the group `name`."""
    found = map(mark.fullmatch, entries)
    return sorted({in_folder(folder, match["name"]) for match in found if match})


def to_sweep(
    names: Collection[str], entries_of: Callable[[str], Iterable[str]], mark: re.Pattern[str]
) -> Iterator[tuple[str, str]]:
    """Yield folder and entry of each unfinished object of these names. Lists each folder once. `mark`: see above."""
    wanted = defaultdict(set)
    for name in names:
        folder, _, entry = check_name(name).rpartition("/")
        wanted[folder].add(entry)
    for folder, of_folder in wanted.items():
        for entry in entries_of(folder):
            match = mark.fullmatch(entry)
            if match and match["name"] in of_folder:
                yield folder, entry


def in_folder(folder: str, name: str) -> str:
    """The whole name of what is called `name` in a folder. "": in none. Raises ObjectNameError for the folder."""
    return f"{check_name(folder)}/{name}" if folder else name
