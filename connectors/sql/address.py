"""What a URL of MySQL or MariaDB says: where the server is, how its certificate is checked, and what nobody may see."""

from __future__ import annotations

import ssl
from typing import Any, Final

from sqlalchemy import URL
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from twophase.errors import SpecError

_CONNECT_TIMEOUT_S: Final = 10
_NETWORK_TIMEOUT_S: Final = 120  # longer than any statement of ours may take; a vanished server is noticed by it
_TLS: Final = ("ssl_ca", "ssl_capath", "ssl_cert", "ssl_key", "ssl_key_password")
_TLS_SWITCHES: Final = ("ssl", "ssl_verify_cert", "ssl_verify_identity", "ssl_check_hostname", "ssl_disabled")


def masked(url: str) -> str:
    """The URL for messages: user and password left out, and the options too, which may hold a key's password."""
    parsed = parse(url)
    host = f"{parsed.host or 'localhost'}:{parsed.port or 3306}"
    return f"{host}/{parsed.database}" if parsed.database else host


def parse(url: str) -> URL:
    """The parts of a URL. Raises SpecError without repeating it: it holds a password."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        message = "the sink's url is not of the form mysql+pymysql://user:password@host:3306/database"
        raise SpecError(message, remedy="write special characters of the password as %xx") from None
    if parsed.get_backend_name() not in ("mysql", "mariadb"):
        message = f"the sink's url begins with {parsed.drivername!r}, which is neither MySQL nor MariaDB"
        raise SpecError(message, remedy="begin it with mysql+pymysql://")
    return parsed.set(drivername="mysql+pymysql")


def is_verified(url: str) -> bool:
    """Whether the server must prove who it is. Where the URL asks for no TLS the driver takes it if it is offered."""
    return bool(getattr(_tls(parse(url)).get("ssl"), "verify_mode", ssl.CERT_NONE) == ssl.CERT_REQUIRED)


def connect_arguments(url: str) -> tuple[URL, dict[str, object]]:
    """What SQLAlchemy is given for a URL of ours: the URL without TLS options, and the driver's arguments."""
    parsed = parse(url)
    arguments: dict[str, object] = {
        "charset": "utf8mb4",
        "connect_timeout": _CONNECT_TIMEOUT_S,
        "read_timeout": _NETWORK_TIMEOUT_S,
        "write_timeout": _NETWORK_TIMEOUT_S,
        **_tls(parsed),
    }
    if parsed.password is not None:
        # As bytes: the driver encodes text as Latin-1 and would show the password in the error for other characters.
        arguments["password"] = str(parsed.password).encode()
    return parsed.difference_update_query([*_TLS, *_TLS_SWITCHES]), arguments


def _tls(url: URL) -> dict[str, object]:
    """The driver's TLS arguments: verified, host name included, unless the URL says otherwise in so many words."""
    query = url.query
    if _switch(query, "ssl_disabled", default=False):
        return {"ssl_disabled": True}
    given = {key: str(query[key]) for key in _TLS if key in query}
    if not given and not _switch(query, "ssl", default=False):
        return {}
    try:
        context = ssl.create_default_context(cafile=given.get("ssl_ca"), capath=given.get("ssl_capath"))
        if "ssl_cert" in given:
            context.load_cert_chain(given["ssl_cert"], given.get("ssl_key"), given.get("ssl_key_password"))
    except OSError as error:
        message = f"the TLS files of the url of {url.host} cannot be read: {error.strerror or type(error).__name__}"
        raise SpecError(message, remedy="check ssl_ca, ssl_cert and ssl_key") from None
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # the certificates that MySQL makes for itself lack extensions
    identity = _switch(query, "ssl_verify_identity", default=_switch(query, "ssl_check_hostname", default=True))
    verify = _switch(query, "ssl_verify_cert", default=True)
    context.check_hostname = verify and identity
    context.verify_mode = ssl.CERT_REQUIRED if verify else ssl.CERT_NONE
    return {"ssl": context}


def _switch(query: Any, key: str, *, default: bool) -> bool:
    value = str(query.get(key, default)).lower()
    return value in ("1", "true", "yes", "on")
