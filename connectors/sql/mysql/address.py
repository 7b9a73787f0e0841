"""What a URL of MySQL or MariaDB says: where the server is, how its certificate is checked, and what nobody may see."""

from __future__ import annotations

import socket
import ssl
from inspect import signature
from pathlib import Path
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from pymysql.connections import Connection
from sqlalchemy import URL
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from connectors.api.login import OPTIONS
from connectors.api.tls import Protection
from connectors.sql.kind import place_of
from connectors.sql.mysql.database import FILES, MySqlDatabase
from eos.errors import SpecError

_CONNECT_TIMEOUT_S: Final = 10
_NETWORK_TIMEOUT_S: Final = 120  # longer than any statement of ours may take; a vanished server is noticed by it
_TLS: Final = (*FILES, "ssl_key_password")
_TLS_SWITCHES: Final = ("ssl", "ssl_verify_cert", "ssl_verify_identity", "ssl_check_hostname", "ssl_disabled")
_PUBLIC_KEY: Final = "server_public_key"
_KNOWN: Final = frozenset({*signature(Connection).parameters, *_TLS, *_TLS_SWITCHES, *OPTIONS})


def masked(url: str) -> str:
    """The URL for messages: user and password left out, and the options too, which may hold a key's password."""
    parsed = parse(url)
    return place_of(parsed.host or "localhost", parsed.port or MySqlDatabase.port, parsed.database)


def parse(url: str) -> URL:
    """The parts of a URL. Raises SpecError without repeating it: it holds a password."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        message = "the url is not of the form mysql+pymysql://user:password@host:3306/database"
        raise SpecError(message, remedy="write special characters of the password as %xx") from None
    if parsed.get_backend_name() not in ("mysql", "mariadb"):
        message = f"the url begins with {parsed.drivername!r}, which is neither MySQL nor MariaDB"
        raise SpecError(message, remedy="begin it with mysql+pymysql://")
    return parsed.set(drivername="mysql+pymysql")


def connect_arguments(url: str) -> tuple[URL, dict[str, object]]:
    """What SQLAlchemy is given for a URL of ours: the URL without TLS options, and the driver's arguments.

    Raises SpecError.
    """
    parsed = parse(url)
    if unknown := sorted(parsed.query.keys() - _KNOWN):
        message = f"the url of {parsed.host} has what PyMySQL knows no option for: {', '.join(unknown)}"
        raise SpecError(message, remedy="leave it out, or see the arguments of pymysql.connections.Connection")
    arguments: dict[str, object] = {
        "charset": "utf8mb4",
        "connect_timeout": _CONNECT_TIMEOUT_S,
        "read_timeout": _NETWORK_TIMEOUT_S,
        "write_timeout": _NETWORK_TIMEOUT_S,
        **_tls(parsed),
        **_public_key(parsed),
    }
    if parsed.password is not None:
        # As bytes: the driver encodes text as Latin-1 and would show the password in the error for other characters.
        arguments["password"] = str(parsed.password).encode()
    return parsed.difference_update_query([*_TLS, *_TLS_SWITCHES, _PUBLIC_KEY, *OPTIONS]), arguments


def protection(url: str) -> Protection:
    """How the way to the server is protected."""
    parsed = parse(url)
    return MySqlDatabase.protection(parsed.host, parsed.query)


def login_files(url: str) -> list[str]:
    """Return the files of keys and certificates that the URL names."""
    query = parse(url).query
    return [str(query[name]) for name in (*FILES, _PUBLIC_KEY) if name in query]


def _public_key(url: URL) -> dict[str, object]:
    """Return the server's RSA key, which the URL names a file of."""
    if _PUBLIC_KEY not in url.query:
        return {}
    try:
        key = Path(str(url.query[_PUBLIC_KEY])).read_bytes()
        load_pem_public_key(key)
    except OSError as error:
        raise _unreadable(url, error, _PUBLIC_KEY) from None
    except (ValueError, UnsupportedAlgorithm):
        message = f"the file that {_PUBLIC_KEY} of the url of {url.host} names holds no public key"
        remedy = "the server keeps it in public_key.pem, and its status has it as Caching_sha2_password_rsa_public_key"
        raise SpecError(message, remedy=remedy) from None
    return {_PUBLIC_KEY: key}


def _unreadable(url: URL, error: OSError, options: str) -> SpecError:
    message = f"the TLS files of the url of {url.host} cannot be read on {socket.gethostname()}: "
    message += error.strerror or type(error).__name__
    return SpecError(message, remedy=f"check {options}: they must lie under these paths wherever tasks run")


def _tls(url: URL) -> dict[str, object]:
    """The driver's TLS arguments. On this machine, where the URL says nothing, it takes TLS if it is offered."""
    asked = MySqlDatabase.protection(url.host, url.query)
    if asked is Protection.NONE:
        return {"ssl_disabled": True}
    if asked is Protection.LOCAL:
        return {}
    given = {key: str(url.query[key]) for key in _TLS if key in url.query}
    try:
        context = ssl.create_default_context(cafile=given.get("ssl_ca"), capath=given.get("ssl_capath"))
        if "ssl_cert" in given:
            context.load_cert_chain(given["ssl_cert"], given.get("ssl_key"), given.get("ssl_key_password"))
    except OSError as error:
        raise _unreadable(url, error, "ssl_ca, ssl_cert and ssl_key") from None
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # the certificates that MySQL makes for itself lack extensions
    context.check_hostname = asked is Protection.FULL
    context.verify_mode = ssl.CERT_NONE if asked is Protection.UNVERIFIED else ssl.CERT_REQUIRED
    return {"ssl": context}
