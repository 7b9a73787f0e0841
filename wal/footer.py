"""The last bytes of a segment: what it holds, and the means to notice that it no longer does."""

from __future__ import annotations

import base64
import binascii
import json
import os
import struct
import zlib
from dataclasses import dataclass
from typing import BinaryIO, Final

import pyarrow as pa

from wal.errors import SegmentDamagedError, SegmentFormatError, StorageError

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


def _damaged(place: str, why: str) -> SegmentDamagedError:
    return SegmentDamagedError(f"segment {place} is damaged: {why}", remedy="restore it from a backup")
