"""The registry under Apicurio's addresses, for the client of its converter: the same schemas by the same ids."""

from __future__ import annotations

import json
import re
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, Self
from urllib.error import HTTPError
from urllib.request import urlopen

_PATH: Final = re.compile(r"^/apis/registry/v2/ids/contentIds/(\d+)(/references)?$")
_TIMEOUT_S: Final = 10.0


class Apicurio:
    """A translation of requests for schemas into requests of Confluent's API. `close` ends it."""

    def __init__(self, registry: str) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, registry))
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """The address for `apicurio.registry.url`."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/apis/registry/v2"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, registry: str, *arguments: object) -> None:
        self._registry = registry
        super().__init__(*arguments)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        found = _PATH.match(self.path)
        if found is None:
            self._answer(404, b"{}")
            return
        try:
            with urlopen(f"{self._registry}/schemas/ids/{found[1]}", timeout=_TIMEOUT_S) as answer:
                content = json.load(answer)
        except HTTPError as error:
            self._answer(error.code, b"{}")
            return
        if content.get("references"):
            raise ValueError(f"schema {found[1]} refers to others, which the benchmark's schemas never do")
        self._answer(200, b"[]" if found[2] else content["schema"].encode())

    def _answer(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Log nothing."""
