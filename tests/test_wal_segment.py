"""Segments on a real disk: what is read is what was written, and damage of any kind is named before a row comes out."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wal.errors import SegmentDamagedError, SegmentError, SegmentFormatError, SegmentMissingError, StorageError
from wal.local import LocalStorage
from wal.segment import SegmentRef, SegmentWriter, read_segment, stat_segment

NAME = "one.segment"
ROWS = pa.table({"id": pa.array([1, None, 3]), "text": ["", None, "ä\0\n"], "raw": [b"\xff", b"", None]})


def seal(storage: LocalStorage, table: pa.Table = ROWS, name: str = NAME) -> SegmentRef:
    writer = SegmentWriter(storage, name, table.schema)
    for batch in table.to_batches():
        writer.write(batch)
    return writer.seal()


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path)


def test_rows_come_back(storage: LocalStorage, tmp_path: Path) -> None:
    ref = seal(storage)
    content = (tmp_path / NAME).read_bytes()
    assert (ref.name, ref.rows) == (NAME, 3)
    assert ref.sha256 == hashlib.sha256(content[: ref.bytes]).hexdigest()
    assert stat_segment(storage, NAME) == ref
    assert pa.Table.from_batches(read_segment(storage, ref)).equals(ROWS)


def test_no_rows_are_a_segment_too(storage: LocalStorage) -> None:
    ref = seal(storage, ROWS.slice(0, 0))
    assert list(read_segment(storage, ref)) == []


def test_any_tool_can_read_the_layout(storage: LocalStorage, tmp_path: Path) -> None:
    ref = seal(storage)
    content = (tmp_path / NAME).read_bytes()
    length, crc, end = struct.unpack("<II8s", content[-16:])
    footer = content[-16 - length : -16]
    assert (content[:8], end, zlib.crc32(footer)) == (b"EOSWAL01", b"EOSWALFT", crc)
    fields = json.loads(footer)
    assert fields.pop("schema")
    assert fields == {
        "format": 1,
        "rows": 3,
        "bytes": ref.bytes,
        "sha256": ref.sha256,
        "columns": [["id", "int64"], ["text", "string"], ["raw", "binary"]],
    }
    assert pa.ipc.open_stream(content[8 : ref.bytes]).read_all().equals(ROWS)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(data=st.data())
def test_any_damage_is_found_before_the_first_row(storage: LocalStorage, tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / NAME
    path.unlink(missing_ok=True)
    ref = seal(storage)
    content = path.read_bytes()
    place = data.draw(st.integers(0, len(content) - 1))
    damages: list[Callable[[], bytes]] = [
        lambda: content[:place],
        lambda: content[:place] + bytes([content[place] ^ data.draw(st.integers(1, 255))]) + content[place + 1 :],
        lambda: content[:place] + data.draw(st.binary(min_size=1, max_size=9)) + content[place:],
        lambda: content + data.draw(st.binary(min_size=1, max_size=20)),
        lambda: content[:place] + bytes(len(content) - place),
    ]
    damaged = data.draw(st.sampled_from(damages))()
    if damaged == content:
        return
    path.write_bytes(damaged)
    with pytest.raises(SegmentError, match=f"{tmp_path}/{NAME}") as caught:
        read_segment(storage, ref)
    assert caught.value.remedy


def test_bytes_between_rows_and_footer_are_damage(storage: LocalStorage, tmp_path: Path) -> None:
    """The checksum of the rows alone would still be right."""
    ref = seal(storage)
    content = (tmp_path / NAME).read_bytes()
    (tmp_path / NAME).write_bytes(content[: ref.bytes] + b"more" + content[ref.bytes :])
    with pytest.raises(SegmentDamagedError, match="bytes lie before its footer"):
        read_segment(storage, ref)


def test_a_missing_segment_is_named(storage: LocalStorage, tmp_path: Path) -> None:
    with pytest.raises(SegmentMissingError, match=f"{tmp_path}/gone"):
        read_segment(storage, SegmentRef("gone", 1, 1, ""))
    with pytest.raises(SegmentMissingError, match=f"{tmp_path}/gone"):
        stat_segment(storage, "gone")


def test_another_whole_segment_is_not_taken_for_it(storage: LocalStorage, tmp_path: Path) -> None:
    ref, other = seal(storage), seal(storage, ROWS.slice(1), "two.segment")
    (tmp_path / NAME).write_bytes((tmp_path / other.name).read_bytes())
    with pytest.raises(SegmentDamagedError, match="not the segment that was acknowledged"):
        read_segment(storage, ref)


def test_a_newer_format_is_refused_as_such(storage: LocalStorage, tmp_path: Path) -> None:
    ref = seal(storage)
    content = (tmp_path / NAME).read_bytes()
    footer = content[ref.bytes : -16].replace(b'"format":1', b'"format":2')
    tail = struct.pack("<II8s", len(footer), zlib.crc32(footer), b"EOSWALFT")
    (tmp_path / NAME).write_bytes(content[: ref.bytes] + footer + tail)
    with pytest.raises(SegmentFormatError, match="has format 2, this version reads format 1"):
        read_segment(storage, ref)


def test_a_writer_that_lost_bytes_cannot_seal(storage: LocalStorage) -> None:
    """Arrow would write on behind the gap: the second batch would fit where the first did not."""

    class Leaky:
        def __init__(self) -> None:
            self.writes = 0

        def write(self, data: bytes | memoryview, /) -> int:
            self.writes += 1
            if self.writes == 4:
                message = "full"
                raise StorageError(message)
            return len(data)

        def publish(self) -> None:
            pytest.fail("published with a gap")

        def discard(self) -> None:
            """Nothing is kept."""

    storage.create = lambda _name: Leaky()  # type: ignore[assignment, method-assign, return-value]
    writer = SegmentWriter(storage, NAME, ROWS.schema)
    with pytest.raises(StorageError, match="full"):
        writer.write(ROWS.to_batches()[0])
    with pytest.raises(StorageError, match="full"):
        writer.seal()


def test_an_abandoned_segment_is_not_there(storage: LocalStorage, tmp_path: Path) -> None:
    writer = SegmentWriter(storage, NAME, ROWS.schema)
    writer.write(ROWS.to_batches()[0])
    writer.discard()
    assert list(tmp_path.iterdir()) == []
