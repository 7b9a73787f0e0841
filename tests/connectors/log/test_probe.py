"""What `eos doctor` finds out about an object store, by trying it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from connectors.api.contracts import Finding
from connectors.log.place import LogPlace
from tests.object_store import Bucket, Request, Wire, answer, deaf

Lay = Callable[..., Wire]


def found(bucket: Bucket, port: int | None = None) -> dict[str, Finding]:
    findings = LogPlace(bucket.address(port=port)).check("s: ")
    assert all(each.ok or each.remedy for each in findings)
    assert bucket.listed() == []
    return {each.check: each for each in findings}


def test_a_store_that_does_what_is_needed(bucket: Bucket) -> None:
    findings = found(bucket)
    assert list(findings) == ["s: log store: conditional put", "s: log store", "s: log store: lifecycle rules"]
    assert all(each.ok for each in findings.values())
    assert f"s3://{bucket.name}/eos/log: an object was written, read" in findings["s: log store"].detail


def test_a_store_that_ignores_the_condition(bucket: Bucket, wire: Lay) -> None:
    findings = found(bucket, wire(deaf).port)
    condition = findings["s: log store: conditional put"]
    assert (condition.ok, condition.fatal) == (False, True)
    assert "ignores If-None-Match" in condition.detail
    assert findings["s: log store"].ok


@pytest.mark.usefixtures("hasty")
def test_a_store_that_does_not_know_the_condition(bucket: Bucket, wire: Lay) -> None:
    (finding,) = found(bucket, wire(answer(501, "NotImplemented", "If-None-Match")).port).values()
    assert not finding.ok
    assert "NotImplemented" in finding.detail


def test_a_store_whose_listing_lags(bucket: Bucket, wire: Lay) -> None:
    first: list[bytes] = []

    def lagging(line: Wire, request: Request) -> bytes:
        answered = line.relay(request)
        if b"list-type" not in request.head:
            return answered
        first.append(answered)
        return first[0]

    finding = found(bucket, wire(lagging).port)["s: log store"]
    assert not finding.ok
    assert finding.detail == "a new object is not in the listing at once"


@pytest.mark.usefixtures("hasty")
def test_who_may_not_write(bucket: Bucket, wire: Lay) -> None:
    (finding,) = found(bucket, wire(answer(403, "AccessDenied", "no")).port).values()
    assert (finding.check, finding.ok) == ("s: log store", False)
    assert "put, get, list and delete" in finding.remedy


def test_a_bucket_that_is_missing(bucket: Bucket) -> None:
    place = LogPlace(bucket.address())
    bucket.s3.delete_bucket(Bucket=bucket.name)
    (finding,) = place.check()
    assert not finding.ok
    assert "NoSuchBucket" in finding.detail


def test_a_rule_that_deletes_rows_that_wait(bucket: Bucket) -> None:
    rule = {"ID": "tidy", "Status": "Enabled", "Filter": {"Prefix": "eos/"}, "Expiration": {"Days": 7}}
    bucket.s3.put_bucket_lifecycle_configuration(Bucket=bucket.name, LifecycleConfiguration={"Rules": [rule]})
    finding = found(bucket)["s: log store: lifecycle rules"]
    assert (finding.ok, finding.fatal) == (False, True)
    assert "rule tidy" in finding.detail
