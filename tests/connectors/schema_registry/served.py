"""A server with given answers, in the place of a registry: what a real one does not answer."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from connectors.schema_registry.client import Connection


class Server(ThreadingHTTPServer):
    """Gives one answer after another; the last one for ever."""

    def __init__(self, *answers: tuple[int, str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = list(answers)
        self.requests: list[tuple[str, str]] = []  # path and Authorization
        self.zips = False  # whether answers are compressed


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def do_GET(self) -> None:
        self.server.requests.append((self.path, self.headers.get("Authorization", "")))
        answers = self.server.answers
        status, body = answers.pop(0) if len(answers) > 1 else answers[0]
        content = gzip.compress(body.encode(), 1) if self.server.zips else body.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        if self.server.zips:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        with suppress(ConnectionError):  # a client need not read to the end
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Leave standard error to the tests."""


@contextmanager
def serving(*answers: tuple[int, str]) -> Iterator[tuple[Server, Connection]]:
    """Give a server with these answers, and how it is reached."""
    with Server(*answers) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server, Connection(f"http://127.0.0.1:{server.server_port}")
        finally:
            server.shutdown()
            thread.join()
