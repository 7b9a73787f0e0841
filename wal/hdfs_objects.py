"""Small objects in HDFS, each written whole: created once, or replaced where they are as expected.

HDFS has no conditional put. Its namenode renames in one step: the source must exist, and the target must not. An object
that is created once is written under a name that nothing reads, and renamed.

An object that is replaced is a folder, a *register*. It holds one marker, an empty file, and the values:

    head/current-00000000000000000007-3f9c1d2ab4e60788
    head/value-00000000000000000007-3f9c1d2ab4e60788

A swap writes the new value completely, and then renames the marker of the expected value to the marker of the new one.
The rename compares and replaces: it fails if the expected marker is missing. A marker has a random part and is never
created a second time. So a rename that the namenode carries out late, or that a frozen driver sends late, finds no
source, however many older values were deleted meanwhile. With numbered files, each created exclusively, it could create
a number that was deleted, and take it for its swap. The first swap renames a whole folder to the register's name.

A value is deleted only by a driver that has seen the marker of a value that is not older. No marker will name it.
`tests/model/register.py` explores every order of three drivers' requests.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

from wal.address import ObjectAddress
from wal.conditional_objects import Found, Tag
from wal.errors import StorageError, StorageRefusedError
from wal.hdfs import HdfsClient

_UNFINISHED: Final = "unfinished"
"""Folder below the address for objects that are being written."""

_RESTORE: Final = "restore the folder from a snapshot or a backup"
_OLD_MS: Final = 24 * 3600 * 1000
_READS: Final = 100
_CURRENT: Final = re.compile(r"current-(?P<value>(?P<number>\d{20})-[0-9a-f]{16})")
_VALUE: Final = re.compile(r"value-(?P<value>(?P<number>\d{20})-[0-9a-f]{16})")


class HdfsObjects:
    """The objects below one path, as `wal.small_objects.SmallObjects` has them. May be used by several threads.

    Raises StorageError; StorageRefusedError where no repetition helps.
    """

    def __init__(self, address: ObjectAddress) -> None:
        """Send nothing."""
        self.address = address
        self._client = HdfsClient(address)
        self._swept: set[str] = set()

    def read(self, name: str) -> Found | None:
        """Return the object; None: it does not exist. Repeats a read of a value that is replaced meanwhile."""
        for _ in range(_READS):
            try:
                marker = self._marker(name)
                if marker is None:
                    return Found(self._client.read(name), Tag(None, None))
            except FileNotFoundError:
                return None
            with suppress(FileNotFoundError):
                return Found(self._client.read(f"{name}/value-{marker}"), Tag(marker, None))
            if self._marker_or_none(name) == marker:
                message = f"{self.place(name)} has no value-{marker}, which its marker names"
                raise StorageRefusedError(message, remedy=_RESTORE)
        message = f"{self.place(name)} was replaced at each of {_READS} reads"
        raise StorageError(message, remedy="the request is repeated")

    def holds(self, name: str) -> bool:
        """Whether an object of this name exists."""
        return self._client.status(name) is not None

    def create(self, name: str, content: bytes) -> bool:
        """Create the object; False if the name is taken by another content."""
        return self._put(name, content, overwrite=False)

    def replace(self, name: str, content: bytes) -> None:
        """Create the object, or replace the existing one, which is not a register."""
        self._put(name, content, overwrite=True)

    def swap(self, name: str, expected: Tag | None, content: bytes) -> Tag | None:
        """Replace the register if it holds the expected value (None: it does not exist). Return its tag; else None.

        After a StorageError that is retriable it may have landed, or may land later.
        """
        if expected is None:
            return self._found(name, content)
        if expected.e_tag is None:
            return None
        number = int(expected.e_tag[:20]) + 1
        marker = f"{number:020d}-{secrets.token_hex(8)}"
        value = f"{name}/value-{marker}"
        try:
            self._client.write(value, content, creates_folders=False)
        except FileNotFoundError:  # the register was deleted
            return None
        try:
            self._client.rename(f"{name}/current-{expected.e_tag}", f"{name}/current-{marker}")
        except FileNotFoundError:
            if self._marker_or_none(name) != marker:  # else a proxy has sent the request twice (H20)
                self._client.delete(value)
                return None
        self._sweep(name, marker, expected.e_tag)
        return Tag(marker, None)

    def delete(self, name: str) -> None:
        """Delete the object if it exists."""
        self._client.delete(name)

    def names(self, folder: str) -> Sequence[str]:
        """Names in this part of the path (empty, or with `/` at its end), sorted and without it."""
        try:
            found = self._client.list(folder.removesuffix("/"))
        except FileNotFoundError:
            return []
        return sorted(_name(each.path) for each in found if not each.isdir)

    def place(self, name: str) -> str:
        """Where it is, for messages."""
        return self._client.place(name)

    def _put(self, name: str, content: bytes, *, overwrite: bool) -> bool:
        """Write the content under another name, and rename it. Return whether it is there."""
        unfinished = self._unfinished(name)
        self._client.write(unfinished, content)
        folder = name.rpartition("/")[0]
        for has_folder in (False, True):
            try:
                self._client.rename(unfinished, name, overwrite=overwrite)
            except FileExistsError:
                self._client.delete(unfinished)
                found = self.read(name)
                return found is not None and found.content == content
            except FileNotFoundError as error:
                if has_folder:
                    message = f"cannot write {self.place(name)}: its unfinished file was deleted"
                    raise StorageError(message, remedy="the request is repeated") from error
                self._client.make_folder(folder)
            else:
                return True
        raise AssertionError

    def _found(self, name: str, content: bytes) -> Tag | None:
        """Create a register with its first value."""
        marker = f"{1:020d}-{secrets.token_hex(8)}"
        unfinished = self._unfinished(name)
        self._client.write(f"{unfinished}/value-{marker}", content)
        if folder := name.rpartition("/")[0]:
            self._client.make_folder(folder)
        try:  # a folder that was swept meanwhile is not created once more, without its value
            self._client.write(f"{unfinished}/current-{marker}", b"", creates_folders=False)
            self._client.rename(unfinished, name)
        except FileExistsError:
            self._client.delete(unfinished)
            return None
        except FileNotFoundError as error:
            message = f"cannot write {self.place(name)}: its unfinished folder was deleted"
            raise StorageError(message, remedy="the request is repeated") from error
        self._swept.add(name)
        return Tag(marker, None)

    def _unfinished(self, name: str) -> str:
        return f"{_UNFINISHED}/{name.rpartition('/')[2]}.{secrets.token_hex(8)}"

    def _marker(self, name: str) -> str | None:
        """Return the value that a register's marker names; None: it is a plain object. Raises FileNotFoundError."""
        entries = self._client.list(name)
        if len(entries) == 1 and not entries[0].isdir and entries[0].path.endswith(f"/{name}"):
            return None
        found = [match["value"] for each in entries if (match := _CURRENT.fullmatch(_name(each.path)))]
        if len(found) != 1:
            message = f"{self.place(name)} has {len(found)} files current-…, and not one"
            raise StorageRefusedError(message, remedy=_RESTORE)
        return found[0]

    def _marker_or_none(self, name: str) -> str | None:
        try:
            return self._marker(name)
        except FileNotFoundError:
            return None

    def _sweep(self, name: str, marker: str, replaced: str) -> None:
        """After a swap, delete the value that it has replaced. The first time, delete the leftovers of killed drivers.

        The swap has landed, so it succeeds also after an error here: the next driver deletes the rest.
        """
        try:
            if name in self._swept:
                self._client.delete(f"{name}/value-{replaced}")
                return
            entries = self._client.list(name)
            for entry in superseded([_name(each.path) for each in entries], marker):
                self._client.delete(f"{name}/{entry}")
            self._swept.add(name)
            self._sweep_unfinished(now_ms=max(each.modification_time for each in entries))
        except (StorageError, FileNotFoundError):
            return

    def _sweep_unfinished(self, *, now_ms: int) -> None:
        """Delete objects that were begun a day before. A writer that continues finds that out at its rename."""
        for each in self._client.list(_UNFINISHED):
            if each.modification_time < now_ms - _OLD_MS:
                self._client.delete(f"{_UNFINISHED}/{_name(each.path)}")


def superseded(entries: Iterable[str], value: str) -> list[str]:
    """Return the values of a register that no marker can name any more, once a marker has named `value`."""
    found = filter(None, map(_VALUE.fullmatch, entries))
    return [each[0] for each in found if each["value"] != value and each["number"] <= value[:20]]


def _name(path: str) -> str:
    return path.rpartition("/")[2]
