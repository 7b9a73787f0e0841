"""A process that has taken a broker's port: it offers a login, keeps what it hears, and lets everybody in."""

from __future__ import annotations

import base64
import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, cast

from tests.played.script import Conversation, Script, listening

_API_VERSIONS, _HANDSHAKE, _AUTHENTICATE = 18, 17, 36
_VERSIONS: Final = ((3, 0, 4), (_HANDSHAKE, 0, 1), (_API_VERSIONS, 0, 0), (_AUTHENTICATE, 0, 0))
"""Requests that it says it knows: number, first and last version."""
_UNSUPPORTED_VERSION, _UNSUPPORTED_MECHANISM = 35, 33


@dataclass
class Heard:
    """The impostor's catch."""

    mechanisms: list[str] = field(default_factory=list)  # that clients asked for
    logins: list[bytes] = field(default_factory=list)  # messages of SASL
    requests: list[int] = field(default_factory=list)  # by their numbers
    bytes: bytearray = field(default_factory=bytearray)  # all of it


@contextmanager
def impostor(offers: str, tls: ssl.SSLContext | None = None) -> Iterator[tuple[str, Heard]]:
    """Listen; return the address, and the catch. `offers`: a mechanism of SASL. `tls`: without it, it speaks none."""
    heard = Heard()
    speaker = type("_Speaker", (_Speaker,), {"heard": heard, "offers": offers, "tls": tls})
    with listening(cast("type[Conversation]", speaker), Script()) as server:
        yield f"127.0.0.1:{server.port}", heard


class _Speaker(Conversation):
    heard: Heard
    offers: str
    tls: ssl.SSLContext | None

    def speak(self, script: Script, number: int) -> None:
        if self.tls is not None:
            try:
                self.request = self.tls.wrap_socket(cast("socket.socket", self.request), server_side=True)
            except (ssl.SSLError, OSError) as error:
                raise ConnectionError(str(error)) from error
            self.setup()
        while True:
            (size,) = struct.unpack(">i", self._heard(4))
            if not 0 < size < 100_000:  # it is no Kafka, such as the first bytes of TLS
                raise ConnectionError
            self._answer(self._heard(size))

    def _heard(self, size: int) -> bytes:
        found = self.exactly(size)
        self.heard.bytes += found
        return found

    def _answer(self, request: bytes) -> None:
        number, version, correlation, named = struct.unpack_from(">hhih", request)
        body = request[10 + max(named, 0) :]
        self.heard.requests.append(number)
        match number:
            case 18:
                refused = 0 if version == 0 else _UNSUPPORTED_VERSION
                known = b"".join(struct.pack(">hhh", *each) for each in _VERSIONS)
                answer = struct.pack(">hi", refused, len(_VERSIONS)) + known
            case 17:
                mechanism = body[2:].decode()
                self.heard.mechanisms.append(mechanism)
                refused = 0 if mechanism == self.offers else _UNSUPPORTED_MECHANISM
                answer = struct.pack(">hi", refused, 1) + _text(self.offers.encode())
            case 36:
                login = body[4:]
                self.heard.logins.append(login)
                told = self._login(login)
                answer = struct.pack(">hh", 0, -1) + struct.pack(">i", len(told)) + told
            case _:
                raise ConnectionError
        self.wfile.write(struct.pack(">ii", len(answer) + 4, correlation) + answer)

    def _login(self, said: bytes) -> bytes:
        """Take whatever comes. Of SCRAM one round only is asked for, so that each guess is cheap, and no proof is."""
        if not self.offers.startswith("SCRAM"):
            return b""
        if said.startswith(b"n,"):
            nonce = said.partition(b"r=")[2]
            return b"r=" + nonce + b"more,s=" + base64.b64encode(b"salt of its own") + b",i=1"
        return b"v=" + base64.b64encode(bytes(64))


def _text(value: bytes) -> bytes:
    return struct.pack(">h", len(value)) + value
