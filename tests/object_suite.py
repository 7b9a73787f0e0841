"""ObjectStorage on a real HTTP server: what is there after an answer that was lost or late. Run on each kind of store.

A test module subclasses this. Its fixtures `bucket` and `wire` are of one store.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa
import pytest

from tests.object_store import (
    LANDED,
    REFUSED,
    Behaviour,
    Bucket,
    Wire,
    half_sent,
    late,
    lost_answer,
    lost_request,
    silent,
    through,
    unavailable,
)
from wal.errors import (
    ObjectExistsError,
    ObjectMissingError,
    SegmentDamagedError,
    StorageError,
    StorageRefusedError,
)
from wal.object import ObjectStorage
from wal.segment import SegmentRef, SegmentWriter, read_segment, stat_segment

Lay = Callable[..., Wire]

NAME = "one.segment"
KEY = f"eos/log/{NAME}"
ROWS = pa.table({"id": list(range(40_000)), "word": [f"word {i}" for i in range(40_000)]})  # more than both ends
FAULTS = [lost_answer, lost_request, half_sent, unavailable, silent]


def put(storage: ObjectStorage, name: str, content: bytes) -> None:
    writer = storage.create(name)
    writer.write(content)
    writer.publish()


def seal(storage: ObjectStorage) -> SegmentRef:
    writer = SegmentWriter(storage, NAME, ROWS.schema)
    for batch in ROWS.to_batches(max_chunksize=10_000):
        writer.write(batch)
    return writer.seal()


def sealed_or_not(storage: ObjectStorage) -> SegmentRef | None:
    """None for an error after which the checkpoint is run again."""
    try:
        return seal(storage)
    except StorageError as error:
        if not error.retriable:
            raise
    return None


class ObjectSuite:
    """The store behind `wire` is the one that `bucket` is of."""

    @pytest.mark.usefixtures("hasty")
    @pytest.mark.parametrize("call", range(3))
    @pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
    def test_one_request_fails_and_the_segment_is_acknowledged_only_where_it_is(
        self, bucket: Bucket, wire: Lay, fault: Behaviour, call: int
    ) -> None:
        """The put, or what is asked after it: whatever the client hears, it finds out."""
        line = wire(*[lost_answer] * call, fault, through)
        storage = ObjectStorage(bucket.address(port=line.port))
        acknowledged = sealed_or_not(storage)
        assert line.requests[0] == "PUT"
        assert len(line.requests) > 1, line.requests
        there = KEY in bucket.listed()
        assert there or acknowledged is None
        if fault in (lost_answer, unavailable, silent) or call:
            assert there
            assert acknowledged is not None
        if there:
            direct = ObjectStorage(bucket.address())
            ref = stat_segment(direct, NAME)
            assert acknowledged in (None, ref)
            assert pa.Table.from_batches(read_segment(direct, ref)).equals(ROWS)

    @pytest.mark.usefixtures("hasty")
    def test_an_outage_that_lasts_after_the_put_has_landed_is_no_success_and_no_refusal(
        self, bucket: Bucket, wire: Lay
    ) -> None:
        storage = ObjectStorage(bucket.address(port=wire(lost_answer, lost_request).port))
        with pytest.raises(StorageError) as caught:
            put(storage, NAME, b"bytes")
        assert caught.value.retriable
        assert bucket.content(KEY) == b"bytes"  # the client does not know of it

    @pytest.mark.usefixtures("hasty")
    def test_a_put_that_lands_after_its_writer_gave_up_is_whole_and_can_be_deleted(
        self, bucket: Bucket, wire: Lay
    ) -> None:
        line = wire(late, through)
        storage = ObjectStorage(bucket.address(port=line.port))
        with pytest.raises(StorageError, match=f"cannot publish {storage.describe()}/{NAME}"):
            put(storage, NAME, b"late")
        storage.sweep([NAME])
        storage.delete(NAME)
        assert bucket.listed() == []
        line.released.set()
        assert line.late_answers.get(timeout=30)[:13] in LANDED
        assert storage.names() == [NAME]
        assert bucket.content(KEY) == b"late"
        storage.delete(NAME)
        assert bucket.listed() == []

    @pytest.mark.usefixtures("hasty")
    def test_a_late_put_does_not_take_the_place_of_another(self, bucket: Bucket, wire: Lay) -> None:
        line = wire(late, through)
        storage = ObjectStorage(bucket.address(port=line.port))
        with pytest.raises(StorageError):
            put(storage, NAME, b"late")
        put(storage, NAME, b"first to land")
        line.released.set()
        assert line.late_answers.get(timeout=30)[:13] in REFUSED
        assert bucket.content(KEY) == b"first to land"

    def test_of_many_writers_of_one_name_one_wins(self, bucket: Bucket) -> None:
        storage = ObjectStorage(bucket.address())

        def write(n: int) -> bool:
            try:
                put(storage, NAME, b"%d" % n)
            except ObjectExistsError:
                return False
            return True

        put(storage, NAME, b"first")  # moto looks and writes in two steps, so that two at once would be its own mistake
        with ThreadPoolExecutor(4) as pool:
            assert not any(pool.map(write, range(8)))
        assert bucket.content(KEY) == b"first"

    def test_the_same_bytes_again_are_the_same_object(self, bucket: Bucket) -> None:
        """How else would a writer know its own put, whose answer was lost?"""
        storage = ObjectStorage(bucket.address())
        put(storage, NAME, b"bytes")
        put(storage, NAME, b"bytes")
        for other in (b"Bytes", b"bytes!", b""):
            with pytest.raises(ObjectExistsError, match=f"{NAME} exists already"):
                put(storage, NAME, other)
        assert bucket.content(KEY) == b"bytes"

    def test_only_what_lies_flat_below_the_prefix_is_seen(self, bucket: Bucket) -> None:
        for key in ("eos/log/", "eos/log/own", "eos/log/deeper/other", "eos/log2/other", "eos/log", "eos/log/.hidden"):
            bucket.write(key, b"1")
        storage = ObjectStorage(bucket.address())
        assert storage.names() == ["own"]
        storage.delete("own")
        assert sorted(bucket.listed()) == [
            "eos/log",
            "eos/log/",
            "eos/log/.hidden",
            "eos/log/deeper/other",
            "eos/log2/other",
        ]

    @pytest.mark.parametrize("prefix", ["a=b/c_d/e-f.g", "A/0", ".dot/..x"])
    def test_a_prefix_is_taken_as_it_is(self, bucket: Bucket, prefix: str) -> None:
        put(ObjectStorage(bucket.address(prefix)), "one", b"1")
        assert bucket.listed() == [f"{prefix}/one"]

    def test_small_and_large_objects_are_read_as_they_were_written(self, bucket: Bucket) -> None:
        storage = ObjectStorage(bucket.address())
        for size in (0, 1, 65_536, 65_537, 131_072, 131_073, 9_000_000):
            content = bytes(range(251)) * (size // 251) + bytes(range(size % 251))
            put(storage, f"n{size}", content)
            with storage.open(f"n{size}") as file:
                assert file.seek(0, 2) == size
                file.seek(max(0, size - 7))
                assert file.read() == content[-7:]
                file.seek(0)
                assert file.read() == content
                file.seek(size + 5)
                assert file.read(1) == b""

    def test_a_footer_is_read_without_the_rows(self, bucket: Bucket, wire: Lay) -> None:
        ref = seal(ObjectStorage(bucket.address()))
        assert ref.bytes > 500_000
        line = wire(through)
        assert stat_segment(ObjectStorage(bucket.address(port=line.port)), NAME) == ref
        assert line.requests == ["GET", "GET"]
        list(read_segment(ObjectStorage(bucket.address(port=line.port)), ref))
        assert line.requests == ["GET"] * 5

    def test_damage_in_the_middle_of_a_large_segment_is_found(self, bucket: Bucket) -> None:
        storage = ObjectStorage(bucket.address())
        ref = seal(storage)
        content = bytearray(bucket.content(KEY))
        content[len(content) // 2] ^= 1
        bucket.write(KEY, bytes(content))
        with pytest.raises(SegmentDamagedError, match="does not match its checksum"):
            read_segment(storage, ref)

    def test_a_bucket_that_is_not_there_is_not_an_object_that_is_lost(self, bucket: Bucket) -> None:
        """A lost segment would stop the pipeline for good; a wrong endpoint or bucket is set right."""
        there = ObjectStorage(bucket.address())
        with pytest.raises(ObjectMissingError, match=f"{bucket.url(KEY)} does not exist"):
            there.open(NAME)
        there = ObjectStorage(replace(bucket.address(), bucket=f"{bucket.name}-gone"))
        for call in (lambda: there.open(NAME), there.names, lambda: put(there, NAME, b"1")):
            with pytest.raises(StorageRefusedError, match=bucket.no_bucket) as caught:
                call()
            assert "create the bucket" in caught.value.remedy

    @pytest.mark.usefixtures("hasty")
    def test_a_store_that_is_away(self, bucket: Bucket, wire: Lay) -> None:
        line = wire(through)
        line.close()
        storage = ObjectStorage(bucket.address(port=line.port))
        for call in (lambda: put(storage, NAME, b"1"), lambda: storage.open(NAME), storage.names):
            with pytest.raises(StorageError, match="HTTP error: error sending request: Connection refused") as caught:
                call()
            assert caught.value.retriable
        assert "\n" not in caught.value.message
