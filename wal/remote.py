"""An object as a file to read: its two ends by small requests, anything else from a copy of the whole."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final

from wal.errors import StorageError

PIECE_BYTES: Final = 64 * 1024
"""Of each end: enough for a segment's footer, or for all of a small one."""


class RemoteFile(io.RawIOBase):
    """Seekable. For one thread. A read of more than the ends blocks until the copy is made."""

    def __init__(
        self,
        place: str,
        size: int,
        first: bytes,
        fetch: Callable[[int, int], bytes],
        stream: Callable[[], Iterator[bytes]],
    ) -> None:
        """
        Args:
            place: what it is called in errors.
            size: of the object, which never changes.
            first: its first bytes.
            fetch: the bytes from the one place to the other.
            stream: all of it, in pieces.
        """
        super().__init__()
        self._place = place
        self._size = size
        self._pieces = {0: first}
        self._fetch = fetch
        self._stream = stream
        self._copy: BinaryIO | None = None
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        """See RawIOBase. Raises StorageError."""
        count = max(0, min(len(buffer), self._size - self._position))
        if count:
            self._read(memoryview(buffer)[:count])
            self._position += count
        return count

    def close(self) -> None:
        """Forget the copy."""
        if self._copy is not None:
            self._copy.close()
        super().close()

    def _read(self, target: memoryview) -> None:
        start, end = self._position, self._position + len(target)
        tail = max(0, self._size - PIECE_BYTES)
        if start >= tail and tail not in self._pieces and self._copy is None:
            self._pieces[tail] = self._fetch(tail, self._size)
        for offset, piece in self._pieces.items():
            if offset <= start and end <= offset + len(piece):
                target[:] = piece[start - offset : end - offset]
                return
        try:
            copy = self._whole()
            copy.seek(start)
            got = copy.readinto(target)  # type: ignore[attr-defined]
        except OSError as error:
            raise no_room("read from", error) from error
        if got != len(target):
            message = f"{self._place} came short of its {self._size} bytes"
            raise StorageError(message, remedy="it is asked for again")

    def _whole(self) -> BinaryIO:
        if self._copy is None:
            copy = tempfile.TemporaryFile()  # noqa: SIM115
            try:
                copy.writelines(self._stream())
            except BaseException:
                copy.close()
                raise
            self._copy = copy
        return self._copy


def no_room(doing: str, error: OSError) -> StorageError:
    """What to say of a file of this machine that does not do."""
    message = f"cannot {doing} a temporary file in {tempfile.gettempdir()}: {error.strerror or error}"
    return StorageError(message, remedy="make room there, or let TMPDIR name a folder on a larger disk")
