"""A log in an object store behind the HTTP proxy that the environment names. For tokens see test_kafka_tokens."""

from __future__ import annotations

import pytest

from integration_tests.harness.http_proxy import HttpProxy
from tests.object_store import Bucket
from wal.object import ObjectStorage

pytestmark = pytest.mark.any_server


def _write(bucket: Bucket) -> None:
    writer = ObjectStorage(bucket.address()).create("one")
    writer.write(b"content")
    writer.publish()


def test_a_log_in_an_object_store_goes_through_the_proxy(bucket: Bucket, http_proxy: HttpProxy) -> None:
    _write(bucket)
    assert set(http_proxy.asked) == {f"127.0.0.1:{bucket.port}"}
    assert bucket.content("eos/log/one") == b"content"


def test_what_no_proxy_names_does_not(bucket: Bucket, http_proxy: HttpProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    _write(bucket)
    assert http_proxy.asked == []
    assert bucket.content("eos/log/one") == b"content"
