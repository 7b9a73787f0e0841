"""Stores that break one promise, as behaviours of the wire before moto's server, and a server that checks keys."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import boto3
import pytest

from tests.object_store import Behaviour, Bucket, Request, Wire, answer, server

RIGHTS = ("s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:ListBucket")


def path_of(request: Request) -> str:
    """The prefix of the store's URL, with the bucket."""
    return request.head.split(b" ", 2)[1].partition(b"?")[0].decode()


def header(head: bytes, name: str) -> str | None:
    match = re.search(rb"(?i)\r\n%s: *([^\r]*)" % name.encode(), head)
    return match[1].decode() if match else None


def _tag_now(wire: Wire, request: Request) -> str | None:
    """Its requests are taken for signed ones by their header alone."""
    signed = (header(request.head, "authorization") or "").encode()
    head = b"HEAD %s HTTP/1.1\r\nHost: x\r\nAuthorization: %s" % (path_of(request).encode(), signed)
    answered = wire.relay(Request(head, b""))
    return header(answered.partition(b"\r\n\r\n")[0], "etag") if b" 200 " in answered[:20] else None


def deaf_to_match(wire: Wire, request: Request) -> bytes:
    """Ignores If-Match."""
    return wire.relay(request.without("if-match"))


def deaf_where_deleted(wire: Wire, request: Request) -> bytes:
    """Compares tags of an object, and takes any tag where there is no object."""
    if header(request.head, "if-match") and _tag_now(wire, request) is None:
        return wire.relay(request.without("if-match"))
    return wire.relay(request)


def compares_early(wire: Wire, request: Request) -> bytes:
    """Compares, and writes later without looking a second time."""
    expected = header(request.head, "if-match")
    if request.method == "PUT" and expected and _tag_now(wire, request) == expected:
        time.sleep(0.3)
        return wire.relay(request.without("if-match"))
    return wire.relay(request)


def refuses_too_late(wire: Wire, request: Request) -> bytes:
    """Writes, and then answers that the tag was another one."""
    expected = header(request.head, "if-match")
    if request.method != "PUT" or not expected or _tag_now(wire, request) == expected:
        return wire.relay(request)
    wire.relay(request.without("if-match"))
    return answer(412, "PreconditionFailed", "no")(wire, request)


def one_tag_for_all(wire: Wire, request: Request) -> bytes:
    """All contents have the same tag."""
    answered = wire.relay(request.without("if-match"))
    return re.sub(rb"(?i)\r\netag: [^\r]*", b'\r\nETag: "same"', answered)


def another_tag_for_reads(wire: Wire, request: Request) -> bytes:
    answered = wire.relay(request)
    return re.sub(rb"(?i)\r\netag: [^\r]*", b'\r\nETag: "other"', answered) if request.method == "GET" else answered


def reads_late() -> Behaviour:
    """Reads give the first content of an object for ever."""
    first: dict[str, bytes] = {}

    def behave(wire: Wire, request: Request) -> bytes:
        answered = wire.relay(request)
        if request.method != "GET" or b" 200 " not in answered[:20] or b"list-type" in request.head:
            return answered
        return first.setdefault(path_of(request), answered)

    return behave


def lists_late() -> Behaviour:
    """Each listing is as the first one."""
    first: list[bytes] = []

    def behave(wire: Wire, request: Request) -> bytes:
        answered = wire.relay(request)
        if b"list-type" not in request.head:
            return answered
        first.append(answered)
        return first[0]

    return behave


def only_for(part: bytes, behaviour: Behaviour) -> Behaviour:
    """The behaviour for requests whose head has this part."""
    return lambda wire, request: behaviour(wire, request) if part in request.head else wire.relay(request)


def record(paths: list[tuple[str, str]]) -> Behaviour:
    """Keeps method and path of each request."""

    def behave(wire: Wire, request: Request) -> bytes:
        paths.append((request.method, path_of(request)))
        return wire.relay(request)

    return behave


class GuardedBucket(Bucket):
    """On a server that checks signatures and rights."""

    def keys(self, *rights: str) -> Mapping[str, str]:
        """Options of a user with these rights. The server checks them from now on."""
        endpoint = f"http://127.0.0.1:{self.port}"
        iam = boto3.client(
            "iam", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="k", aws_secret_access_key="s"
        )
        iam.create_user(UserName="driver")
        made = iam.create_access_key(UserName="driver")["AccessKey"]
        allow = {"Effect": "Allow", "Action": list(rights), "Resource": "*"}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [allow]})
        iam.put_user_policy(UserName="driver", PolicyName="p", PolicyDocument=policy)
        kind = {"Content-Type": "application/octet-stream"}
        guard = urllib.request.Request(f"{endpoint}/moto-api/reset-auth", b"0", kind)
        urllib.request.urlopen(guard, timeout=10).close()
        return {"access_key_id": made["AccessKeyId"], "secret_access_key": made["SecretAccessKey"]}


@contextmanager
def guarded_bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[GuardedBucket]:
    monkeypatch.setenv("INITIAL_NO_AUTH_ACTION_COUNT", "1000")
    with server() as port:
        yield GuardedBucket(port)
