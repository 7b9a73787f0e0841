"""Asks a page over HTTP, as a script would: real sockets, and every header as it is given."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

TOKEN = "a-token-of-the-tests"


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def problem(self) -> str:
        return str(self.json["error"]["message"])


def client_of(output: str) -> Client:
    """For the page that a run or `eos ui` has printed where its output is no terminal: its token is in a file."""
    found = re.search(r"page: (http://\S+) \(its token is in (\S+)\)", output)
    assert found is not None, output
    url, path = found.groups()
    return Client(url, Path(path).read_text().strip())


@dataclass(frozen=True)
class Client:
    """`token`: is sent with every request; None: none is."""

    url: str
    token: str | None = TOKEN

    def get(self, path: str, **headers: str) -> Reply:
        return self.ask("GET", path, headers=headers)

    def api(self, path: str) -> Any:
        reply = self.get(f"/api/v1/pipelines/{path}")
        assert reply.status == 200, reply.body
        return reply.json

    def post(self, path: str, body: object = None, **headers: str) -> Reply:
        content = None if body is None else json.dumps(body).encode()
        kind = {} if body is None else {"Content-Type": "application/json"}
        return self.ask("POST", path, content, headers=kind | headers)

    def ask(
        self, method: str, path: str, content: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=20)
        own = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        try:
            connection.request(method, path, content, {**own, **(headers or {})})
            answer = connection.getresponse()
            return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()
