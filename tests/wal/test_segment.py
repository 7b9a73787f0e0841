"""Segments on a disk and in a bucket: what is read is what was written; any damage is named before a row comes out."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.object_store import Bucket
from tests.searches import examples
from wal.errors import SegmentDamagedError, SegmentError, SegmentFormatError, SegmentMissingError, StorageError
from wal.local import LocalStorage
from wal.object import ObjectStorage
from wal.segment import SegmentRef, SegmentWriter, read_segment, stat_segment
from wal.storage import Storage

NAME = "one.segment"
ROWS = pa.table({"id": pa.array([1, None, 3]), "text": ["", None, "ä\0\n"], "raw": [b"\xff", b"", None]})


def seal(storage: Storage, table: pa.Table = ROWS, name: str = NAME) -> SegmentRef:
    writer = SegmentWriter(storage, name, table.schema)
    for batch in table.to_batches():
        writer.write(batch)
    return writer.seal()


@dataclass
class Place:
    """A storage, and a way to its bytes that shares no code with it."""

    storage: Storage
    read: Callable[[str], bytes]
    write: Callable[[str, bytes], object]  # also over what is there

    def ref(self, table: pa.Table = ROWS, name: str = NAME) -> SegmentRef:
        return seal(self.storage, table, name)


@pytest.fixture
def folder(tmp_path: Path) -> Place:
    return Place(LocalStorage(tmp_path), lambda name: (tmp_path / name).read_bytes(), partial(_write, tmp_path))


def _write(folder: Path, name: str, content: bytes) -> None:
    (folder / name).write_bytes(content)


@pytest.fixture
def in_bucket(bucket: Bucket) -> Place:
    return Place(
        ObjectStorage(bucket.address("log")),
        lambda name: bucket.content(f"log/{name}"),
        lambda name, content: bucket.write(f"log/{name}", content),
    )


@pytest.fixture(params=["folder", "in_bucket"])
def place(request: pytest.FixtureRequest) -> Place:
    found: Place = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def storage(place: Place) -> Storage:
    return place.storage


def test_rows_come_back(place: Place) -> None:
    ref = place.ref()
    content = place.read(NAME)
    assert (ref.name, ref.rows) == (NAME, 3)
    assert ref.sha256 == hashlib.sha256(content[: ref.bytes]).hexdigest()
    assert stat_segment(place.storage, NAME) == ref
    assert pa.Table.from_batches(read_segment(place.storage, ref)).equals(ROWS)


def test_no_rows_are_a_segment_too(place: Place) -> None:
    ref = place.ref(ROWS.slice(0, 0))
    assert list(read_segment(place.storage, ref)) == []


def test_any_tool_can_read_the_layout(place: Place) -> None:
    ref = place.ref()
    content = place.read(NAME)
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


def test_the_layout_of_another_version_is_refused_as_that_and_not_as_damage(place: Place) -> None:
    ref = place.ref()
    place.write(NAME, b"EOSWAL02" + place.read(NAME)[8:])
    with pytest.raises(SegmentFormatError, match="begins with b'EOSWAL02', this version reads b'EOSWAL01'"):
        list(read_segment(place.storage, ref))


UNCHANGED = [HealthCheck.function_scoped_fixture]


@settings(suppress_health_check=UNCHANGED, max_examples=examples(200))
@given(data=st.data())
def test_any_damage_is_found_before_the_first_row(folder: Place, data: st.DataObject) -> None:
    check_damage(folder, data)


@settings(suppress_health_check=UNCHANGED, max_examples=examples(25))  # of some requests each
@given(data=st.data())
def test_any_damage_in_a_bucket_is_found_before_the_first_row(in_bucket: Place, data: st.DataObject) -> None:
    check_damage(in_bucket, data)


def check_damage(place: Place, data: st.DataObject) -> None:
    place.storage.delete(NAME)
    ref = place.ref()
    content = place.read(NAME)
    spot = data.draw(st.integers(0, len(content) - 1))
    damages: list[Callable[[], bytes]] = [
        lambda: content[:spot],
        lambda: content[:spot] + bytes([content[spot] ^ data.draw(st.integers(1, 255))]) + content[spot + 1 :],
        lambda: content[:spot] + data.draw(st.binary(min_size=1, max_size=9)) + content[spot:],
        lambda: content + data.draw(st.binary(min_size=1, max_size=20)),
        lambda: content[:spot] + bytes(len(content) - spot),
    ]
    damaged = data.draw(st.sampled_from(damages))()
    if damaged == content:
        return
    place.write(NAME, damaged)
    with pytest.raises(SegmentError, match=f"{place.storage.describe()}/{NAME}") as caught:
        read_segment(place.storage, ref)
    assert caught.value.remedy


def test_a_byte_of_a_value_is_damage(place: Place) -> None:
    """Arrow would read it: only the sum tells."""
    ref = place.ref(pa.table({"text": ["of one row", "of another"]}))
    content = place.read(NAME)
    assert content.count(b"of another") == 1
    place.write(NAME, content.replace(b"of another", b"of Another"))
    with pytest.raises(SegmentDamagedError, match="its content does not match its checksum"):
        read_segment(place.storage, ref)


def test_a_number_in_the_footer_is_damage(place: Place) -> None:
    """It is believed by whoever has no reference, and finds the segment by its name alone."""
    place.ref()
    content = place.read(NAME)
    assert content.count(b'"rows":3') == 1
    place.write(NAME, content.replace(b'"rows":3', b'"rows":4'))
    with pytest.raises(SegmentDamagedError, match="its footer does not match its checksum"):
        stat_segment(place.storage, NAME)


def test_bytes_between_rows_and_footer_are_damage(place: Place) -> None:
    """The checksum of the rows alone would still be right."""
    ref = place.ref()
    content = place.read(NAME)
    place.write(NAME, content[: ref.bytes] + b"more" + content[ref.bytes :])
    with pytest.raises(SegmentDamagedError, match="bytes lie before its footer"):
        read_segment(place.storage, ref)


def test_a_missing_segment_is_named(place: Place) -> None:
    with pytest.raises(SegmentMissingError, match=f"{place.storage.describe()}/gone"):
        read_segment(place.storage, SegmentRef("gone", 1, 1, ""))
    with pytest.raises(SegmentMissingError, match=f"{place.storage.describe()}/gone"):
        stat_segment(place.storage, "gone")


@pytest.mark.parametrize("table", [ROWS.slice(1), ROWS.take([2, 1, 0])])
def test_another_whole_segment_is_not_taken_for_it(place: Place, table: pa.Table) -> None:
    ref, other = place.ref(), place.ref(table, "two.segment")
    place.write(NAME, place.read(other.name))
    with pytest.raises(SegmentDamagedError, match="not the segment that was acknowledged"):
        read_segment(place.storage, ref)


def test_a_newer_format_is_refused_as_such(place: Place) -> None:
    ref = place.ref()
    content = place.read(NAME)
    footer = content[ref.bytes : -16].replace(b'"format":1', b'"format":2')
    tail = struct.pack("<II8s", len(footer), zlib.crc32(footer), b"EOSWALFT")
    place.write(NAME, content[: ref.bytes] + footer + tail)
    with pytest.raises(SegmentFormatError, match="has format 2, this version reads format 1"):
        read_segment(place.storage, ref)


def test_a_writer_that_lost_bytes_cannot_seal(storage: Storage) -> None:
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

    storage.create = lambda _name: Leaky()  # type: ignore[assignment, method-assign]
    writer = SegmentWriter(storage, NAME, ROWS.schema)
    with pytest.raises(StorageError, match="full"):
        writer.write(ROWS.to_batches()[0])
    with pytest.raises(StorageError, match="full"):
        writer.seal()


def test_an_abandoned_segment_is_not_there(place: Place) -> None:
    writer = SegmentWriter(place.storage, NAME, ROWS.schema)
    writer.write(ROWS.to_batches()[0])
    writer.discard()
    assert place.storage.names() == []
    assert list(place.storage.unfinished()) == []
