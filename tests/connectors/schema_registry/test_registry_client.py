"""Answers that are not of a registry: each is an outage, and none says that an id is unknown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from connectors.schema_registry.client import Connection, RegisteredSchema, schemas_of, subjects
from eos.errors import SourceError


class _Server(ThreadingHTTPServer):
    """Gives one answer after another; the last one for ever."""

    def __init__(self, *answers: tuple[int, str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = list(answers)
        self.requests: list[tuple[str, str]] = []  # path and Authorization


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        self.server.requests.append((self.path, self.headers.get("Authorization", "")))
        answers = self.server.answers
        status, body = answers.pop(0) if len(answers) > 1 else answers[0]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Leave standard error to the tests."""


@contextmanager
def _serving(*answers: tuple[int, str]) -> Iterator[tuple[_Server, Connection]]:
    with _Server(*answers) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server, Connection(f"http://127.0.0.1:{server.server_port}")
        finally:
            server.shutdown()
            thread.join()


_UNKNOWN = (404, json.dumps({"error_code": 40403, "message": "Schema not found"}))
_FIXED = '{"type": "fixed", "name": "F", "size": 1}'
_KNOWN = (200, json.dumps({"schema": _FIXED}))


@pytest.mark.parametrize(
    "answer",
    [
        (404, "<html>not here</html>"),
        (404, json.dumps({"error_code": 404, "message": "HTTP 404 Not Found"})),
        (404, json.dumps({"error_code": 40401, "message": "Subject not found"})),
        (302, ""),
        (401, "{}"),
        (403, "{}"),
        (500, "{}"),
        (200, "<html>a proxy's page</html>"),
        (200, ""),
        (200, "[]"),
        (200, "{}"),
        (200, '{"schema": null}'),
        (200, '{"schema": ""}'),
        (204, ""),
    ],
)
def test_an_answer_that_is_not_a_registrys_is_an_outage(answer: tuple[int, str]) -> None:
    with _serving(answer) as (_, connection), pytest.raises(SourceError):
        schemas_of(connection, [7])


def test_an_unknown_id_is_requested_twice_and_then_not_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("connectors.schema_registry.client.time.sleep", slept.append)
    with _serving(_UNKNOWN) as (server, connection):
        for _ in range(3):
            assert schemas_of(connection, [7, 8]) == {7: None, 8: None}
        assert sorted(path.partition("?")[0] for path, _ in server.requests) == [
            *["/schemas/ids/7"] * 2,
            *["/schemas/ids/8"] * 2,
        ]
    assert len(slept) == 1  # for both


def test_a_schema_is_requested_once() -> None:
    with _serving(_KNOWN) as (server, connection):
        for _ in range(3):
            assert schemas_of(connection, [7]) == {7: RegisteredSchema("AVRO", _FIXED)}
        assert len(server.requests) == 1


def test_an_id_that_the_second_request_finds_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.schema_registry.client.time.sleep", lambda _seconds: None)
    with _serving(_UNKNOWN, _KNOWN) as (_, connection):
        assert schemas_of(connection, [7]) == {7: RegisteredSchema("AVRO", _FIXED)}


def test_a_token_is_sent_and_not_shown() -> None:
    with _serving((200, "[]"), (403, "{}")) as (server, connection):
        known = Connection(connection.url, token="of-orders")
        assert subjects(known) == 0
        with pytest.raises(SourceError, match="answers 403 for its subjects") as denied:
            subjects(known)
        assert [authorization for _, authorization in server.requests] == ["Bearer of-orders"] * 2
    assert "of-orders" not in str(denied.value)
