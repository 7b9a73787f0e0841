"""A bucket's rules that would delete state, and its old versions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from connectors.api.contracts import Finding
from connectors.buckets import lifecycle
from connectors.buckets.lifecycle import check_rules
from tests.object_store import Bucket, Wire, answer, lost_request
from wal.address import ObjectAddress

Lay = Callable[..., Wire]

DAYS = {"Expiration": {"Days": 30}}
ALL = {"Filter": {"Prefix": ""}}


def put(bucket: Bucket, *rules: dict[str, Any]) -> None:
    given = [{"ID": f"rule-{number}", "Status": "Enabled", **rule} for number, rule in enumerate(rules)]
    bucket.s3.put_bucket_lifecycle_configuration(Bucket=bucket.name, LifecycleConfiguration={"Rules": given})


def found(at: ObjectAddress) -> list[Finding]:
    findings = list(check_rules(at, "store"))
    assert all(each.ok or each.remedy for each in findings)
    return findings


HARMFUL: list[tuple[dict[str, Any], str]] = [
    (DAYS | ALL, "deletes objects in all of the bucket after 30 days"),
    (DAYS | {"Filter": {"Prefix": "eos/"}}, "deletes objects below eos/ after 30 days"),
    (DAYS | {"Filter": {"Prefix": "eos/orders/records/"}}, "deletes objects below eos/orders/records/ after 30 days"),
    (DAYS | {"Prefix": "eos/ord"}, "deletes objects below eos/ord after 30 days"),
    (
        DAYS | {"Filter": {"And": {"Prefix": "eos/", "ObjectSizeGreaterThan": 5}}},
        "deletes objects below eos/ after 30 days",
    ),
    (
        {"Expiration": {"Date": "2030-02-01T00:00:00Z"}} | ALL,
        "deletes objects in all of the bucket from 2030-02-01 on",
    ),
    (
        {"Transitions": [{"Days": 9, "StorageClass": "DEEP_ARCHIVE"}]} | ALL,
        "moves objects in all of the bucket to DEEP_ARCHIVE, where they cannot be read",
    ),
]

HARMLESS: list[dict[str, Any]] = [
    DAYS | {"Filter": {"Prefix": "eos/orders-old/"}},
    DAYS | {"Filter": {"Prefix": "other/"}},
    DAYS | {"Status": "Disabled"} | ALL,
    DAYS | {"Filter": {"Tag": {"Key": "k", "Value": "v"}}},
    DAYS | {"Filter": {"And": {"Prefix": "eos/", "Tags": [{"Key": "k", "Value": "v"}]}}},
    {"Expiration": {"ExpiredObjectDeleteMarker": True}} | ALL,
    {"Transitions": [{"Days": 30, "StorageClass": "STANDARD_IA"}]} | ALL,
    {"AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 3}} | ALL,
]


def test_rules_that_delete_state(bucket: Bucket) -> None:
    put(bucket, *HARMLESS, *(rule for rule, _ in HARMFUL))
    findings = found(bucket.address("eos/orders"))
    assert [each.detail for each in findings] == [
        f"rule rule-{number} of s3://{bucket.name} {harm}: state of the pipeline is lost"
        for number, (_, harm) in enumerate(HARMFUL, len(HARMLESS))
    ]
    assert {(each.check, each.ok, each.fatal) for each in findings} == {("store: lifecycle rules", False, True)}
    assert all("leave out eos/orders/" in each.remedy for each in findings)


def test_rules_that_leave_state_alone(bucket: Bucket) -> None:
    put(bucket, *HARMLESS)
    (finding,) = found(bucket.address("eos/orders"))
    assert finding.ok


def test_a_bucket_without_rules(bucket: Bucket) -> None:
    (finding,) = found(bucket.address("eos/orders"))
    assert finding.ok
    assert finding.detail == f"no rule of s3://{bucket.name} deletes or archives objects below eos/orders/"


@pytest.mark.parametrize(
    ("rule", "ok"),
    [
        (None, False),
        ({"NoncurrentVersionExpiration": {"NoncurrentDays": 7}} | ALL, True),
        ({"NoncurrentVersionExpiration": {"NoncurrentDays": 7}, "Filter": {"Prefix": "eos/"}}, True),
        ({"NoncurrentVersionExpiration": {"NoncurrentDays": 7}, "Filter": {"Prefix": "eos/orders/records/"}}, False),
        ({"NoncurrentVersionExpiration": {"NoncurrentDays": 7}, "Status": "Disabled"} | ALL, False),
    ],
)
def test_versions_that_pile_up(bucket: Bucket, rule: dict[str, Any] | None, ok: bool) -> None:
    bucket.s3.put_bucket_versioning(Bucket=bucket.name, VersioningConfiguration={"Status": "Enabled"})
    if rule is not None:
        put(bucket, rule)
    rules, versions = found(bucket.address("eos/orders"))
    assert rules.ok
    assert (versions.check, versions.ok) == ("store: versions", ok)
    if not ok:
        assert not versions.fatal
        assert "NoncurrentVersionExpiration for eos/orders/" in versions.remedy


def test_versions_that_are_no_longer_kept(bucket: Bucket) -> None:
    for status in ("Enabled", "Suspended"):
        bucket.s3.put_bucket_versioning(Bucket=bucket.name, VersioningConfiguration={"Status": status})
    assert [each.check for each in found(bucket.address("eos/orders"))] == ["store: lifecycle rules"]


@pytest.mark.parametrize(
    ("behaviour", "detail"),
    [
        (answer(403, "AccessDenied", "no"), "the store answered 403, AccessDenied"),
        (answer(501, "NotImplemented", "no"), "the store answered 501, NotImplemented"),
        (lambda _wire, _request: b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n<htm", ""),  # botocore: 500
        (lost_request, "Connection was closed before"),
    ],
)
def test_rules_that_cannot_be_read(bucket: Bucket, wire: Lay, behaviour: object, detail: str) -> None:
    (finding,) = found(bucket.address("eos/orders", wire(behaviour).port))
    assert (finding.check, finding.ok, finding.fatal) == ("store: lifecycle rules", False, False)
    assert finding.detail.startswith(f"the rules and versions of s3://{bucket.name} were not read: {detail}")
    assert f"see that no lifecycle rule deletes or archives objects below s3://{bucket.name}/" in finding.remedy


def test_a_profile_that_is_missing(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    lifecycle._session.cache_clear()
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    (finding,) = found(bucket.address("eos/orders"))
    assert (finding.ok, finding.fatal) == (False, False)
    assert "nobody" in finding.detail
    lifecycle._session.cache_clear()


def test_a_machine_without_the_library(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "find_spec", lambda name: None)
    (finding,) = found(bucket.address("eos/orders"))
    assert (finding.ok, finding.fatal) == (False, False)
    assert finding.remedy.startswith("pip install 'eos-spark[aws]', or see that")


@pytest.mark.parametrize("url", ["gs://bucket/eos/orders", "az://bucket/eos/orders"])
def test_stores_whose_rules_are_elsewhere(url: str) -> None:
    (finding,) = found(ObjectAddress.parse(url, {"account_name": "a"} if url.startswith("az") else {}))
    assert (finding.ok, finding.fatal) == (False, False)
    assert url.rpartition("/eos")[0] in finding.detail


def test_the_address_is_the_one_of_the_spec(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not of the environment; also with the bucket in the host's name, and with certificates of its own."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    put(bucket, DAYS | ALL)
    (finding,) = found(bucket.address("eos/orders"))
    assert "after 30 days" in finding.detail
    virtual = {"endpoint": f"http://{bucket.name}.localhost:{bucket.port}", "virtual_hosted_style_request": "true"}
    with lifecycle._client(bucket.address("eos/orders", None, **virtual)) as client:
        assert client.meta.endpoint_url == f"http://localhost:{bucket.port}"
        assert client.meta.config.s3["addressing_style"] == "virtual"
    with lifecycle._certificates("-----BEGIN CERTIFICATE-----") as file:
        assert file is not None
        assert Path(file).read_text() == "-----BEGIN CERTIFICATE-----"
