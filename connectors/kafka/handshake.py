"""Diagnosis of a failed TLS connection to a broker, by a TLS handshake of this module.

The Kafka client reports neither what is wrong with a certificate nor that a listener speaks another protocol.
"""

from __future__ import annotations

import re
import socket
import ssl
import struct
from dataclasses import dataclass
from typing import Final

from connectors.kafka.settings import Connection, is_encrypted, verifies_hosts

_LOOK_S: Final = 3.0
_ADDRESS: Final = re.compile(r"(?<!\w)\w++://(\[[^\]]+\]|[^/\s:]+):(\d+)/")  # as the client names a broker
_API_VERSIONS: Final = struct.pack(">ihhih", 10, 18, 0, 0x656F73, -1)  # the one request that any listener takes first
_EXPIRED: Final = frozenset({9, 10})  # X509_V_ERR_CERT_NOT_YET_VALID, …_HAS_EXPIRED
_OTHER_HOST: Final = frozenset({62, 64})  # X509_V_ERR_HOSTNAME_MISMATCH, …_IP_ADDRESS_MISMATCH


@dataclass(frozen=True, slots=True)
class Seen:
    """What is wrong, and what to do."""

    problem: str
    remedy: str


def diagnose_tls(connection: Connection, told: str = "") -> Seen | None:
    """What a broker shows to whoever connects; None where that explains nothing. Blocks for some seconds at most.

    Args:
        connection: how the client connects.
        told: an error of the client that names the broker; else the first of `bootstrap_servers` is asked.
    """
    found = _ADDRESS.search(told)
    server, _, port = connection.bootstrap_servers.partition(",")[0].rpartition(":")
    settings = dict(connection.properties)
    try:
        host, number = (found[1], int(found[2])) if found else (server or port, int(port) if server else 9092)
        host = host.strip("[]")
        return _of_encrypted(host, number, settings) if is_encrypted(settings) else _of_plain(host, number)
    except ValueError:  # UnicodeError is one: no name of a host, or no port, which the client itself says
        return None


def _of_encrypted(host: str, port: int, settings: dict[str, str]) -> Seen | None:
    where = f"{host}:{port}"
    try:
        _shake_hands(host, port, _context(settings))
    except ssl.SSLCertVerificationError as error:
        if error.verify_code in _EXPIRED:
            remedy = "have the broker's certificate renewed, and see that this machine's clock is right"
        elif error.verify_code in _OTHER_HOST:
            remedy = "name the brokers as their certificates do (bootstrap_servers, advertised.listeners), or have "
            remedy += "certificates made for these names"
        else:
            remedy = "give the authority that signed it as security.tls.ca"
        return Seen(f"the certificate of {where} is refused: {error.verify_message}", remedy)
    except OSError:  # ssl.SSLError is one
        if _speaks_plain_text(host, port):
            remedy = "name a listener with TLS, or leave out `security`, where plain text is meant"
            return Seen(f"{where} speaks no TLS", remedy)
    return None


def _of_plain(host: str, port: int) -> Seen | None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is sent: only whether it speaks TLS is asked
    try:
        _shake_hands(host, port, context)
    except OSError:
        return None
    return Seen(f"{host}:{port} speaks TLS, and this client does not", "say `security`, with tls and mostly with sasl")


def _context(settings: dict[str, str]) -> ssl.SSLContext:
    """As the client verifies. Raises OSError for a file that cannot be read."""
    file = settings.get("ssl.ca.location")
    context = ssl.create_default_context(
        cafile=None if file == "probe" else file, cadata=settings.get("ssl.ca.pem") or None
    )
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.check_hostname = verifies_hosts(settings)
    return context


def _shake_hands(host: str, port: int, context: ssl.SSLContext) -> None:
    """Raises OSError. Of a connection that is cut already, `wrap_socket` tells nothing unless it is asked to do it."""
    with (
        socket.create_connection((host, port), _LOOK_S) as plain,
        context.wrap_socket(plain, server_hostname=host, do_handshake_on_connect=False) as encrypted,
    ):
        encrypted.do_handshake()


def _speaks_plain_text(host: str, port: int) -> bool:
    """Whether it answers Kafka's protocol without TLS."""
    try:
        with socket.create_connection((host, port), _LOOK_S) as plain:
            plain.sendall(_API_VERSIONS)
            return plain.recv(8)[4:8] == _API_VERSIONS[8:12]
    except OSError:
        return False
