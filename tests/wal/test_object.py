"""ObjectStorage on a real HTTP server: what is there after every answer that can be lost, late, or wrong."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.object_store import (
    KEYS,
    PAGE,
    Bucket,
    Wire,
    answer,
    deaf,
    through,
)
from tests.object_suite import KEY, NAME, ObjectSuite, put
from wal.address import ObjectAddress
from wal.errors import (
    ObjectAddressError,
    ObjectMissingError,
    ObjectOptionsError,
    StorageError,
    StorageRefusedError,
    WalError,
)
from wal.object import ObjectStorage
from wal.remote import PIECE_BYTES, RemoteFile

Lay = Callable[..., Wire]


class TestOnMoto(ObjectSuite):
    """Run with real HTTP and a proxy in between."""


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


@pytest.mark.parametrize(
    "prefix", ["", "/", "a//b", "a/../b", ".", "ä", "a b", "a%20b", "a?b", "a#b", "a/\n", "x" * 701]
)
def test_a_prefix_that_some_tool_would_change_is_refused(bucket: Bucket, prefix: str) -> None:
    with pytest.raises(ObjectAddressError, match=r"the prefix below the bucket|has no parameters"):
        bucket.address(prefix)


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
