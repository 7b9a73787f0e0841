"""Settings of the Kafka client: from eos, from the user, the settings that a user may not set, and TLS."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from connectors.api.tls import NO_FILES, Protection, is_local, why_not_safe
from connectors.aws import AwsIdentity
from eos.errors import SpecError

_POSITIONS_ARE_OURS: Final = "positions are kept with the checkpoints, and given to Kafka for lag tools only"
REFUSED: Final[Mapping[str, str]] = {
    "bootstrap.servers": "write it as bootstrap_servers",
    "metadata.broker.list": "write it as bootstrap_servers",
    "group.id": "write it as group_id",
    "isolation.level": "write it as isolation_level",
    "auto.offset.reset": "write starting_offsets; a range that no longer exists is always an error",
    "enable.auto.commit": _POSITIONS_ARE_OURS,
    "auto.commit.enable": _POSITIONS_ARE_OURS,
    "enable.auto.offset.store": _POSITIONS_ARE_OURS,
    "enable.partition.eof": "the end of a range is recognised by it",
    "allow.auto.create.topics": "reading never creates a topic",
}
"""Settings of librdkafka that are not the user's to set, each with what to do instead."""

_CALLBACK: Final = re.compile(
    r"_cb$|^on_|^logger$|^plugin\.library\.paths$|^ssl\.(engine|providers)|^partitioner|^default\.topic\.config$"
    r"|\.cmd$"  # sasl.kerberos.kinit.cmd: the client has a shell run it
)
_TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"
_TOKEN_CONFIG: Final = "sasl.oauthbearer.config"
_SECRET: Final = re.compile(r"password|secret|token|jaas|\.pem$|oauthbearer\.config", re.IGNORECASE)

_SIGNATURES: Final = re.compile(r" \(server's \S* != ours \S*\)")
"""Ours is made of the password, and what it is made with the server has chosen."""

SILENCE_MS: Final = 20_000
"""A connection on which nothing is answered for so long is made anew: within the time for which a reader is patient."""

_TUNING: Final[Mapping[str, str | int]] = {
    # The client goes on behind the end of a range, and what it has fetched there is fetched again by the next task: as
    # little ahead as keeps a reader busy, 1 MiB at a time. The second bounds large records.
    "queued.min.messages": 20_000,
    "queued.max.messages.kbytes": 32 * 1024,
    # By default a broker holds back an empty answer for 500 ms, and the next range read over the connection waits for
    # it; and a full queue stops fetching for 1,000 ms. Both cost more than the reading.
    "fetch.wait.max.ms": 10,
    "fetch.queue.backoff.ms": 10,
    "reconnect.backoff.max.ms": 2_000,
    "socket.timeout.ms": SILENCE_MS,
}
KAFKA_FILES: Final = (
    *("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.keystore.location"),
    *("https.ca.location", "sasl.oauthbearer.assertion.private.key.file"),
)
"""Settings of librdkafka that name a file, which is read wherever the client runs."""


@dataclass(frozen=True, slots=True)
class Connection:
    """How to reach a cluster and how patient to be. The key of pools; its repr shows no property's value."""

    bootstrap_servers: str
    group_id: str
    isolation_level: str = "read_committed"
    properties: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    connect_timeout_s: float = 15.0  # for each question to the cluster
    read_timeout_s: float = 60.0  # without any progress in reading a range

    def consumer(self) -> dict[str, str | int | bool]:
        """Settings of a consumer that is told which offsets to read and keeps no positions."""
        return {
            **_TUNING,
            **dict(self.properties),
            "bootstrap.servers": self.bootstrap_servers,
            "group.id": self.group_id,
            "isolation.level": self.isolation_level,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "allow.auto.create.topics": False,
        }

    def admin(self) -> dict[str, str | int | bool]:
        """Settings of a client that asks and reads nothing."""
        return {**dict(self.properties), "bootstrap.servers": self.bootstrap_servers}

    @property
    def aws(self) -> AwsIdentity | None:
        """Who logs in by AWS IAM; None: the client logs in as its settings say."""
        return aws_of(dict(self.properties))

    def hide(self, text: str) -> str:
        """Take the values of secret properties, and what a password can be guessed by, out of a client's message."""
        if (aws := self.aws) is not None and aws.secret_access_key:
            text = text.replace(aws.secret_access_key, "***")
        for name, value in self.properties:
            if value and _SECRET.search(name):
                text = text.replace(value, "***")
        return _SIGNATURES.sub("", text)

    def refused(self, told: str) -> tuple[str, str]:
        """What is wrong with the settings, and what to do, where the client refuses them with these words."""
        for name, value in self.properties:
            if name in KAFKA_FILES and (reason := _why_unreadable(value)):
                message = f"{name} {value} cannot be read on {socket.gethostname()}: {reason}"
                return message, "the file must lie under this path wherever tasks run, readable by who runs them"
        remedy = "see librdkafka's CONFIGURATION.md for names and values; of certificates: PEM, with the key's password"
        return f"librdkafka refuses a setting: {self.hide(told.strip())}", remedy


def _why_unreadable(path: str) -> str:
    if path in NO_FILES:
        return ""
    try:
        Path(path).open("rb").close()
    except OSError as error:
        return error.strerror or type(error).__name__
    return ""


def aws_of(properties: Mapping[str, object]) -> AwsIdentity | None:
    """Return who logs in by AWS IAM, as `security` or the user writes it. Raises SpecError for half a login."""
    return AwsIdentity.of_text(str(properties.get(_TOKEN_CONFIG, "")))


def check_properties(properties: Mapping[str, object], refused: Mapping[str, str] = REFUSED) -> None:
    """Refuse, as SpecError by its name, a property that would override what correctness rests on, or that is unsafe."""
    for name in properties:
        if name in refused:
            raise SpecError(f"properties: {name} may not be set: {refused[name]}", remedy=f"remove {name}")
        if _CALLBACK.search(name):
            raise SpecError(f"properties: {name} takes code, which a spec cannot give", remedy=f"remove {name}")
    if _TOKEN_URL in properties and (why := why_not_safe(str(properties[_TOKEN_URL]))):
        raise SpecError(
            f"properties: {_TOKEN_URL}: {why}", remedy="give an https:// URL; security.sasl takes it as token_url"
        )
    if aws_of(properties) is not None and not is_encrypted({k: str(v) for k, v in properties.items()}):
        message = f"properties: {_TOKEN_CONFIG}: the token of a login by AWS IAM would be sent in plain text"
        raise SpecError(message, remedy="set security.protocol to SASL_SSL, or write it as `security`")


def of_kafka(bootstrap_servers: str, settings: Mapping[str, str]) -> Protection:
    """Return the protection that settings of librdkafka give."""
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
