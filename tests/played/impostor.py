"""A process that has taken a database's port and asks for the password, in the protocols of MySQL and PostgreSQL."""

from __future__ import annotations

import ssl
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Final, cast

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.played.script import Conversation, PlayedServer, Script, listening

PASSWORD: Final = "sesame-7-street"
_SSL, _GSS = 80877103, 80877104
_CLEARTEXT, _MD5 = 3, 5
_MYSQL_CAPABILITIES: Final = 0x00FFFFFF & ~0x00000800 & ~0x00000020  # but for TLS and compression
_MYSQL_TLS: Final = 0x00000800
_SALT: Final = b"12345678901234567890"


@dataclass
class Heard:
    """The impostor's catch."""

    connections: int = 0
    refused: bool = False  # by the client itself, as the test that connects finds
    parts: list[bytes] = field(default_factory=list)  # received, and what was encrypted for the impostor's own key

    @property
    def password(self) -> bool:
        """Whether the password was among it."""
        return PASSWORD.encode() in b"".join(self.parts) or any(PASSWORD.encode() in part for part in self.parts)


@contextmanager
def impostor(kind: str, asks: str, tls: ssl.SSLContext | None = None) -> Iterator[tuple[int, Heard]]:
    """Listen on a port of 127.0.0.1; return it, and the catch.

    `kind`: `mysql` or `postgresql`. `asks`: the authentication that it asks for: `cleartext` or `md5` of PostgreSQL, or
    a plugin of MySQL, with `greeted-` before it where the first packet names it. `tls`: without it, it offers none.
    """
    heard = Heard()
    base = _MySql if kind == "mysql" else _Postgres
    speaker = type("_Impostor", (base,), {"heard": heard, "asks": asks, "tls": tls})
    with listening(cast("type[Conversation]", speaker), Script()) as server:
        yield server.port, heard


class _Impostor(Conversation):
    server: PlayedServer
    heard: Heard
    asks: str
    tls: ssl.SSLContext | None
    rbufsize = 0  # a client sends the first bytes of TLS right behind its request

    def exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            part = self.rfile.read(size - len(found))
            if not part:
                raise EOFError
            found += part
        self.heard.parts.append(found)
        return found

    def _encrypt(self) -> None:
        assert self.tls is not None
        try:
            self.request = self.tls.wrap_socket(self.request, server_side=True)
        except (ssl.SSLError, OSError) as error:
            raise ConnectionError(str(error)) from error
        self.setup()


class _Postgres(_Impostor):
    def speak(self, script: Script, number: int) -> None:
        self.heard.connections += 1
        while struct.unpack(">I", (first := self._body())[:4])[0] in (_SSL, _GSS):
            wants_tls = struct.unpack(">I", first[:4])[0] == _SSL
            self.wfile.write(b"S" if wants_tls and self.tls else b"N")
            if wants_tls and self.tls:
                self._encrypt()
        asked = struct.pack(">I", _MD5) + b"salt" if self.asks == "md5" else struct.pack(">I", _CLEARTEXT)
        self.wfile.write(b"R" + struct.pack(">I", len(asked) + 4) + asked)
        self.exactly(1)
        self._body()
        refusal = b'SFATAL\0C28P01\0Mpassword authentication failed for user "u"\0\0'
        self.wfile.write(b"E" + struct.pack(">I", len(refusal) + 4) + refusal)

    def _body(self) -> bytes:
        return self.exactly(int(struct.unpack(">I", self.exactly(4))[0]) - 4)


class _MySql(_Impostor):
    _sequence = 0

    def speak(self, script: Script, number: int) -> None:
        self.heard.connections += 1
        plugin = self.asks.removeprefix("greeted-")
        self._greet(plugin if plugin != self.asks else "mysql_native_password")
        answer = self._read()
        if self.tls is not None and len(answer) == 32:  # it asks for TLS
            self._encrypt()
            answer = self._read()
        if plugin == self.asks:
            prompt = b"\2Password: " if plugin == "dialog" else _SALT + b"\0"
            self._write(b"\xfe" + plugin.encode() + b"\0" + prompt)
            answer = self._read()
        if plugin == "caching_sha2_password":
            self._write(b"\x01\x04")  # it does not know the password yet
            answer = self._read()
        greeted = plugin == "sha256_password" and plugin != self.asks
        if greeted or answer in (b"\x01", b"\x02"):
            self._write(b"\x01" + public_key())
            answer = self._read()
        self._decrypt(answer)
        self._write(b"\xff" + struct.pack("<H", 1045) + b"#28000Access denied for user 'u'@'localhost'")

    def _decrypt(self, answer: bytes) -> None:
        if len(answer) == 256:
            try:
                told = _key().decrypt(answer, padding.OAEP(padding.MGF1(hashes.SHA1()), hashes.SHA1(), None))
            except ValueError:  # for another key
                return
            self.heard.parts.append(bytes(one ^ _SALT[at % len(_SALT)] for at, one in enumerate(told)))

    def _greet(self, plugin: str) -> None:
        capabilities = _MYSQL_CAPABILITIES | (_MYSQL_TLS if self.tls else 0)
        low, high = capabilities & 0xFFFF, capabilities >> 16
        head = b"\x0a9.7.0\0" + struct.pack("<I", 1) + _SALT[:8] + b"\0"
        behind = struct.pack("<HBHHB", low, 45, 2, high, 21) + bytes(10)
        self._write(head + behind + _SALT[8:] + b"\0" + plugin.encode() + b"\0")

    def _read(self) -> bytes:
        size, self._sequence = struct.unpack("<I", self.exactly(3) + b"\0")[0], self.exactly(1)[0]
        return self.exactly(size)

    def _write(self, packet: bytes) -> None:
        self._sequence = (self._sequence + 1) % 256 if packet[0] != 0x0A else 0
        self.wfile.write(struct.pack("<I", len(packet))[:3] + bytes([self._sequence]) + packet)


@cache
def _key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def public_key() -> bytes:
    """Return the impostor's own key, as PEM."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return _key().public_key().public_bytes(serialization.Encoding.PEM, form)
