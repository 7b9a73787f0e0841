"""Who may ask the page for what, and what browsers are told about it: one layer around everything that it serves.

A page on 127.0.0.1 can be reached by every user of the machine, and by every page that its user's browser shows. So
every path that shows or changes something takes a token. A request must name this machine as its host: another site's
name could be pointed here. A request with an origin must have this page as its origin.

The token goes in a header that the page's own script sets, and is no cookie: a browser sends a host's cookies to every
port of it, so to a server that another user of the machine has started there.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Final
from urllib.parse import urlsplit

from fastapi import Depends
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES: Final = 64 * 1024

_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_READING: Final = frozenset({"GET", "HEAD"})
_CLOSED: Final = ("/api/", "/metrics", "/openapi.json")
"""What is read with a token only. The page itself tells nothing, nor do the probes."""
HIDDEN: Final = "not shown: it may quote a record, and the token reads only"
_STEERS: Final = "eos.steers"
_ELSEWHERE: Final = frozenset({"cross-site", "same-site"})
"""What browsers say of a request that another site's page makes, if only for a picture; same-site: another port."""

_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS: Final = {
    "content-security-policy": _POLICY,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}


@dataclass(frozen=True, slots=True)
class Tokens:
    """What opens the page."""

    steering: str = field(repr=False)  # reads and steers
    reading: str | None = field(default=None, repr=False)  # reads no record, steers nothing: for Prometheus


@dataclass(frozen=True, slots=True)
class Guard:
    """ASGI middleware."""

    app: ASGIApp
    tokens: Tokens
    is_loopback: bool  # bound to this machine alone

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer what is refused, and pass on the rest."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        headers = Headers(scope=scope)
        refused = self._refusal(scope["method"], scope["path"], headers)
        scope[_STEERS] = _equal(_bearer(headers), self.tokens.steering)
        await (refused or self.app)(scope, receive, with_headers)

    def _refusal(self, method: str, path: str, headers: Headers) -> Response | None:
        host = headers.get("host", "")
        if self.is_loopback and _hostname(host) not in _LOOPBACK:
            return _refuse(421, "this page is served to this machine alone", "open it as http://localhost")
        origin = headers.get("origin")
        is_elsewhere = headers.get("sec-fetch-site") in _ELSEWHERE and path.startswith(_CLOSED)
        if is_elsewhere or (origin is not None and origin.partition("://")[2] != host):
            return _refuse(403, "the request comes from a page of another site", "open the page that eos has printed")
        is_reading = method in _READING
        if not is_reading or path.startswith(_CLOSED):
            given = _bearer(headers)
            if not _equal(given, self.tokens.steering):
                if not _equal(given, self.tokens.reading):
                    remedy = "open the URL that eos has printed, or send the header `Authorization: Bearer TOKEN`"
                    return _refuse(401, "this takes the token", remedy, {"www-authenticate": "Bearer"})
                if not is_reading:
                    return _refuse(403, "this token reads only", "use the token with which the page was started")
        if not _is_small(headers):
            return _refuse(413, f"more than {MAX_BODY_BYTES} bytes, or without a content-length", "send less")
        return None


def needs_steering(request: Request) -> None:
    """Raise HTTPException unless the request has the token that steers. For answers that hold or quote records."""
    if not _may_steer(request):
        raise HTTPException(403, "this answer may hold records, and the token reads only: use the token that steers")


def _shown(request: Request) -> Callable[[str], str]:
    return str if _may_steer(request) else lambda message: message and HIDDEN


Quoted = Annotated[Callable[[str], str], Depends(_shown)]
"""Returns a message that may quote a record: as it is with the token that steers, and HIDDEN with the other one."""


def _may_steer(request: Request) -> bool:
    return request.scope.get(_STEERS) is True


def _bearer(headers: Headers) -> str:
    kind, _, given = headers.get("authorization", "").partition(" ")
    return given.strip() if kind.lower() == "bearer" else ""


def _equal(given: str, token: str | None) -> bool:
    """In the same time, wherever they differ."""
    return token is not None and secrets.compare_digest(given.encode(), token.encode())


def _hostname(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:  # no name at all
        return ""


def _is_small(headers: Headers) -> bool:
    if "transfer-encoding" in headers:
        return False
    length = headers.get("content-length", "0")
    return length.isascii() and length.isdigit() and int(length) <= MAX_BODY_BYTES


def _refuse(status: int, message: str, remedy: str, headers: dict[str, str] | None = None) -> Response:
    body = json.dumps({"error": {"message": message, "remedy": remedy}})
    return Response(body, status, headers, media_type="application/json")
