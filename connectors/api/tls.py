"""Protection of connections by TLS, in the words for it, and what URLs say about hosts. Imports no client."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

NO_FILES: Final = frozenset({"probe", "system", ""})
"""What may stand in the place of a path."""

_AUTHORITIES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Ubuntu, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt",  # Red Hat, Amazon
    "/etc/ssl/ca-bundle.pem",  # SUSE
    "/etc/ssl/cert.pem",  # macOS
)

Query = Mapping[str, str | tuple[str, ...]]


class Protection(Enum):
    """How a connection is protected, in the words for it."""

    FULL = "verified"
    LOCAL = "on this machine"  # nothing is said, and it does not leave it
    ANY_HOST = "host names are not verified: any holder of a certificate of the authority can impersonate the server"
    UNVERIFIED = "encrypted, but no certificate is verified: another server may pose as this one"
    NONE = "it may travel in plain text, and the server's identity is not verified"

    @property
    def is_open(self) -> bool:
        """Whether somebody on the way could read it, or pose as the server."""
        return self not in (Protection.FULL, Protection.LOCAL)


def is_local(host: str | None) -> bool:
    """Whether a connection to this host stays on this machine: loopback addresses, and sockets of files."""
    if not host or host.startswith(("/", "@")):
        return True
    name = host.strip("[]").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def machine_authorities() -> str | None:
    """The PEM file of the authorities that this machine trusts: librdkafka looks in Red Hat's place for it alone."""
    return next((path for path in _AUTHORITIES if Path(path).exists()), None)


def why_not_safe(url: str) -> str | None:
    """Why secrets should not be sent to this URL; None: it is https, with a host, and holds no secret itself."""
    try:
        parts = urlsplit(url)
    except ValueError:  # its text quotes the URL
        return "it is not a URL"
    if parts.scheme.lower() != "https" or not parts.hostname:
        return "a secret would be sent in plain text, or to an unverified server"
    return "a user name or a password does not stand in this URL" if "@" in parts.netloc else None


def stays(host: str | None, query: Query) -> bool:
    """Whether a URL leads to this machine: an option of it may name another host, or a file that does."""
    if any(name in query for name in ("service", "servicefile", "read_default_file", "read_default_group")):
        return False
    named = [query[name] for name in ("host", "hostaddr") if name in query]
    hosts = ",".join(value if isinstance(value, str) else ",".join(value) for value in named) or host or ""
    return all(map(is_local, hosts.split(",")))


def is_on(query: Query, key: str, *, default: bool) -> bool:
    """A switch among the options of a URL."""
    return str(query.get(key, default)).lower() in ("1", "true", "yes", "on")
