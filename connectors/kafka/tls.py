"""TLS of librdkafka's settings: the files that it reads, and the protection that it gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from connectors.api.tls import Protection, is_local

KAFKA_FILES: Final = (
    *("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.keystore.location"),
    *("https.ca.location", "sasl.oauthbearer.assertion.private.key.file"),
)
"""Settings of librdkafka that name a file, which is read wherever the client runs."""


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
