"""The check of the container's health, against a real server that says each of what a page can say."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

_CHECK = Path(__file__).parents[2] / "docker" / "healthcheck"


class _Page(BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status if self.path == "/readyz" else 404)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


class _Ipv6(ThreadingHTTPServer):
    address_family = socket.AF_INET6


@contextmanager
def page(status: int, kind: type[ThreadingHTTPServer] = ThreadingHTTPServer) -> Iterator[int]:
    host = "::1" if kind is _Ipv6 else "127.0.0.1"
    server = kind((host, 0), type("Page", (_Page,), {"status": status}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def check(port: int) -> tuple[int, str]:
    environment = {**os.environ, "EOS_UI_PORT": str(port)}
    done = subprocess.run([sys.executable, _CHECK], env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr.strip()


@pytest.mark.parametrize("kind", [ThreadingHTTPServer, _Ipv6])
def test_a_page_that_is_ready_is_health(kind: type[ThreadingHTTPServer]) -> None:
    with page(200, kind) as port:
        assert check(port) == (0, "")


def test_a_query_that_does_not_run_is_none() -> None:
    with page(503) as port:
        assert check(port) == (1, "not ready: 503")


def test_a_page_that_does_not_answer_is_none() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert check(silent.getsockname()[1]) == (1, "no answer: timed out")


def test_a_run_without_a_page_is_known_by_its_process_alone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert check(port) == (0, "")
