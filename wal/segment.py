"""Segments: rows of one writer as an Arrow IPC stream with a footer and a checksum, sealed once and never changed.

    EOSWAL01 | Arrow IPC stream | footer, JSON | length of footer, 4 bytes | CRC32 of footer, 4 bytes | EOSWALFT

SHA-256 covers everything before the footer; the footer holds it, and so does the `SegmentRef` that the writer's owner
keeps. Integers are little-endian. A read checks the footer's place and sum, its format, the length, the reference, the
SHA-256, and only then gives out the first row.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import BinaryIO, Final

import pyarrow as pa

from wal.errors import (
    ObjectMissingError,
    SegmentDamagedError,
    SegmentFormatError,
    SegmentMissingError,
    StorageError,
    WalError,
)
from wal.storage import ObjectWriter, Storage

MAGIC: Final = b"EOSWAL01"
"""First bytes of every segment: a name, and the version of the layout around the footer."""

_NAME: Final = b"EOSWAL"

FORMAT: Final = 1
"""Version of the layout and of the footer. A reader refuses any other."""

_END: Final = b"EOSWALFT"
_TAIL: Final = struct.Struct("<II8s")
_MAX_FOOTER_BYTES: Final = 16 * 1024 * 1024  # a schema of many thousand columns; more is damage


@dataclass(frozen=True, slots=True)
class Footer:
    """What the writer knew when it sealed."""

    rows: int
    content_bytes: int  # everything before the footer
    sha256: str  # of those bytes, hexadecimal
    schema: pa.Schema

    def encode(self) -> bytes:
        """The footer with its length, its checksum and the end mark."""
        fields = {
            "format": FORMAT,
            "rows": self.rows,
            "bytes": self.content_bytes,
            "sha256": self.sha256,
            "columns": [[field.name, str(field.type)] for field in self.schema],  # for people; `schema` is what counts
            "schema": base64.b64encode(self.schema.serialize()).decode(),
        }
        text = json.dumps(fields, separators=(",", ":")).encode()
        return text + _TAIL.pack(len(text), zlib.crc32(text), _END)


def read_footer(file: BinaryIO, place: str) -> Footer:
    """Read and check the footer of an open segment; `place` names it in errors.

    Raises SegmentDamagedError, SegmentFormatError, StorageError.
    """
    try:
        size = file.seek(0, os.SEEK_END)
        start, text = _footer_text(file, size, place)
    except OSError as error:
        message = f"cannot read segment {place}: {error.strerror or error}"
        raise StorageError(message, remedy="set the disk right and start again") from error
    footer = _decode(text, place)
    if footer.content_bytes != start:
        raise _damaged(place, f"{start} bytes lie before its footer, which says {footer.content_bytes}")
    return footer


def _footer_text(file: BinaryIO, size: int, place: str) -> tuple[int, bytes]:
    """Where the footer starts, and its text."""
    if size < len(MAGIC) + _TAIL.size:
        raise _damaged(place, f"it is cut off at {size} bytes")
    file.seek(size - _TAIL.size)
    length, crc, end = _TAIL.unpack(file.read(_TAIL.size))
    start = size - _TAIL.size - length
    if end != _END or length > _MAX_FOOTER_BYTES or start < len(MAGIC):
        raise _damaged(place, "it has no footer")
    file.seek(start)
    text = file.read(length)
    if zlib.crc32(text) != crc:
        raise _damaged(place, "its footer does not match its checksum")
    file.seek(0)
    begin = file.read(len(MAGIC))
    if begin.startswith(_NAME) and begin != MAGIC:
        message = f"segment {place} begins with {begin!r}, this version reads {MAGIC!r}"
        raise SegmentFormatError(message, remedy="use the version that wrote it, or a newer one")
    if begin != MAGIC:
        raise _damaged(place, "it does not begin like a segment")
    return start, text


def _decode(text: bytes, place: str) -> Footer:
    try:
        fields = json.loads(text)
        if fields["format"] != FORMAT:
            message = f"segment {place} has format {fields['format']}, this version reads format {FORMAT}"
            raise SegmentFormatError(message, remedy="use the version that wrote it, or a newer one")
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(fields["schema"], validate=True)))
        return Footer(int(fields["rows"]), int(fields["bytes"]), str(fields["sha256"]), schema)
    except (ValueError, KeyError, TypeError, binascii.Error, pa.ArrowException) as error:
        raise _damaged(place, f"its footer cannot be read ({error})") from error


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


def _damaged(place: str, why: str) -> SegmentDamagedError:
    return SegmentDamagedError(f"segment {place} is damaged: {why}", remedy="restore it from a backup")


def _unreadable(place: str, error: OSError) -> WalError:
    message = f"cannot read segment {place}: {error.strerror or error}"
    return StorageError(message, remedy="set the disk right; nothing was given out that did not match its checksum")
