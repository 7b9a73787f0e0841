"""SmallObjects where the bucket itself is missing: an error, never "there is no such object"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.object_store import Bucket
from wal.conditional_objects import Tag
from wal.errors import StorageRefusedError
from wal.small_objects import SmallObjects

_TAG = Tag('"0123456789abcdef0123456789abcdef"', None)

Call = Callable[[SmallObjects], object]


@pytest.mark.parametrize(
    "call",
    [
        lambda objects: objects.read("head"),
        lambda objects: objects.create("head", b"x"),
        lambda objects: objects.replace("head", b"x"),
        lambda objects: objects.swap("head", None, b"x"),
        lambda objects: objects.swap("head", _TAG, b"x"),
        lambda objects: objects.delete("head"),
        lambda objects: objects.names(""),
    ],
    ids=["read", "create", "replace", "swap new", "swap", "delete", "names"],
)
def test_a_bucket_that_is_missing(bucket: Bucket, call: Call) -> None:
    missing = SmallObjects(replace(bucket.address(), bucket="not-there"))
    with pytest.raises(StorageRefusedError, match=r"s3://not-there/eos/log/.*404, NoSuchBucket") as raised:
        call(missing)
    assert raised.value.remedy == "create the bucket, or correct its name or the endpoint"


def test_an_object_that_is_missing(bucket: Bucket) -> None:
    objects = SmallObjects(bucket.address())
    assert objects.read("head") is None
    assert objects.swap("head", _TAG, b"x") is None
    objects.delete("head")
    assert bucket.listed() == []
