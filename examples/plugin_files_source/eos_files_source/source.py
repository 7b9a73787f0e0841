"""A source of files: one split, whose positions are `[file name, place in it, digest of the listing]`.

The place is a byte of a JSON Lines file, a row of a Parquet file. The digest names all files up to this one with sizes
and versions, so that a plan and each task notice a listing that is not the one that was planned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import SEEK_CUR, SEEK_END, SEEK_SET, BytesIO, RawIOBase
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

import obstore
import pyarrow as pa
import pyarrow.json
import pyarrow.parquet
from obstore.store import LocalStore

from eos import Finding
from eos.errors import BadRecordError, ConnectorError, OffsetOutOfRangeError, SourceError
from eos.plugin import Position, SplitSource
from eos_files_source.listing import File, Links, Listing, is_version, list_files, open_store

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

SPLIT: Final = "files"
FIRST: Final[Position] = ["", 0, ""]
METADATA: Final = pa.schema(
    [pa.field("_file", pa.string(), nullable=False), pa.field("_at", pa.int64(), nullable=False)]
)
"""The file of a record, and the byte (JSON Lines) or row (Parquet) of the file at which it begins."""

_CHUNK_BYTES: Final = 8 * 1024 * 1024
_BATCH_ROWS: Final = 50_000
_BATCH_BYTES: Final = 8 * 1024 * 1024
_BUFFER_BYTES: Final = 1024 * 1024
"""Bytes that are read at once of each column of a Parquet file."""


@dataclass(frozen=True)
class FilesSource(SplitSource):
    """The files below one place."""

    url: str
    columns: pa.Schema
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    links: Links = "inside"

    @property
    def schema(self) -> pa.Schema:
        """See SplitSource."""
        return pa.schema([*self.columns, *METADATA])

    def splits(self) -> Mapping[str, Position]:
        """See SplitSource."""
        self._listing()
        return {SPLIT: FIRST}

    def end(self, split: str, start: Position) -> Position:
        """See SplitSource. The end of the last file."""
        listing = self._listing()
        name, _, digest = _parts(start)
        listing.check(name, digest)
        return self._end_of(listing.files[-1]) if listing.files else start

    def witness(self, split: str, position: Position) -> str:
        """See SplitSource."""
        return self._listing().digest(_parts(position)[0])

    def read(self, split: str, start: Position, end: Position) -> Iterator[pa.RecordBatch]:
        """See SplitSource."""
        listing = self._listing()
        (first, begin, _), (last, stop, digest) = _parts(start), _parts(end)
        listing.check(first, _parts(start)[2])
        listing.check(last, digest)
        for file in listing.between(first, last):
            low = begin if file.name == first else 0
            high = stop if file.name == last else None
            yield from self._rows(file, low, high)

    def limit(self, split: str, start: Position, end: Position, max_records: int) -> Position:
        """See SplitSource. Reads the JSON Lines files of the range up to the limit."""
        listing = self._listing()
        (first, begin, _), (last, stop, _) = _parts(start), _parts(end)
        left = max_records
        for file in listing.between(first, last):
            low = begin if file.name == first else 0
            high = stop if file.name == last else None
            for place in self._places(file, low, high, left):
                left -= 1
                if left == 0:
                    return [file.name, place, file.digest]
        return end

    def check(self) -> Sequence[Finding]:
        """See SplitSource."""
        try:
            files = self._listing().files
        except ConnectorError as error:
            return [Finding("files", False, error.message, error.remedy)]
        return [Finding("files", True, f"{self.url}: {len(files)} files, {sum(file.size for file in files):,} bytes")]

    @property
    def _store(self) -> Any:
        return open_store(self.url, self.options)

    def _listing(self) -> Listing:
        return list_files(self._store, self.url, self.links)

    def _end_of(self, file: File) -> Position:
        place = file.size if file.name.endswith(".jsonl") else self._parquet(file).metadata.num_rows
        return [file.name, place, file.digest]

    def _rows(self, file: File, low: int, high: int | None) -> Iterator[pa.RecordBatch]:
        read = self._json_rows if file.name.endswith(".jsonl") else self._parquet_rows
        for rows, places in read(file, low, high):
            names = pa.array([file.name] * rows.num_rows, pa.string())
            parts = [rows.column(field.name) for field in self.columns]
            yield pa.record_batch([*parts, names, places], schema=self.schema)

    def _places(self, file: File, low: int, high: int | None, most: int) -> Iterator[int]:
        """Yield the place behind each record."""
        if file.name.endswith(".jsonl"):
            for at, lines in self._lines(file, low, high):
                yield from accumulate(map(len, lines[1:]), initial=at + len(lines[0]))
        else:
            rows = self._parquet(file).metadata.num_rows if high is None else high
            yield from range(low + 1, min(rows, low + most) + 1)

    def _lines(self, file: File, low: int, high: int | None) -> Iterator[tuple[int, list[bytes]]]:
        """Yield lines with their ends, in lists of bounded size, each list with the byte at which it begins."""
        at, rest, stop = low, b"", file.size if high is None else high
        while at + len(rest) < stop:
            begin = at + len(rest)
            chunk = rest + self.bytes_of(file, begin, min(begin + _CHUNK_BYTES, stop))
            cut = len(chunk) if begin + _CHUNK_BYTES >= stop else chunk.rfind(b"\n") + 1
            lines, rest = chunk[:cut].splitlines(keepends=True), chunk[cut:]
            for first in range(0, len(lines), _BATCH_ROWS):
                some = lines[first : first + _BATCH_ROWS]
                yield at, some
                at += sum(map(len, some))

    def _json_rows(self, file: File, low: int, high: int | None) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
        options = pyarrow.json.ParseOptions(explicit_schema=self.columns, unexpected_field_behavior="ignore")
        for at, lines in self._lines(file, low, high):
            text = b"".join(lines)
            places = pa.array(accumulate(map(len, lines[:-1]), initial=at), pa.int64())
            try:
                block = pyarrow.json.ReadOptions(block_size=max(len(text) + 1, 1))
                rows = pyarrow.json.read_json(BytesIO(text), read_options=block, parse_options=options).combine_chunks()
                if rows.num_rows != len(lines):
                    message = f"{len(lines)} lines are {rows.num_rows} objects"
                    raise pa.ArrowInvalid(message)
                yield _as(rows, self.columns), places
            except pa.ArrowInvalid as error:
                message = f"{file.name}, lines from byte {at} on: {error}"
                raise BadRecordError(message, remedy="correct the file's producer, or the source's schema") from error

    def _parquet_rows(self, file: File, low: int, high: int | None) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
        opened = self._parquet(file)
        at = 0
        for group in range(opened.num_row_groups):
            rows = opened.metadata.row_group(group).num_rows
            if at + rows > low and (high is None or at < high):
                try:
                    yield from self._group_rows(opened, file, group, at, (low, high))
                except (pa.ArrowInvalid, OSError) as error:  # `bytes_of` raises none: the content is damaged
                    message = f"{file.name}, rows from {at} on cannot be read: {error}"
                    raise BadRecordError(message, remedy="correct the file's producer") from error
            at += rows

    def _group_rows(
        self, opened: Any, file: File, group: int, at: int, wanted: tuple[int, int | None]
    ) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
        low, high = wanted
        found = opened.metadata.row_group(group)
        rows = max(min(_BATCH_ROWS, found.num_rows * _BATCH_BYTES // max(found.total_byte_size, 1)), 1)
        for batch in opened.iter_batches(rows, row_groups=[group]):
            begin = max(low - at, 0)
            stop = batch.num_rows if high is None else min(high - at, batch.num_rows)
            if begin < stop:
                part = pa.Table.from_batches([batch.slice(begin, stop - begin)])
                places = pa.array(range(at + begin, at + stop), pa.int64())
                try:
                    yield _as(part, self.columns), places
                except (pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError) as error:
                    message = f"{file.name}, rows from {at + begin} on do not fit the schema: {error}"
                    raise BadRecordError(message, remedy="correct the source's schema") from error
            at += batch.num_rows

    def _parquet(self, file: File) -> Any:
        try:
            opened = pa.PythonFile(_Listed(self, file), mode="r")
            return pyarrow.parquet.ParquetFile(opened, buffer_size=_BUFFER_BYTES, pre_buffer=False)
        except (pa.ArrowInvalid, OSError) as error:
            raise BadRecordError(f"{file.name} is not a Parquet file: {error}") from error

    def bytes_of(self, file: File, low: int, high: int) -> bytes:
        """Return bytes of the very version that was listed.

        Raises OffsetOutOfRangeError if the file was removed, replaced, extended or cut off since.
        """
        options: obstore.GetOptions = {"range": (low, high)}
        if file.etag is not None:
            options["if_match"] = file.etag
        try:
            store = self._store
            found = obstore.get(store, file.name, options=options)
            content = bytes(found.bytes())
            # An object is replaced as a whole. A file can change between its ETag and its last byte.
            metas = [found.meta, obstore.head(store, file.name)] if isinstance(store, LocalStore) else [found.meta]
        except (FileNotFoundError, obstore.exceptions.NotFoundError, obstore.exceptions.PreconditionError) as error:
            raise _changed(file) from error
        except (obstore.exceptions.BaseError, OSError) as error:
            raise SourceError(f"{file.name} cannot be read: {error}") from error
        if len(content) != high - low or any(
            meta["size"] != file.size or not is_version(meta, file.version) for meta in metas
        ):
            raise _changed(file)
        return content


class _Listed(RawIOBase):
    """A listed file for Arrow, which reads ranges of it. Each range is of the version that was listed."""

    def __init__(self, source: FilesSource, file: File) -> None:
        super().__init__()
        self._source = source
        self._file = file
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        self._at = offset + {SEEK_SET: 0, SEEK_CUR: self._at, SEEK_END: self._file.size}[whence]
        return self._at

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        high = min(self._at + len(view), self._file.size)
        if high <= self._at:
            return 0
        content = self._source.bytes_of(self._file, self._at, high)
        view[: len(content)] = content
        self._at = high
        return len(content)


def _changed(file: File) -> OffsetOutOfRangeError:
    message = f"{file.name} was removed, replaced, extended or cut off since it was listed"
    return OffsetOutOfRangeError(message, remedy="put the file back as it was, and its time of the last change")


def _as(rows: pa.Table, columns: pa.Schema) -> pa.RecordBatch:
    """Return the declared columns, in their order, each in one piece.

    Raises ArrowInvalid for text that is not UTF-8, and for a null in a column that has none by the schema.
    """
    table = pa.table([rows.column(field.name).cast(field.type) for field in columns], schema=columns).combine_chunks()
    (batch,) = table.to_batches() or [pa.RecordBatch.from_pylist([], schema=columns)]
    batch.validate(full=True)
    for column in columns:
        if not column.nullable and batch.column(column.name).null_count:
            message = f"column {column.name} is NOT NULL, and a record has a null there"
            raise pa.ArrowInvalid(message)
    return batch


def _parts(position: Position) -> tuple[str, int, str]:
    assert isinstance(position, list)
    name, place, digest = position
    assert isinstance(name, str)
    assert isinstance(place, int)
    assert isinstance(digest, str)
    return name, place, digest
