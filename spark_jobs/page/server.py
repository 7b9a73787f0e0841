"""Serves an application over HTTP from a thread of this process, which the process's end does not wait for."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from eos.errors import ConnectorError

_ENDING_S: Final = 2
MOST: Final = 64
AT_A_TIME: Final = 16
"""So many more are accepted before the first of them is served; the others wait in the system's queue."""


class PageError(ConnectorError):
    """The page cannot be served."""

    code = "EOS-PAGE"


@dataclass(frozen=True, slots=True)
class Address:
    """Where the page listens: the port is taken from now on, whoever serves it later."""

    socket: socket.socket
    host: str  # as it was named

    @property
    def is_loopback(self) -> bool:
        """Whether nobody else's machine can reach it."""
        return ipaddress.ip_address(self.socket.getsockname()[0]).is_loopback

    @property
    def url(self) -> str:
        """For a browser; of an address that stands for all of a machine's, by the machine's name."""
        bound, port = self.socket.getsockname()[:2]
        host = socket.gethostname() if ipaddress.ip_address(bound).is_unspecified else self.host
        return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def listen(host: str, port: int) -> Address:
    """Take the port; 0: any that is free. `host` "::" is every address, of IPv4 too. Raises PageError."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        both = address[0] == "::" and socket.has_dualstack_ipv6()
        made = socket.create_server(address[:2], family=family, backlog=128, dualstack_ipv6=both)
        return Address(made, host)
    except OSError as error:
        why = error.strerror if isinstance(error, socket.gaierror) or error.errno is None else os.strerror(error.errno)
        message = f"the page cannot be served at port {port} of {host}: {why}"
        raise PageError(message, remedy="choose another port (0: any that is free), or another address") from error


@contextmanager
def serving(application: ASGIApp, address: Address) -> Iterator[threading.Thread]:
    """Answer requests for this block, from the thread that is yielded. Whatever it does, the block goes on."""
    _log_as_ours()
    config = uvicorn.Config(
        application,
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        http=Connection,
        backlog=AT_A_TIME,
        timeout_graceful_shutdown=_ENDING_S,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([address.socket],), name="eos-page", daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        server.should_exit = True
        thread.join(_ENDING_S + 1)
        address.socket.close()


def _log_as_ours() -> None:
    """What goes wrong in the server is told where our own log goes, without secrets; what clients do wrong, to them."""
    theirs = logging.getLogger("uvicorn")
    theirs.parent = logging.getLogger("eos.page")
    theirs.setLevel(logging.ERROR)


class Connection(H11Protocol):
    """One connection, of `MOST` at a time; belongs to the thread of its server.

    A new one takes the place of the one that has been quiet for longest. So nobody keeps others out by holding
    connections, a probe is always heard, and clients do not take the files that a driver must open.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._heard_at_s = self.loop.time()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST:
            mine = [each for each in self.connections if isinstance(each, Connection)]
            quiet = min(mine, key=lambda each: each._heard_at_s)
            self.connections.discard(quiet)
            quiet.transport.abort()

    def data_received(self, data: bytes) -> None:
        self._heard_at_s = self.loop.time()
        super().data_received(data)
