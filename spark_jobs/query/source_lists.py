"""Spark's lists of the files that its file sources read, compared with the batch that reads them (R4, H25).

A plan names the last list of a file source: `{"logOffset":N}`. The list is `sources/0/N`. Each tenth one,
`sources/0/N.compact`, also holds the entries of all lists before it. In an object store, Spark does not create them
exclusively. Two drivers then have equal plans, and one list is written over the other. The decision therefore has a
digest of all lists up to N. Spark does not read listed files a second time, so an older list counts as much as the
newest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import groupby
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import unquote

from eos.errors import IdentityError, PlanOverwrittenError

_COMPACT: Final = ".compact"
_NO_AUTHORITY: Final = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):///")
_DAMAGE: Final = (ValueError, KeyError, TypeError, RecursionError)
_RESTORE: Final = "put the earlier version of this file back, as it was at the decision; or use `eos reset`"
_RESTORE_PLAN: Final = "put the earlier version of the newest file in `offsets` back; or use `eos reset`"


class Files(Protocol):
    """Reader of the files below one folder (`HadoopFolder`)."""

    @property
    def url(self) -> str:
        """Where the folder is."""

    def read(self, path: str) -> bytes:
        """Return the content of a file. Raises FileNotFoundError, SparkUnavailableError."""

    def names(self, path: str) -> list[str]:
        """Return the names in a folder; empty if it does not exist. Raises SparkUnavailableError."""


class BatchFiles(NamedTuple):
    """The files of one source that the running batch reads, from Spark's memory."""

    after: int  # number of the last list that the batch before has read; -1: none
    paths: Sequence[str]  # as Hadoop prints a path; one with `[` may repeat the others, which Spark reads once


class FileEntry(NamedTuple):
    """One line of a list."""

    path: str  # as a URL
    modified_ms: int
    number: int  # of the list


@dataclass(slots=True)
class SourceLists:
    """The lists of the file sources of one run of a query. Used by Spark's thread.

    Invariant: a list does not change during a run. A list that does was written over by another driver.
    """

    files: Files
    folders: Sequence[str]
    """For each source of a plan, in its order, the folder of its lists; empty: not a file source."""
    held: Callable[[], Mapping[str, BatchFiles]]
    """Returns the files of the running batch, by folder. A source without new files is missing."""
    _known: dict[str, dict[int, str]] = field(default_factory=dict, init=False)
    """By folder and number of a list, the digest of the lists up to it."""
    _first_batch: dict[str, dict[tuple[str, int], int]] = field(default_factory=dict, init=False)
    """By folder, the files of the first batch, as `_numbers` returns them. Its lists may be older than this run."""

    def digests(self, plans: Mapping[int, str]) -> dict[int, dict[str, str]]:
        """Return for each plan the digests of the lists up to it, by folder; an empty one if a list is missing.

        Called by a start. Raises IdentityError for damage, SparkUnavailableError.
        """
        newest_first = sorted(plans, reverse=True)  # the newest one reads all lists, and compares them with each other
        ends = {number: dict(self._ends(plans[number])) for number in newest_first}
        oldest: dict[str, int] = {}
        for each in ends.values():
            oldest.update(each)
        return {
            number: {folder: self._digest(folder, last, oldest[folder]) for folder, last in each.items()}
            for number, each in ends.items()
        }

    def _digest(self, folder: str, last: int, oldest: int) -> str:
        known = self._known.get(folder, {})
        try:
            return known[last] if last in known else self._read(folder, last, oldest)[0]
        except FileNotFoundError:
            return ""

    def check(self, offsets_log: str) -> dict[str, str]:
        """Return the digests of a plan before its decision, if the running batch reads the files that the lists name.

        Raises PlanOverwrittenError if it reads others, FileNotFoundError, IdentityError, SparkUnavailableError.

        Spark reads the lists once when its source begins, to know which files are read, and a list that is not decided
        once more for its batch. If it was written over in between, Spark lists its files a second time.
        """
        found: dict[str, str] = {}
        ends = dict(self._ends(offsets_log))
        held = self.held() if ends else {}  # other sources cost no call into Java
        for folder, last in ends.items():
            batch = held.get(folder, BatchFiles(last, ()))
            found[folder], entries = self._read(folder, last, batch.after)
            if {path_text(each.path) for each in entries} != set(batch.paths):
                raise _written_over(self._place(f"{folder}/{last}"))
            numbers = _numbers(entries, self._place(folder), self._first_batch.get(folder, {}))
            self._first_batch.setdefault(folder, numbers)
        return found

    def _ends(self, offsets_log: str) -> Iterator[tuple[str, int]]:
        """Yield each folder with the number of its last list; nothing if the plan is cut off, or in another format."""
        version, *lines = offsets_log.split("\n")
        lines = lines[1:] if version == "v1" else []  # a start compares the plan, and names the mistake
        for folder, line in dict(zip(self.folders, lines, strict=False)).items():  # a source may be there twice
            if folder and line != "-":
                yield folder, last_list(line)

    def _read(self, folder: str, last: int, after: int) -> tuple[str, list[FileEntry]]:
        """Return the digest of the lists up to `last`, read from the store, and the entries after list `after`."""
        known = self._known.setdefault(folder, {})
        base = max((number for number in known if number <= after and number < last), default=-1)
        try:
            entries = self._entries(folder, base + 1 if base >= 0 else self._first(folder, last), last)
        except FileNotFoundError:  # Spark deletes old lists: a compact one has their entries
            entries = self._entries(folder, self._first(folder, last), last)
        if entries and entries[0].number == 0:
            base = -1
            _numbers(entries, self._place(folder), {})
        for number, digest in digests_after(base, known.get(base, ""), entries):
            if known.setdefault(number, digest) != digest:
                raise _written_over(self._place(f"{folder}/{number}"))
        for old in [number for number in known if number < min(after, last - 1)]:  # on the others, batches may build
            del known[old]
        return known[last], [each for each in entries if after < each.number]

    def _first(self, folder: str, last: int) -> int:
        """Return the number of the newest list up to `last` that holds all entries before it, or 0."""
        names = (name.removesuffix(_COMPACT) for name in self.files.names(folder) if name.endswith(_COMPACT))
        return max((int(name) for name in names if name.isdecimal() and int(name) <= last), default=0)

    def _entries(self, folder: str, first: int, last: int) -> list[FileEntry]:
        """Return the entries of these lists, and of all lists before them if one is compact."""
        found: list[FileEntry] = []
        for number in range(first, last + 1):
            name = f"{folder}/{number}"
            try:
                found += self._list(name, range(number, number + 1))
            except FileNotFoundError:
                found = self._list(name + _COMPACT, range(number + 1))
        return found

    def _list(self, name: str, numbers: range) -> list[FileEntry]:
        return entries_of(self.files.read(name), numbers, self._place(name))

    def _place(self, name: str) -> str:
        return f"{self.files.url}/{name}"


def last_list(offset: str) -> int:
    """Return the number of the last list in the offset of a file source. Raises IdentityError."""
    try:
        return _number(json.loads(offset)["logOffset"])
    except _DAMAGE as error:
        message = f"Spark's plan does not hold the offset of a file source: {offset[:100]}"
        raise IdentityError(message, remedy=_RESTORE_PLAN) from error


def entries_of(content: bytes, numbers: range, place: str) -> list[FileEntry]:
    """Return the entries of a list, in their order. Raises IdentityError unless they are of exactly these numbers."""
    version, *lines = content.decode(errors="replace").split("\n")
    try:
        found = [_entry_of(json.loads(line)) for line in lines]  # not all documents at once: a list may be long
    except _DAMAGE as error:
        raise IdentityError(f"Spark's {place} is damaged: {error!r}", remedy=_RESTORE) from error
    if version != "v1" or [number for number, _ in groupby(each.number for each in found)] != list(numbers):
        raise IdentityError(f"Spark's {place} is damaged: it is not list {numbers[-1]}", remedy=_RESTORE)
    return found


def _entry_of(document: Any) -> FileEntry:
    path, modified_ms = document["path"], document["timestamp"]  # before 1970 it is negative
    if type(path) is not str or type(modified_ms) is not int:
        raise TypeError("a path is not a text, or a timestamp not a whole number")
    return FileEntry(path, modified_ms, _number(document["batchId"]))


def _number(value: object) -> int:
    """Return the number of a list as it is. Raises TypeError for a text, true, and a number that no list has."""
    if type(value) is not int or value < 0:
        raise TypeError("not the number of a list")
    return value


def digests_after(base: int, before: str, entries: Iterable[FileEntry]) -> Iterator[tuple[int, str]]:
    """Yield the number of each list after `base`, with the digest of all lists up to it.

    `before`: the digest of the lists up to `base`. Entries of older lists are left out.
    """
    digest = before
    for number, group in groupby(entries, key=lambda entry: entry.number):
        if number > base:
            content = json.dumps([digest, [(each.path, each.modified_ms) for each in group]])
            digest = sha256(content.encode()).hexdigest()
            yield number, digest


def path_text(url: str) -> str:
    """Return the path of an entry as Hadoop prints it: not encoded, and without an empty authority."""
    return unquote(_NO_AUTHORITY.sub(r"\1:/", url))


def _numbers(
    entries: Sequence[FileEntry], place: str, before: Mapping[tuple[str, int], int]
) -> dict[tuple[str, int], int]:
    """Return the number of the list that names each file, by its path and time. `before`: of earlier lists.

    Raises IdentityError if two lists name one file: Spark would read it twice, and names it in one list only.
    """
    numbers: dict[tuple[str, int], int] = {}
    for each in entries:
        key = each.path, each.modified_ms
        first = numbers.setdefault(key, before.get(key, each.number))
        if first != each.number:
            message = f"Spark's lists {first} and {each.number} in {place} both name {each.path}: one was written over"
            remedy = "put the earlier version of this list back, if the bucket keeps versions; or use `eos reset`"
            raise IdentityError(message, remedy=remedy)
    return numbers


def _written_over(place: str) -> PlanOverwrittenError:
    message = f"another driver has written its own list of files over Spark's {place}"
    return PlanOverwrittenError(message, remedy="start one driver only; if its start is refused, put the file back")
