"""What `eos doctor` finds out about the store of a checkpoint location, by trying it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from connectors.api.contracts import Finding
from connectors.buckets import promises
from connectors.buckets.location import check_location
from tests.connectors.buckets import stores
from tests.connectors.buckets.stores import GuardedBucket, guarded_bucket, only_for
from tests.object_store import KEYS, Behaviour, Bucket, Request, Wire, answer, deaf, lost_request, through
from wal.address import ObjectAddress
from wal.small_objects import SmallObjects

Lay = Callable[..., Wire]

STATE = {"eos/orders/head": b"00000000000000000007\n{}", "eos/orders/records/7": b"record", "eos/other": b"x"}
STORE, PUT, SWAP = "location store", "location store: conditional put", "location store: conditional replace"
RULES = "location store: lifecycle rules"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promises, "_PAUSES_S", (0.01, 0.01))


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> Iterator[GuardedBucket]:
    with guarded_bucket(monkeypatch) as bucket:
        yield bucket


def findings_of(at: ObjectAddress) -> dict[str, Finding]:
    findings = list(check_location(at))
    assert all(each.ok or each.remedy for each in findings)
    shown = " ".join(each.detail + each.remedy for each in findings)
    assert not any(value in shown for name, value in at.options if "key" in name)
    return {each.check: each for each in findings}


def found(bucket: Bucket, port: int | None = None, *, left: int = 0) -> dict[str, Finding]:
    """By name. Head and all else in the bucket is as it was. `left`: objects that could not be deleted."""
    for key, content in STATE.items():
        bucket.write(key, content)
    findings = findings_of(bucket.address("eos/orders", port))
    assert {key: bucket.content(key) for key in STATE} == STATE
    assert len(bucket.listed()) == len(STATE) + left
    return findings


def test_a_store_that_keeps_its_promises(bucket: Bucket, wire: Lay) -> None:
    paths: list[tuple[str, str]] = []
    findings = found(bucket, wire(stores.record(paths)).port)
    assert list(findings) == [PUT, STORE, SWAP, RULES]
    assert all(each.ok for each in findings.values())
    assert f"s3://{bucket.name}/eos/orders: an object was written, read, listed" in findings[STORE].detail
    assert "of 4 replacements at once one landed" in findings[SWAP].detail
    writes = [path for method, path in paths if method in {"PUT", "DELETE"}]
    assert len(writes) >= 24
    (name,) = {path.rpartition("/")[0] for path in writes}
    assert name.startswith(f"/{bucket.name}/eos/orders/eos-doctor-")


def test_each_time_under_another_name(bucket: Bucket, wire: Lay) -> None:
    paths: list[tuple[str, str]] = []
    port = wire(stores.record(paths)).port
    for _ in range(2):
        found(bucket, port)
    assert len({path.rpartition("/")[0] for method, path in paths if method == "PUT"}) == 2


def test_a_store_that_ignores_the_condition_of_a_creation(bucket: Bucket, wire: Lay) -> None:
    findings = found(bucket, wire(deaf).port)
    assert (findings[PUT].ok, findings[PUT].fatal) == (False, True)
    assert "ignores If-None-Match" in findings[PUT].detail
    assert findings[STORE].ok
    assert not findings[SWAP].ok, "two drivers may create head"


@pytest.mark.parametrize(
    ("behaviour", "detail"),
    [
        (stores.deaf_to_match, "it ignores If-Match: an older tag replaced a newer object, which is lost"),
        (stores.deaf_where_deleted, "it ignores If-Match: the tag of a deleted object created a new one"),
        (stores.compares_early, "of 4 replacements at once 4 landed, and all but one are lost"),
        (stores.refuses_too_late, "an older tag was refused, and yet the object has changed"),
        (stores.one_tag_for_all, "another content has the same tag"),
        (stores.another_tag_for_reads, "a read gives another tag than the put"),
        (stores.reads_late(), "after a replacement, the old content was read"),
        (only_for(b"if-match", answer(412, "PreconditionFailed", "no")), "by the right tag was refused"),
    ],
)
def test_a_store_that_breaks_a_promise_of_replacements(
    bucket: Bucket, wire: Lay, behaviour: Behaviour, detail: str
) -> None:
    findings = found(bucket, wire(behaviour).port)
    assert (findings[SWAP].ok, findings[SWAP].fatal) == (False, True)
    assert detail in findings[SWAP].detail
    assert f"s3://{bucket.name}/eos/orders: " in findings[SWAP].detail
    assert "use a store that honours it" in findings[SWAP].remedy
    assert findings[PUT].ok
    assert findings[STORE].ok


@pytest.mark.parametrize(
    ("is_older", "detail"),
    [(False, "a deleted object is still in the listing"), (True, "a new object is not in the listing at once")],
)
def test_a_store_whose_listing_lags(bucket: Bucket, wire: Lay, is_older: bool, detail: str) -> None:
    line = wire(stores.lists_late())
    if is_older:  # the first listing is one of before
        SmallObjects(bucket.address("eos/orders", line.port)).names("")
    finding = found(bucket, line.port)[STORE]
    assert (finding.ok, finding.fatal) == (False, True)
    assert finding.detail.startswith(detail)
    assert "strongly consistent" in finding.remedy


@pytest.mark.usefixtures("hasty")
def test_a_store_that_does_not_know_the_condition(bucket: Bucket, wire: Lay) -> None:
    behaviour = only_for(b"if-match", answer(501, "NotImplemented", "If-Match"))
    finding = found(bucket, wire(behaviour).port)[SWAP]
    assert not finding.ok
    assert "501, NotImplemented, If-Match" in finding.detail


def test_a_store_that_is_busy_for_a_moment(bucket: Bucket, wire: Lay) -> None:
    """Google takes one write a second of one object."""
    line = wire(through)
    refused: list[str] = []

    def busy(line: Wire, request: Request) -> bytes:
        if request.method == "PUT" and "/replaced" in stores.path_of(request) and len(refused) < 2:
            refused.append(request.method)
            return answer(429, "SlowDown", "one a second")(line, request)
        return line.relay(request)

    line.behaviours[:] = [busy]
    assert found(bucket, line.port)[SWAP].ok
    assert len(refused) == 2


def test_an_answer_that_is_lost_is_no_verdict(bucket: Bucket, wire: Lay) -> None:
    """A replacement that landed without an answer would be refused the second time."""
    lost: list[str] = []

    def lossy(line: Wire, request: Request) -> bytes | None:
        answered = line.relay(request)
        if stores.header(request.head, "if-match") and not lost:
            lost.append(request.method)
            return None
        return answered

    assert found(bucket, wire(lossy).port)[SWAP].ok
    assert lost


@pytest.mark.usefixtures("hasty")
def test_a_store_that_is_cut_off(bucket: Bucket, wire: Lay) -> None:
    line = wire(lost_request)
    (finding,) = found(bucket, line.port).values()
    assert (finding.check, finding.ok, finding.fatal) == (STORE, False, True)
    assert f"(http://127.0.0.1:{line.port})" in finding.detail
    assert finding.remedy == "see that the store can be reached"


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize(("answered", "left"), [(2, 1), (3, 1), (8, 0), (12, 1)])
def test_a_store_that_is_cut_off_in_between(bucket: Bucket, wire: Lay, answered: int, left: int) -> None:
    """What could not be deleted is named."""
    findings = found(bucket, wire(*[through] * answered, lost_request).port, left=left)
    probe = findings["location store: probe"]
    assert not probe.fatal
    assert f"s3://{bucket.name}/eos/orders/eos-doctor-" in probe.detail
    assert all(place in STATE or place.rpartition("/")[0] in probe.detail for place in bucket.listed())
    assert any(each.fatal and not each.ok for each in findings.values())


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("answered", [2, 3, 5, 8, 12])
def test_what_was_written_is_deleted_after_a_failure(bucket: Bucket, wire: Lay, answered: int) -> None:
    refuse = answer(403, "AccessDenied", "no")
    findings = found(bucket, wire(*[through] * answered, refuse, through).port)
    assert "location store: probe" not in findings
    assert any("403, AccessDenied" in each.detail and each.fatal for each in findings.values())


def test_a_bucket_that_is_missing(bucket: Bucket) -> None:
    (finding,) = findings_of(replace(bucket.address(), bucket="not-there")).values()
    assert (finding.check, finding.ok, finding.fatal) == (STORE, False, True)
    assert "s3://not-there/" in finding.detail
    assert "404, NoSuchBucket" in finding.detail
    assert finding.remedy == "create the bucket, or correct its name or the endpoint"


def test_wrong_keys(guarded: GuardedBucket) -> None:
    keys = guarded.keys(*stores.RIGHTS)
    for given, code in (
        (KEYS, "InvalidAccessKeyId"),
        ({**keys, "secret_access_key": "wrong-secret-78"}, "SignatureDoesNotMatch"),
    ):
        (finding,) = findings_of(guarded.address("eos/orders", None, **given)).values()
        assert (finding.check, finding.ok, finding.fatal) == (STORE, False, True)
        assert f"s3://{guarded.name}/eos/orders/" in finding.detail
        assert f"403, {code}" in finding.detail
        assert finding.remedy == "give credentials that allow put, get, list and delete below that prefix"


@pytest.mark.parametrize("missing", stores.RIGHTS)
def test_a_right_that_is_missing(guarded: GuardedBucket, missing: str) -> None:
    keys = guarded.keys(*(right for right in stores.RIGHTS if right != missing))
    findings = findings_of(guarded.address("eos/orders", None, **keys))
    failed = [each for each in findings.values() if not each.ok and each.fatal]
    assert len(failed) == 1
    assert "403, AccessDenied" in failed[0].detail
    assert "put, get, list and delete" in failed[0].remedy


def test_no_right_to_read_the_rules(guarded: GuardedBucket) -> None:
    findings = findings_of(guarded.address("eos/orders", None, **guarded.keys(*stores.RIGHTS)))
    assert [each.check for each in findings.values() if not each.ok] == [RULES]
    assert not findings[RULES].fatal
    assert "403, AccessDenied" in findings[RULES].detail
    assert "allow s3:GetLifecycleConfiguration and s3:GetBucketVersioning" in findings[RULES].remedy


def test_the_right_to_read_the_rules(guarded: GuardedBucket) -> None:
    keys = guarded.keys(*stores.RIGHTS, "s3:GetLifecycleConfiguration", "s3:GetBucketVersioning")
    assert all(each.ok for each in findings_of(guarded.address("eos/orders", None, **keys)).values())
