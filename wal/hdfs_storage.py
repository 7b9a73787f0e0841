"""A Storage in HDFS: each object is written under a name that nothing reads, and renamed, in one step of the namenode.

The rename fails if the name is taken: nothing is overwritten. A rename without an answer has happened, or has not, or
may still happen. It is looked up: an object of these very bytes is ours; other bytes were written by another process;
a missing object is a StorageError.

As in a folder, `sweep` ends a writer: the rename of a file that was deleted fails, however late it arrives. Beyond that
the rules of `wal.object` hold: to be visible is not to be decided.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Iterator, Sequence
from typing import BinaryIO, Final, cast

from wal.address import ObjectAddress
from wal.errors import ObjectMissingError, StorageError
from wal.hdfs import CHUNK_BYTES, HdfsClient
from wal.remote import PIECE_BYTES, RemoteFile
from wal.storage import check_name, in_folder, to_sweep, unfinished_in
from wal.upload import MAX_BYTES, ObjectUpload, holds, holds_in_doubt

_UNFINISHED: Final = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{16}\.unfinished")


class HdfsStorage:
    """See Storage. May be used by several threads."""

    def __init__(self, address: ObjectAddress) -> None:
        """Send nothing. Raises StorageRefusedError for options that cannot be right."""
        self._client = HdfsClient(address)

    def prepare(self, folder: str) -> None:
        """See Storage. The namenode's answer is durable."""
        self._client.make_folder(check_name(folder))

    def create(self, name: str) -> ObjectUpload:
        """See Storage. Sends nothing yet: the bytes are kept on this machine until `publish`."""
        check_name(name)
        return ObjectUpload(self._client.place(name), lambda content: self._put(name, content), MAX_BYTES)

    def open(self, name: str) -> BinaryIO:
        """See Storage. The middle of a larger object is read from a copy on this machine."""
        place = self._client.place(check_name(name))
        try:
            status = self._client.status(name)
            if status is None:
                raise FileNotFoundError
            first = self._client.read_range(name, 0, min(status.length, PIECE_BYTES)) if status.length else b""
        except FileNotFoundError:
            message = f"{place} does not exist"
            raise ObjectMissingError(message) from None
        size = status.length

        def fetch(start: int, end: int) -> bytes:
            try:
                return self._client.read_range(name, start, end)
            except FileNotFoundError as error:
                message = f"{place} does not exist"
                raise ObjectMissingError(message) from error

        def stream() -> Iterator[bytes]:
            for start in range(0, size, CHUNK_BYTES):
                yield fetch(start, min(start + CHUNK_BYTES, size))

        return cast("BinaryIO", RemoteFile(place, size, first, fetch, stream))

    def delete(self, name: str) -> None:
        self._client.delete(check_name(name))

    def names(self, folder: str = "") -> Sequence[str]:
        return [in_folder(folder, entry) for entry in self._list(folder) if not entry.startswith(".")]

    def folders(self, folder: str = "") -> Sequence[str]:
        start = in_folder(folder, "")
        return [start + name for name, is_folder in self._entries(folder) if is_folder]

    def below(self, folder: str = "") -> Sequence[str]:
        """See TreeStorage. One request for each folder."""
        found, folders = list[str](), [check_name(folder) if folder else ""]
        while folders:
            at = folders.pop()
            for name, is_folder in self._entries(at):
                if is_folder:
                    folders.append(_join(at, name))
                elif not name.startswith("."):
                    found.append(_join(at, name))
        return sorted(found)

    def clear(self, folder: str = "") -> None:
        """See TreeStorage. The namenode refuses to delete a folder in which something is."""
        for name, is_folder in self._entries(folder):
            if is_folder:
                self.clear(_join(folder, name))
            elif _UNFINISHED.fullmatch(name):
                self._client.delete(_join(folder, name))
        if not self._entries(folder):
            self._client.delete_empty(folder)

    def unfinished(self, folder: str = "") -> Sequence[str]:
        return unfinished_in(folder, self._list(folder), _UNFINISHED)

    def sweep(self, names: Collection[str]) -> None:
        """See Storage. Lists each folder once."""
        for folder, entry in to_sweep(names, self._list, _UNFINISHED):
            self._client.delete(in_folder(folder, entry))

    def describe(self) -> str:
        """The URL."""
        return str(self._client.address)

    def _list(self, folder: str) -> Sequence[str]:
        return [name for name, is_folder in self._entries(check_name(folder) if folder else "") if not is_folder]

    def _entries(self, folder: str) -> Sequence[tuple[str, bool]]:
        """Return the entries of a folder by name, and whether each is a folder. The folder may have any name."""
        try:
            found = self._client.list(folder)
        except FileNotFoundError:
            return ()
        return sorted((each.path.rpartition("/")[2], each.isdir) for each in found)

    def _put(self, name: str, content: BinaryIO) -> None:
        """Create an object of all the bytes of a file. Raises what ObjectWriter.publish raises."""
        folder, _, entry = name.rpartition("/")
        partial = f"{folder}/" * bool(folder) + f".{entry}.{secrets.token_hex(8)}.unfinished"
        self._client.write(partial, content)
        try:
            self._client.rename(partial, name)
        except FileExistsError:
            self._client.delete(partial)
            holds(self, name, content)
        except FileNotFoundError as error:
            if not holds(self, name, content):
                message = f"{self._client.place(name)}: its unfinished file was swept away"
                raise ObjectMissingError(message, remedy="a newer owner of the folder has ended this writer") from error
        except StorageError as error:
            if not error.retriable or not holds_in_doubt(self, name, content, error):
                raise


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
