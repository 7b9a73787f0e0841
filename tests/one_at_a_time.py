"""moto's server, which answers one request at a time: it compares a tag first, and writes later (`PORT`)."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple


class OneAtATime:
    """A WSGI application around moto's. A body is read before its request has its turn."""

    def __init__(self) -> None:
        self._app = DomainDispatcherApplication(create_backend_app)
        self._turn = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)))
        with self._turn:
            return list(self._app(environ, start_response))


if __name__ == "__main__":
    run_simple("127.0.0.1", int(sys.argv[1]), OneAtATime(), threaded=True, request_handler=MotoRequestHandler)
