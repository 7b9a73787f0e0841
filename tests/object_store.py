"""S3 in a process of its own (moto's server), and a wire to it that can be cut: real sockets, real HTTP."""

from __future__ import annotations

import os
import re
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from queue import Queue
from typing import Any, ClassVar

import boto3
import pytest

from wal import object, small_objects
from wal.address import ObjectAddress

KEYS = {"access_key_id": "AKIAEXAMPLE", "secret_access_key": "object-secret-77"}

LANDED = (b"HTTP/1.1 200 ", b"HTTP/1.1 201 ")
"""First bytes of the answer to a put that has landed. The second one is Azure's."""

REFUSED = (b"HTTP/1.1 412 ", b"HTTP/1.1 409 ")
"""The same of a refused one. The second one is Azure's where the object to create exists."""

PAGE = 50
"""Of a listing; S3's own are of 1000."""


@contextmanager
def server() -> Iterator[int]:
    """Its port."""
    with started() as (port, _):
        yield port


@contextmanager
def started() -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Start a server. Return its port and its process."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, "-P", str(Path(__file__).with_name("one_at_a_time.py")), str(port)]
    environment = {**os.environ, "MOTO_S3_DEFAULT_MAX_KEYS": str(PAGE), "MOTO_PORT": str(port)}
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, env=environment, stdout=quiet, stderr=quiet)
    try:
        _await(port, process)
        yield port, process
    finally:
        process.kill()
        process.wait()


def _await(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    message = "moto's server did not start"
    raise RuntimeError(message)


@cache
def _client(port: int) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{port}",
        region_name="us-east-1",
        aws_access_key_id=KEYS["access_key_id"],
        aws_secret_access_key=KEYS["secret_access_key"],
    )


@dataclass
class Bucket:
    """A bucket of S3 of its own, and an eye on it that shares no code with the storage."""

    scheme: ClassVar = "s3"
    secret_option: ClassVar = "secret_access_key"
    no_bucket: ClassVar = "404, NoSuchBucket"

    port: int

    def __post_init__(self) -> None:
        self.name = f"b-{secrets.token_hex(5)}"
        self.s3 = _client(self.port)
        self.s3.create_bucket(Bucket=self.name)

    def options(self, port: int | None = None) -> dict[str, str]:
        """Return the options of an address. `port`: of a wire."""
        endpoint = f"http://127.0.0.1:{port or self.port}"
        return {"endpoint": endpoint, "allow_http": "true", "region": "us-east-1", **KEYS}

    @property
    def secret(self) -> str:
        """The secret among the options."""
        return self.options()[self.secret_option]

    def url(self, prefix: str) -> str:
        """Return the URL of a prefix."""
        return f"{self.scheme}://{self.name}/{prefix}"

    def address(self, prefix: str = "eos/log", port: int | None = None, **options: str) -> ObjectAddress:
        """`port`: of a wire."""
        return ObjectAddress.parse(self.url(prefix), {**self.options(port), **options})

    def listed(self) -> list[str]:
        found = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.name)
        return [each["Key"] for page in found for each in page.get("Contents", [])]

    def content(self, key: str) -> bytes:
        content: bytes = self.s3.get_object(Bucket=self.name, Key=key)["Body"].read()
        return content

    def contents(self) -> dict[str, bytes]:
        """Return all objects, by their keys."""
        return {key: self.content(key) for key in self.listed()}

    def restore(self, contents: Mapping[str, bytes]) -> None:
        """Hold these objects and no others."""
        for key in self.listed():
            self.delete(key)
        for key, content in contents.items():
            self.write(key, content)

    def write(self, key: str, content: bytes) -> None:
        """Also over what is there."""
        self.s3.put_object(Bucket=self.name, Key=key, Body=content)

    def delete(self, key: str) -> None:
        """Delete an object that exists."""
        self.s3.delete_object(Bucket=self.name, Key=key)


@dataclass(frozen=True)
class Request:
    """One, whole."""

    head: bytes
    body: bytes

    @property
    def method(self) -> str:
        return self.head.partition(b" ")[0].decode()

    def without(self, header: str) -> Request:
        return Request(re.sub(rb"(?i)\r\n%s:[^\r]*" % header.encode(), b"", self.head), self.body)


Behaviour = Callable[["Wire", Request], bytes | Iterator[bytes] | None]
"""What the client hears of a request, whole or in pieces; None: the connection is cut."""


class Wire:
    """A TCP proxy before the server. `behaviours` are taken one for each request; the last one stays."""

    def __init__(self, port: int, *behaviours: Behaviour) -> None:
        self._server_port = port
        self.behaviours = list(behaviours)
        self.requests: list[str] = []
        self.released = threading.Event()
        self.late_answers: Queue[bytes] = Queue()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._listen, daemon=True).start()

    def close(self) -> None:
        self.released.set()
        with suppress(OSError):  # closed already
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes whoever waits for a connection
        self._listener.close()

    def await_requests(self, number: int, seconds: float = 60) -> None:
        """Until so many have come, since it was laid."""
        deadline = time.monotonic() + seconds
        while len(self.requests) < number:
            assert time.monotonic() < deadline, self.requests
            time.sleep(0.02)

    def relay(self, request: Request) -> bytes:
        """The server's answer."""
        with socket.create_connection(("127.0.0.1", self._server_port)) as upstream:
            upstream.sendall(_closing(request.head) + b"\r\n\r\n" + request.body)
            return b"".join(iter(lambda: upstream.recv(1 << 20), b""))

    def begin(self, request: Request) -> None:
        """Half of a request, and no more."""
        with socket.create_connection(("127.0.0.1", self._server_port)) as upstream:
            upstream.sendall(request.head + b"\r\n\r\n" + request.body[: len(request.body) // 2])

    def _listen(self) -> None:
        with suppress(OSError):  # closed
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            request = _receive(connection)
            if request is None:
                return
            with self._lock:
                self.requests.append(request.method)
                behaviour = self.behaviours.pop(0) if len(self.behaviours) > 1 else self.behaviours[0]
            answer = behaviour(self, request)
            if isinstance(answer, bytes):
                head, _, body = answer.partition(b"\r\n\r\n")
                connection.sendall(_closing(head) + b"\r\n\r\n" + body)
            elif answer is not None:
                for piece in answer:
                    connection.sendall(piece)


def _closing(head: bytes) -> bytes:
    return re.sub(rb"(?i)\r\nconnection:[^\r]*", b"", head) + b"\r\nConnection: close"


def _receive(connection: socket.socket) -> Request | None:
    data = b""
    while b"\r\n\r\n" not in data:
        if not (more := connection.recv(1 << 20)):
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    while length and len(body) < int(length[1]) and (more := connection.recv(1 << 20)):
        body += more
    return Request(head, body)


def through(wire: Wire, request: Request) -> bytes | None:
    """As if nothing were in between."""
    return wire.relay(request)


def lost_answer(wire: Wire, request: Request) -> None:
    """Done, and the connection is cut before the answer."""
    wire.relay(request)


def lost_request(wire: Wire, request: Request) -> None:
    """Cut before anything comes through."""


def half_sent(wire: Wire, request: Request) -> None:
    """Cut in the middle of the body."""
    wire.begin(request)


def unavailable(wire: Wire, request: Request) -> bytes:
    """Done, and answered as if it had not been."""
    wire.relay(request)
    return answer(503, "SlowDown", "Reduce your request rate.")(wire, request)


def silent(wire: Wire, request: Request) -> None:
    """Done, and never answered."""
    wire.relay(request)
    wire.released.wait(30)


def slow(wire: Wire, request: Request) -> Iterator[bytes]:
    """Done, and the answer comes byte by byte, for longer than the client waits."""
    for byte in wire.relay(request):
        yield bytes([byte])
        wire.released.wait(0.02)


def cut(wire: Wire, request: Request) -> Iterator[bytes]:
    """Done, and the connection is cut in the middle of the answer's body, or of its head where it has no body."""
    given = wire.relay(request)
    body = given.partition(b"\r\n\r\n")[2]
    yield given[: len(given) - len(body) // 2] if body else given[: len(given) // 2]


def late(wire: Wire, request: Request) -> None:
    """Not done before it is released: the client has long given up."""
    wire.released.wait(30)
    wire.late_answers.put(wire.relay(request))


def deaf(wire: Wire, request: Request) -> bytes:
    """A store that knows nothing of conditions."""
    return wire.relay(request.without("if-none-match"))


def answer(status: int, code: str, message: str) -> Callable[[Wire, Request], bytes]:
    """As a store would that refuses."""
    body = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>{message}</Message></Error>'.encode()
    return lambda _wire, _request: b"HTTP/1.1 %d x\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


@pytest.fixture(scope="session")
def store_port() -> Iterator[int]:
    with server() as port:
        yield port


@pytest.fixture
def bucket(store_port: int) -> Bucket:
    return Bucket(store_port)


@pytest.fixture
def wire(store_port: int) -> Iterator[Callable[..., Wire]]:
    """Lays a wire with these behaviours."""
    laid: list[Wire] = []

    def lay(*behaviours: Behaviour) -> Wire:
        laid.append(Wire(store_port, *behaviours))
        return laid[-1]

    yield lay
    for each in laid:
        each.close()


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that gives up after a second, so that a test need not wait for half a minute."""
    backoff = {"init_backoff": timedelta(milliseconds=10), "max_backoff": timedelta(milliseconds=50), "base": 2}
    monkeypatch.setattr(
        object, "_RETRIES", {"max_retries": 2, "retry_timeout": timedelta(seconds=5), "backoff": backoff}
    )
    monkeypatch.setattr(object, "_REQUEST_S", 1.0)
    monkeypatch.setattr(small_objects, "_REQUEST_S", 1.5)
    monkeypatch.setattr(small_objects, "_BUSY_S", 0.01)
    monkeypatch.setattr(object, "_SLOWEST", 2**30)
