"""Objects in servers of Google's and Azure's protocols: conditions, credentials, and the proof by `eos doctor`.

Google's own server is not among them, nor Azure's. fake-gcs-server keeps the objects and compares generations; what it
lacks of the XML API is translated (`services/go/google_store.go`). Azurite is Microsoft's.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pytest

from connectors.buckets.location import check_location
from eos.errors import HeadAccessError, HeadUnknownError
from integration_tests.harness.stores import ON_AZURITE, ON_CLOUDS, ON_GOOGLE
from integration_tests.services.google_native import new_key, service_account
from tests.cloud_buckets import AzureContainer, GoogleBucket
from tests.object_store import REFUSED, Behaviour, Bucket, Request, Wire, answer, through
from tests.object_suite import ObjectSuite, put
from tests.storage_suite import TreeSuite
from twophase import ownership
from twophase.object_head import ObjectHead
from wal.address import ObjectAddress
from wal.conditional_objects import Tag
from wal.errors import ObjectOptionsError, StorageError, StorageRefusedError
from wal.object import ObjectStorage
from wal.small_objects import SmallObjects
from wal.storage import TreeStorage

pytestmark = [pytest.mark.any_server]

Lay = Callable[..., Wire]

_STORE, _PUT, _REPLACE, _RULES = (
    f"location store{part}" for part in ("", ": conditional put", ": conditional replace", ": lifecycle rules")
)
_CONDITIONS = ("if-match", "if-none-match", "x-goog-if-generation-match")


def _deaf(bucket: Bucket, *, to_creations: bool) -> Behaviour:
    """Return a store that ignores the condition of each replacement, and perhaps of each creation."""

    def behave(wire: Wire, request: Request) -> bytes:
        is_creation = re.search(
            rb"(?i)\r\n(if-none-match: \*|x-goog-if-generation-match: 0)\r\n", request.head + b"\r\n"
        )
        if request.method != "PUT" or (is_creation and not to_creations):
            return wire.relay(request)
        for header in _CONDITIONS:
            request = request.without(header)
        return wire.relay(bucket.signed(request) if isinstance(bucket, AzureContainer) else request)

    return behave


@ON_CLOUDS
class TestTree(TreeSuite):
    """The contract of a storage."""

    @pytest.fixture
    def storage(self, bucket: Bucket) -> TreeStorage:
        return ObjectStorage(bucket.address())


@ON_CLOUDS
class TestFaults(ObjectSuite):
    """Faults between the client and the store."""


@ON_CLOUDS
def test_a_second_creation_is_refused_by_the_server(bucket: Bucket, wire: Lay) -> None:
    """By its answer, not by a look of the client."""
    answers: list[bytes] = []

    def hear(line: Wire, request: Request) -> bytes:
        answered = line.relay(request)
        if request.method == "PUT":
            answers.append(answered)
        return answered

    objects = SmallObjects(bucket.address(port=wire(hear).port))
    first = objects.swap("head", None, b"one")
    assert first is not None
    assert objects.swap("head", None, b"two") is None
    assert [each[:13] in REFUSED for each in answers] == [False, True]
    assert bucket.contents() == {"eos/log/head": b"one"}
    second = objects.swap("head", first, b"two")
    assert second not in (None, first)
    assert objects.swap("head", first, b"three") is None
    assert answers[-1].startswith(b"HTTP/1.1 412 ")
    assert len(answers) == 4
    assert bucket.contents() == {"eos/log/head": b"two"}


@ON_CLOUDS
def test_of_many_creations_at_once_one_lands(bucket: Bucket) -> None:
    objects = SmallObjects(bucket.address())
    with ThreadPoolExecutor(8) as pool:
        for name in ("a", "b", "c", "d", "e"):
            landed = list(pool.map(objects.swap, [name] * 8, [None] * 8, [b"%d" % n for n in range(8)]))
            (winner,) = (n for n, tag in enumerate(landed) if tag is not None)
            assert bucket.content(f"eos/log/{name}") == b"%d" % winner


@ON_GOOGLE
def test_a_store_that_takes_one_write_a_second_of_an_object(bucket: Bucket, wire: Lay) -> None:
    """Google documents this limit. A driver gives up after so many swaps without an answer, which took no second."""
    taken_s: list[float] = []

    def limit(line: Wire, request: Request) -> bytes:
        now_s = time.monotonic()
        if request.method != "PUT" or not taken_s or now_s - taken_s[-1] > 1:
            taken_s.extend([now_s] if request.method == "PUT" else [])
            return line.relay(request)
        return answer(429, "SlowDown", "The rate of requests to the object exceeds the limit.")(line, request)

    store = ObjectHead(bucket.address(port=wire(limit).port))
    for version in range(3):
        seen, landed = store.read(), False
        for _ in range(ownership._ROUNDS):
            with suppress(HeadUnknownError):
                landed = store.swap(seen, b"%d" % version)
            if landed:
                break
        assert landed, version
    assert len(taken_s) == 3


@ON_CLOUDS
def test_the_doctor_proves_the_promises_and_leaves_nothing(bucket: Bucket, wire: Lay) -> None:
    bucket.write("eos/orders/head", b"x")
    before = bucket.contents()
    found = {each.check: each for each in check_location(bucket.address("eos/orders"))}
    assert [name for name, each in found.items() if not each.ok] == [_RULES]
    assert not found[_RULES].fatal
    assert "this command can read the rules of S3" in found[_RULES].detail
    assert {_STORE, _PUT, _REPLACE} <= found.keys()
    for to_creations, broken in ((True, {_PUT, _REPLACE}), (False, {_REPLACE})):
        port = wire(_deaf(bucket, to_creations=to_creations)).port
        found = {each.check: each for each in check_location(bucket.address("eos/orders", port))}
        assert {name for name, each in found.items() if not each.ok and each.fatal} == broken
    assert bucket.contents() == before


@ON_CLOUDS
@pytest.mark.parametrize(("to_creations", "ignored"), [(True, "If-None-Match"), (False, "If-Match")])
def test_a_start_refuses_a_store_that_ignores_a_condition(
    bucket: Bucket, wire: Lay, to_creations: bool, ignored: str
) -> None:
    ObjectHead(bucket.address()).require_conditions()
    port = wire(_deaf(bucket, to_creations=to_creations)).port
    with pytest.raises(HeadAccessError, match=f"does not honour {ignored}, so two drivers could both decide"):
        ObjectHead(bucket.address(port=port)).require_conditions()
    assert bucket.listed() == []


@ON_CLOUDS
@pytest.mark.parametrize(
    "call",
    [
        lambda objects: objects.read("head"),
        lambda objects: objects.holds("head"),
        lambda objects: objects.create("head", b"x"),
        lambda objects: objects.replace("head", b"x"),
        lambda objects: objects.swap("head", None, b"x"),
        lambda objects: objects.swap("head", Tag('"0x1D0C4518892A4D0"', "1796019216664784"), b"x"),
        lambda objects: objects.delete("head"),
        lambda objects: objects.names(""),
    ],
    ids=["read", "holds", "create", "replace", "swap new", "swap", "delete", "names"],
)
def test_a_bucket_that_is_missing(
    bucket: Bucket, call: Callable[[SmallObjects], object], request: pytest.FixtureRequest
) -> None:
    missing = SmallObjects(replace(bucket.address(), bucket="not-there"))
    if isinstance(bucket, AzureContainer) and request.node.callspec.id.startswith("delete"):
        call(missing)  # obstore deletes by a batch, and takes a missing container for a missing object
        return
    with pytest.raises(StorageRefusedError, match=f"{bucket.scheme}://not-there/.*{bucket.no_bucket}") as raised:
        call(missing)
    assert raised.value.remedy == "create the bucket, or correct its name or the endpoint"


def _assert_refused(bucket: Bucket, option: str, value: str, words: str) -> None:
    storage = ObjectStorage(bucket.address("eos/log", None, **{option: value}))
    for call in (lambda: put(storage, "one", b"1"), lambda: storage.open("one"), storage.names):
        with pytest.raises(StorageRefusedError, match=words) as caught:
            call()
        assert "give credentials" in caught.value.remedy
        assert value not in str(caught.value)
    assert bucket.listed() == []


@ON_GOOGLE
def test_the_key_of_another_service_account_is_refused(bucket: GoogleBucket) -> None:
    _assert_refused(bucket, "service_account_key", service_account(new_key()), "401, AuthenticationRequired")


@ON_GOOGLE
def test_requests_without_a_signature_are_not_offered(bucket: GoogleBucket) -> None:
    """obstore signs the puts all the same, so a store that refuses signatures could not be written to."""
    with pytest.raises(ObjectOptionsError, match="gs:// has no option skip_signature"):
        bucket.address(skip_signature="true")


@ON_AZURITE
def test_another_key_of_the_account_is_refused(bucket: AzureContainer) -> None:
    _assert_refused(bucket, "account_key", "b3RoZXI=", "403, AuthorizationFailure")


@ON_AZURITE
def test_a_shared_access_signature_is_enough(bucket: AzureContainer) -> None:
    """Except to delete: Azurite answers 500 to a batch with such a signature, which Azure's documentation allows."""
    text = "&".join(f"{name}={value.replace('+', '%2B')}" for name, value in bucket.sas.items())
    options = {name: value for name, value in bucket.options().items() if name != "account_key"}
    at = ObjectAddress.parse(bucket.url("eos/log"), {**options, "sas_key": text})
    storage = ObjectStorage(at)
    put(storage, "one", b"1")
    assert storage.names() == ["one"]
    assert ObjectHead(at).swap(None, b"one")
    assert not ObjectHead(at).swap(None, b"two")
    assert bucket.content("eos/log/one") == b"1"


@ON_AZURITE
@pytest.mark.parametrize(("status", "is_refused"), [(403, True), (503, False)])
def test_a_deletion_that_is_refused_in_a_batch(
    bucket: AzureContainer, wire: Lay, status: int, is_refused: bool
) -> None:
    """The batch itself is accepted. Only its part says that the credentials do not allow it."""

    def behave(line: Wire, request: Request) -> bytes:
        if request.method != "POST":
            return line.relay(request)
        head, _, body = line.relay(request).partition(b"\r\n\r\n")
        return head + b"\r\n\r\n" + body.replace(b"202 Accepted", b"%d Rejected" % status)

    at = bucket.address(port=wire(behave).port)
    for objects in (ObjectStorage(at), SmallObjects(at)):
        bucket.write("eos/log/one", b"1")
        with pytest.raises(StorageError, match=f"cannot delete .*the store answered {status}, Rejected") as caught:
            objects.delete("one")
        assert isinstance(caught.value, StorageRefusedError) == is_refused
        assert ("give credentials" in caught.value.remedy) == is_refused


@ON_CLOUDS
def test_nothing_of_the_environment_moves_the_store(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task on a machine with another environment would write where the driver does not read."""
    for name in ("GOOGLE_BASE_URL", "AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("GOOGLE_BUCKET", "GOOGLE_BUCKET_NAME", "AZURE_CONTAINER_NAME", "AZURE_STORAGE_ACCOUNT_NAME"):
        monkeypatch.setenv(name, "elsewhere")
    monkeypatch.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
    put(ObjectStorage(bucket.address()), "one", b"1")
    assert bucket.listed() == ["eos/log/one"]


@ON_GOOGLE
def test_a_listing_of_more_than_a_page_is_whole(bucket: Bucket) -> None:
    """The server's pages are of 50 objects. Azurite's are of 5000, and cannot be made smaller."""
    names = [f"n{n:05}.segment" for n in range(105)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: bucket.write(f"eos/log/{name}", b"1"), names))
    assert ObjectStorage(bucket.address()).names() == names
    assert list(ObjectStorage(bucket.address()).below()) == names


@ON_CLOUDS
@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize(
    ("status", "code", "remedy"),
    [(403, "AuthorizationPermissionMismatch", "give credentials"), (429, "SlowDown", None), (503, "ServerBusy", None)],
)
def test_a_refusal_is_told_from_a_busy_store(
    bucket: Bucket, wire: Lay, status: int, code: str, remedy: str | None
) -> None:
    storage = ObjectStorage(bucket.address(port=wire(answer(status, code, "no"), through).port))
    if remedy is None:
        put(storage, "one", b"1")
        assert bucket.contents() == {"eos/log/one": b"1"}
        return
    with pytest.raises(StorageRefusedError, match=f"{status}, {code}") as caught:
        put(storage, "one", b"1")
    assert remedy in caught.value.remedy
