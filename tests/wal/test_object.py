"""ObjectStorage on a real HTTP server: what is there after every answer that can be lost, late, or wrong."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from tests.object_store import (
    KEYS,
    PAGE,
    Behaviour,
    Bucket,
    Wire,
    answer,
    deaf,
    half_sent,
    late,
    lost_answer,
    lost_request,
    silent,
    through,
    unavailable,
)
from wal.address import ObjectAddress
from wal.errors import (
    ObjectAddressError,
    ObjectExistsError,
    ObjectMissingError,
    ObjectOptionsError,
    SegmentDamagedError,
    StorageError,
    StorageRefusedError,
    WalError,
)
from wal.object import ObjectStorage
from wal.remote import PIECE_BYTES, RemoteFile
from wal.segment import SegmentRef, SegmentWriter, read_segment, stat_segment

Lay = Callable[..., Wire]

NAME = "one.segment"
KEY = f"eos/log/{NAME}"
ROWS = pa.table({"id": list(range(40_000)), "word": [f"word {i}" for i in range(40_000)]})  # more than both ends


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


FAULTS = [lost_answer, lost_request, half_sent, unavailable, silent]


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("call", range(3))
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_one_request_fails_and_the_segment_is_acknowledged_only_where_it_is(
    bucket: Bucket, wire: Lay, fault: Behaviour, call: int
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
def test_an_outage_that_lasts_after_the_put_has_landed_is_no_success_and_no_refusal(bucket: Bucket, wire: Lay) -> None:
    storage = ObjectStorage(bucket.address(port=wire(lost_answer, lost_request).port))
    with pytest.raises(StorageError) as caught:
        put(storage, NAME, b"bytes")
    assert caught.value.retriable
    assert bucket.content(KEY) == b"bytes"  # an orphan, which nobody was told of


@pytest.mark.usefixtures("hasty")
def test_a_put_that_lands_after_its_writer_gave_up_is_whole_and_can_be_deleted(bucket: Bucket, wire: Lay) -> None:
    line = wire(late, through)
    storage = ObjectStorage(bucket.address(port=line.port))
    with pytest.raises(StorageError, match=f"cannot publish {storage.describe()}/{NAME}"):
        put(storage, NAME, b"late")
    storage.sweep([NAME])
    storage.delete(NAME)
    assert bucket.listed() == []
    line.released.set()
    assert line.late_answers.get(timeout=30).startswith(b"HTTP/1.1 200")
    assert storage.names() == [NAME]
    assert bucket.content(KEY) == b"late"
    storage.delete(NAME)
    assert bucket.listed() == []


@pytest.mark.usefixtures("hasty")
def test_a_late_put_does_not_take_the_place_of_another(bucket: Bucket, wire: Lay) -> None:
    line = wire(late, through)
    storage = ObjectStorage(bucket.address(port=line.port))
    with pytest.raises(StorageError):
        put(storage, NAME, b"late")
    put(storage, NAME, b"first to land")
    line.released.set()
    assert line.late_answers.get(timeout=30).startswith(b"HTTP/1.1 412")
    assert bucket.content(KEY) == b"first to land"


def test_of_many_writers_of_one_name_one_wins(bucket: Bucket) -> None:
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


def test_the_same_bytes_again_are_the_same_object(bucket: Bucket) -> None:
    """How else would a writer know its own put, whose answer was lost?"""
    storage = ObjectStorage(bucket.address())
    put(storage, NAME, b"bytes")
    put(storage, NAME, b"bytes")
    for other in (b"Bytes", b"bytes!", b""):
        with pytest.raises(ObjectExistsError, match=f"{NAME} exists already"):
            put(storage, NAME, other)
    assert bucket.content(KEY) == b"bytes"


@pytest.mark.usefixtures("hasty")
def test_a_store_without_conditions_overwrites(bucket: Bucket, wire: Lay) -> None:
    """What `eos doctor` is there to find: see test_log_probe."""
    storage = ObjectStorage(bucket.address(port=wire(deaf).port))
    put(storage, NAME, b"first")
    put(storage, NAME, b"second")
    assert bucket.content(KEY) == b"second"


def test_a_listing_of_more_than_a_page_is_whole(bucket: Bucket) -> None:
    names = [f"n{n:05}.segment" for n in range(PAGE * 2 + 5)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: bucket.write(f"eos/log/{name}", b"1"), names))
    assert ObjectStorage(bucket.address()).names() == names


def test_a_listing_asks_for_its_folder_alone(bucket: Bucket, wire: Lay) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: bucket.write(f"eos/log/other{n % 2}/n{n}", b"1"), range(PAGE * 2)))
    bucket.write("eos/log/own/", b"")  # as some tools mark a folder
    bucket.write("eos/log/own/one", b"1")
    line = wire(through)
    storage = ObjectStorage(bucket.address(port=line.port))
    assert storage.names("own") == ["own/one"]
    assert line.requests == ["GET"]
    with pytest.raises(ObjectMissingError):
        storage.open("other0/none")
    assert line.requests == ["GET"] * 3, "many may be missing at once, and each would list them all"


def test_only_what_lies_flat_below_the_prefix_is_seen(bucket: Bucket) -> None:
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
def test_a_prefix_is_taken_as_it_is(bucket: Bucket, prefix: str) -> None:
    put(ObjectStorage(bucket.address(prefix)), "one", b"1")
    assert bucket.listed() == [f"{prefix}/one"]


@pytest.mark.parametrize(
    "prefix", ["", "/", "a//b", "a/../b", ".", "ä", "a b", "a%20b", "a?b", "a#b", "a/\n", "x" * 701]
)
def test_a_prefix_that_some_tool_would_change_is_refused(bucket: Bucket, prefix: str) -> None:
    with pytest.raises(ObjectAddressError, match=r"the prefix below the bucket|has no parameters"):
        bucket.address(prefix)


def test_small_and_large_objects_are_read_as_they_were_written(bucket: Bucket) -> None:
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


def test_a_footer_is_read_without_the_rows(bucket: Bucket, wire: Lay) -> None:
    ref = seal(ObjectStorage(bucket.address()))
    assert ref.bytes > 500_000
    line = wire(through)
    assert stat_segment(ObjectStorage(bucket.address(port=line.port)), NAME) == ref
    assert line.requests == ["GET", "GET"]
    list(read_segment(ObjectStorage(bucket.address(port=line.port)), ref))
    assert line.requests == ["GET"] * 5


def test_damage_in_the_middle_of_a_large_segment_is_found(bucket: Bucket) -> None:
    storage = ObjectStorage(bucket.address())
    ref = seal(storage)
    content = bytearray(bucket.content(KEY))
    content[len(content) // 2] ^= 1
    bucket.write(KEY, bytes(content))
    with pytest.raises(SegmentDamagedError, match="does not match its checksum"):
        read_segment(storage, ref)


def test_an_object_that_becomes_too_large_is_refused_while_it_is_written(bucket: Bucket) -> None:
    writer = ObjectStorage(bucket.address(), max_bytes=1_000).create("one")
    writer.write(bytes(1_000))
    with pytest.raises(StorageRefusedError, match="larger than an object store takes") as caught:
        writer.write(b"1")
    assert "fewer records" in caught.value.remedy
    writer.discard()
    assert bucket.listed() == []


def test_a_disk_without_room_is_named(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = ObjectStorage(bucket.address())
    put(storage, "large", bytes(200_000))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(StorageError, match=f"temporary file in {tmp_path}/gone") as caught:
        storage.create("one")
    assert "TMPDIR" in caught.value.remedy
    with storage.open("large") as file, pytest.raises(StorageError, match="temporary file"):
        file.read()


def test_a_bucket_that_is_not_there_is_not_an_object_that_is_lost(bucket: Bucket) -> None:
    """A lost segment would stop the pipeline for good; a wrong endpoint or bucket is set right."""
    there = ObjectStorage(bucket.address())
    with pytest.raises(ObjectMissingError, match=f"s3://{bucket.name}/{KEY} does not exist"):
        there.open(NAME)
    bucket.s3.delete_bucket(Bucket=bucket.name)
    for call in (lambda: there.open(NAME), there.names, lambda: put(there, NAME, b"1")):
        with pytest.raises(StorageRefusedError, match="404, NoSuchBucket") as caught:
            call()
        assert "create the bucket" in caught.value.remedy


REFUSALS = [
    (403, "AccessDenied", "give credentials"),
    (403, "RequestTimeTooSkewed", "clock"),
    (400, "ExpiredToken", "the store's own words"),
    (401, "Unauthorized", "give credentials"),
    (501, "NotImplemented", "the store's own words"),
    (429, "SlowDown", None),
    (503, "SlowDown", None),
    (409, "ConditionalRequestConflict", None),
]


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize(("status", "code", "remedy"), REFUSALS)
def test_who_may_try_again(bucket: Bucket, wire: Lay, status: int, code: str, remedy: str | None) -> None:
    line = wire(answer(status, code, f"in words of the store for {KEYS['access_key_id']}"))
    storage = ObjectStorage(bucket.address(port=line.port))
    for call in (lambda: put(storage, NAME, b"1"), lambda: storage.open(NAME), storage.names):
        with pytest.raises(StorageError) as caught:
            call()
        assert isinstance(caught.value, StorageRefusedError) == (remedy is not None), caught.value
        assert (remedy or "again") in caught.value.remedy
        assert KEYS["secret_access_key"] not in str(caught.value)


@pytest.mark.usefixtures("hasty")
def test_a_store_that_is_away(bucket: Bucket, wire: Lay) -> None:
    line = wire(through)
    line.close()
    storage = ObjectStorage(bucket.address(port=line.port))
    for call in (lambda: put(storage, NAME, b"1"), lambda: storage.open(NAME), storage.names):
        with pytest.raises(StorageError, match="HTTP error: error sending request: Connection refused") as caught:
            call()
        assert caught.value.retriable
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"allow_http": "maybe"}, "the option allow_http is neither true nor false"),
        ({"virtual_hosted_style_request": "yes"}, "the option virtual_hosted_style_request is neither"),
        ({"region": "eu central"}, "the option region has other characters"),
        ({"access_key_id": "one"}, "access_key_id and secret_access_key are one login"),
    ],
)
def test_options_that_a_spec_may_not_have(wrong: dict[str, str], told: str) -> None:
    with pytest.raises(ObjectOptionsError, match=told):
        ObjectAddress.parse("s3://bucket/prefix", wrong)


def test_nothing_of_the_environment_moves_the_store(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task on a machine with another environment would write where the driver does not read."""
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_CONDITIONAL_PUT", "disabled")
    put(ObjectStorage(bucket.address()), "one", b"1")
    assert bucket.listed() == ["eos/log/one"]


@pytest.mark.parametrize(
    ("lacking", "wrong"),
    [("region", ("virtual_hosted_style_request", "perhaps")), ("secret_access_key", ("session_token", "only"))],
)
def test_options_that_cannot_be_right_are_refused_without_showing_them(
    bucket: Bucket, lacking: str, wrong: tuple[str, str]
) -> None:
    """The client refuses them; a spec with such options is refused before."""
    address = bucket.address()
    kept = [each for each in address.options if each[0] != lacking]
    address = replace(address, options=(*kept, wrong))
    with pytest.raises(WalError) as caught:
        ObjectStorage(address)
    assert isinstance(caught.value, StorageRefusedError)
    for secret in (KEYS["access_key_id"], "perhaps", "only"):
        assert secret not in str(caught.value).removeprefix("cannot use")


def test_an_object_that_comes_short_is_no_object_with_zeros() -> None:
    """Its size was told first; then the connection gave fewer bytes, and said nothing of it."""
    size = 10 * PIECE_BYTES
    file = RemoteFile("bucket/name", size, b"x" * PIECE_BYTES, lambda *_: b"", lambda: iter([b"x" * (size // 2)]))
    file.seek(size // 2 - 2)
    assert file.read(2) == b"xx"
    with pytest.raises(StorageError, match="came short of its"):
        file.read(2)
