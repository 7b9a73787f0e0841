"""One HTTP request to a webhook: no redirect, no proxy, no link-local address, and an end in bounded time."""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import threading
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

_TIMEOUT_S: Final = 10.0  # of each step: connect, send, wait for the answer
_WHOLE_S: Final = 30.0  # of the request: a server that answers byte by byte is cut off
_METADATA: Final = frozenset(map(ipaddress.ip_address, ("fd00:ec2::254", "100.100.100.200", "192.0.0.192")))
"""Addresses of cloud metadata services that are not link-local."""


class UnavailableError(Exception):
    """The endpoint does not answer now, or is overloaded: a later attempt may succeed. The text has no URL."""


class RejectedError(Exception):
    """The endpoint or its address is refused, or refuses the request: another attempt would be too."""


def post(url: str, content: bytes, headers: Mapping[str, str]) -> None:
    """Send `content`, which is JSON, and wait for the status. Blocks for at most half a minute.

    Raises UnavailableError, RejectedError.
    """
    parts = urlsplit(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connection = _connection(parts.scheme, parts.hostname or "", parts.port)
    watchdog = threading.Timer(_WHOLE_S, _cut_off, (connection,))
    watchdog.daemon = True
    watchdog.start()
    try:
        connection.request("POST", path, content, {"Content-Type": "application/json; charset=utf-8", **headers})
        status = connection.getresponse().status
    except ssl.SSLCertVerificationError as error:
        message = f"its certificate is not valid: {error.verify_message}"
        raise RejectedError(message) from None
    except (OSError, http.client.HTTPException) as error:
        message = f"it does not answer: {getattr(error, 'strerror', None) or type(error).__name__}"
        raise UnavailableError(message) from None
    finally:
        watchdog.cancel()
        connection.close()
    if status == 429 or status >= 500:
        raise UnavailableError(f"it answers {status}")
    if 300 <= status < 400:
        raise RejectedError(f"it answers {status}, a redirect, and redirects are not followed")
    if not 200 <= status < 300:
        raise RejectedError(f"it answers {status}")


def _connection(scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
    return _TlsConnection(host, port) if scheme == "https" else _PlainConnection(host, port)


class _PlainConnection(http.client.HTTPConnection):
    """Connects to an address that was checked, so a name cannot resolve to another one in between."""

    def __init__(self, host: str, port: int | None) -> None:
        super().__init__(host, port, timeout=_TIMEOUT_S)

    def connect(self) -> None:
        """Connect to the first address that answers. Raises OSError, RejectedError."""
        self.sock = _connected(self.host, self.port)


class _TlsConnection(_PlainConnection):
    """The same with TLS, by the authorities of this machine."""

    default_port = http.client.HTTPS_PORT

    def connect(self) -> None:
        """Connect, and verify the server. Raises OSError, RejectedError."""
        super().connect()
        self.sock = ssl.create_default_context().wrap_socket(self.sock, server_hostname=self.host)


def _connected(host: str, port: int) -> socket.socket:
    failure: OSError | None = None
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        check_address(str(address[0]))
        made = socket.socket(family, kind, protocol)
        try:
            made.settimeout(_TIMEOUT_S)
            made.connect(address)
        except OSError as error:
            made.close()
            failure = error
        else:
            return made
    raise failure or OSError("no address")


def check_address(text: str) -> None:
    """Raise RejectedError for an address at which a cloud's metadata service, or a link, may answer."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        address = address.ipv4_mapped or address.sixtofour or address
    if address.is_link_local or address.is_unspecified or address.is_multicast or address in _METADATA:
        message = "its address is link-local, or of a metadata service"
        raise RejectedError(message)


def _cut_off(connection: http.client.HTTPConnection) -> None:
    found = connection.sock
    if found is not None:
        try:
            found.shutdown(socket.SHUT_RDWR)
        except OSError:
            return
