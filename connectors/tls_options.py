"""What URLs and settings say about TLS: which files it takes, and what it leaves open. Imports no client."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

KAFKA_FILES: Final = (
    *("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.keystore.location"),
    *("https.ca.location", "sasl.oauthbearer.assertion.private.key.file"),
)
"""Settings of librdkafka that name a file, which is read wherever the client runs."""

MYSQL_FILES: Final = ("ssl_ca", "ssl_capath", "ssl_cert", "ssl_key")
"""The same as options of a URL."""

POSTGRES_FILES: Final = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
"""The same as libpq calls them."""

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
    UNVERIFIED = "encrypted, but no certificate is verified: anybody may pose as the server"
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
    except ValueError as error:
        return f"it is no URL: {error}"
    if parts.scheme.lower() != "https" or not parts.hostname:
        return "a secret would be sent in plain text, or to an unverified server"
    return "a user name or a password does not stand in this URL" if "@" in parts.netloc else None


def of_mysql(host: str | None, query: Query) -> Protection:
    """Of a URL of MySQL or MariaDB: verified, host name included, unless it says otherwise in so many words."""
    wanted = is_on(query, "ssl", default=not _stays(host, query))
    if is_on(query, "ssl_disabled", default=False):
        return Protection.NONE
    if not wanted and not any(name in query for name in MYSQL_FILES):
        return Protection.NONE if "ssl" in query else Protection.LOCAL
    if not is_on(query, "ssl_verify_cert", default=True):
        return Protection.UNVERIFIED
    identity = is_on(query, "ssl_verify_identity", default=is_on(query, "ssl_check_hostname", default=True))
    return Protection.FULL if identity else Protection.ANY_HOST


def of_postgres(host: str | None, query: Query) -> Protection:
    """Of a URL of PostgreSQL: as its `sslmode` says; without one verified, unless it is on this machine."""
    modes = {"verify-full": Protection.FULL, "verify-ca": Protection.ANY_HOST, "require": Protection.UNVERIFIED}
    if "sslmode" in query:
        return modes.get(str(query["sslmode"]), Protection.NONE)
    asked = any(name in query for name in POSTGRES_FILES)
    return Protection.FULL if asked or not _stays(host, query) else Protection.LOCAL


def of_kafka(bootstrap_servers: str, settings: Mapping[str, str]) -> Protection:
    """Of librdkafka's settings."""
    if not is_encrypted(settings):
        hosts = [server.rpartition(":")[0] or server for server in bootstrap_servers.split(",")]
        return Protection.LOCAL if all(map(is_local, hosts)) else Protection.NONE
    if settings.get("enable.ssl.certificate.verification", "true").lower() in ("false", "0", "f"):
        return Protection.UNVERIFIED
    return Protection.FULL if verifies_hosts(settings) else Protection.ANY_HOST


def is_encrypted(settings: Mapping[str, str]) -> bool:
    """Whether a client with these settings of librdkafka's speaks TLS."""
    return settings.get("security.protocol", "plaintext").lower() in ("ssl", "sasl_ssl")


def verifies_hosts(settings: Mapping[str, str]) -> bool:
    """Whether such a client holds a broker's certificate against the name by which it was asked for."""
    return settings.get("ssl.endpoint.identification.algorithm", "https").lower() != "none"


def _stays(host: str | None, query: Query) -> bool:
    """Whether a URL leads to this machine: an option of it may name another host, or a file that does."""
    if any(name in query for name in ("service", "servicefile", "read_default_file", "read_default_group")):
        return False
    named = [query[name] for name in ("host", "hostaddr") if name in query]
    hosts = ",".join(value if isinstance(value, str) else ",".join(value) for value in named) or host or ""
    return all(map(is_local, hosts.split(",")))


def is_on(query: Query, key: str, *, default: bool) -> bool:
    """A switch among the options of a URL."""
    return str(query.get(key, default)).lower() in ("1", "true", "yes", "on")
