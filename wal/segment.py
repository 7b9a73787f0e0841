"""Segments: rows of one writer as an Arrow IPC stream with a footer and a checksum, sealed once and never changed.

    EOSWAL01 | Arrow IPC stream | footer, JSON | length of footer, 4 bytes | CRC32 of footer, 4 bytes | EOSWALFT

SHA-256 covers everything before the footer; the footer holds it, and so does the `SegmentRef` that the writer's owner
keeps. Integers are little-endian. A read checks the footer's place and sum, its format, the length, the reference, the
SHA-256, and only then gives out the first row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import BinaryIO, Final

import pyarrow as pa

from wal.errors import ObjectMissingError, SegmentDamagedError, SegmentMissingError, StorageError, WalError
from wal.footer import MAGIC, Footer, read_footer
from wal.storage import ObjectWriter, Storage

_CHUNK_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class SegmentRef:
    """All that is needed to find a segment again and to know it for the one that was sealed."""

    name: str
    rows: int
    bytes: int  # of rows as Arrow has them in the file; the object is a few hundred bytes longer
    sha256: str  # hexadecimal, of everything before the footer


class SegmentWriter:
    """Writes one segment. One thread; memory: one batch. After an error only `discard` may follow."""

    def __init__(self, storage: Storage, name: str, schema: pa.Schema) -> None:
        """Begin. Raises StorageError, ObjectNameError."""
        self._name = name
        self._schema = schema
        self._object = storage.create(name)
        self._content = _HashedStream(self._object)
        self._content.write(MAGIC)
        self._rows = 0
        self._stream = pa.ipc.new_stream(pa.PythonFile(self._content, mode="w"), schema)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows of the schema given at the start. Raises StorageError; no row is durable before `seal`."""
        self._stream.write_batch(batch)
        self._rows += batch.num_rows

    def seal(self) -> SegmentRef:
        """Write the footer, make everything durable, then visible. Raises what ObjectWriter.publish raises."""
        self._stream.close()
        size, sha256 = self._content.size, self._content.sha256.hexdigest()
        self._object.write(Footer(self._rows, size, sha256, self._schema).encode())
        self._object.publish()
        return SegmentRef(self._name, self._rows, size, sha256)

    def discard(self) -> None:
        """Forget the rows. Idempotent; after `seal` it does nothing. Never raises."""
        self._object.discard()


def stat_segment(storage: Storage, name: str) -> SegmentRef:
    """What a sealed segment says of itself, without reading its rows. Raises SegmentError."""
    with _open(storage, name) as file:
        footer = read_footer(file, _place(storage, name))
    return SegmentRef(name, footer.rows, footer.content_bytes, footer.sha256)


def read_segment(storage: Storage, ref: SegmentRef) -> Iterator[pa.RecordBatch]:
    """Verify the whole segment against its footer and `ref`, then return its batches; memory: one batch.

    Raises SegmentMissingError, SegmentDamagedError, SegmentFormatError before it returns, StorageError at any time.
    """
    place = _place(storage, ref.name)
    file = _open(storage, ref.name)
    try:
        footer = read_footer(file, place)
        if (footer.rows, footer.content_bytes, footer.sha256) != (ref.rows, ref.bytes, ref.sha256):
            raise _damaged(place, f"it is not the segment that was acknowledged ({ref.rows} rows, {ref.sha256[:12]})")
        _verify_content(file, footer, place)
        return _batches(file, footer, place)
    except BaseException:
        file.close()
        raise


def verify_segment(storage: Storage, ref: SegmentRef) -> pa.Schema:
    """Read all of it as `read_segment` does, and give out nothing but the schema of its rows. Raises the same."""
    batches = read_segment(storage, ref)
    with closing(_open(storage, ref.name)) as file:
        schema = read_footer(file, _place(storage, ref.name)).schema
    for _ in batches:  # closes the file at its end
        pass
    return schema


def _verify_content(file: BinaryIO, footer: Footer, place: str) -> None:
    digest, left = hashlib.sha256(), footer.content_bytes
    try:
        file.seek(0)
        while left and (chunk := file.read(min(_CHUNK_BYTES, left))):
            digest.update(chunk)
            left -= len(chunk)
    except OSError as error:
        raise _unreadable(place, error) from error
    if left or digest.hexdigest() != footer.sha256:
        raise _damaged(place, "its content does not match its checksum")


def _batches(file: BinaryIO, footer: Footer, place: str) -> Iterator[pa.RecordBatch]:
    rows = 0
    try:
        with file:
            file.seek(len(MAGIC))
            with pa.ipc.open_stream(file) as stream:
                if not stream.schema.equals(footer.schema):
                    raise _damaged(place, "its rows are not of the footer's schema")
                for batch in stream:
                    rows += batch.num_rows
                    yield batch
    except OSError as error:
        raise _unreadable(place, error) from error
    if rows != footer.rows:
        raise _damaged(place, f"it holds {rows} rows, its footer says {footer.rows}")


class _HashedStream:
    """The file that Arrow writes to: counts and hashes what goes through to the object.

    Once the object has refused bytes, everything after them is refused as well: Arrow would write on behind the gap.
    """

    closed = False

    def __init__(self, target: ObjectWriter) -> None:
        self._target = target
        self._failure: WalError | None = None
        self.sha256 = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes | memoryview, /) -> int:
        if self._failure is not None:
            raise self._failure
        try:
            self._target.write(data)
        except WalError as error:
            self._failure = error
            raise
        self.sha256.update(data)
        self.size += len(data)
        return len(data)

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        """Arrow asks for it after the last batch; the object is synced when it is published."""

    def close(self) -> None:
        """The object is closed by its own writer."""


def _open(storage: Storage, name: str) -> BinaryIO:
    try:
        return storage.open(name)
    except ObjectMissingError as error:
        message = f"segment {_place(storage, name)} is missing"
        raise SegmentMissingError(message, remedy="restore it from a backup") from error


def _place(storage: Storage, name: str) -> str:
    return f"{storage.describe()}/{name}"


def _damaged(place: str, why: str) -> WalError:
    return SegmentDamagedError(f"segment {place} is damaged: {why}", remedy="restore it from a backup")


def _unreadable(place: str, error: OSError) -> WalError:
    message = f"cannot read segment {place}: {error.strerror or error}"
    return StorageError(message, remedy="set the disk right; nothing was given out that did not match its checksum")
