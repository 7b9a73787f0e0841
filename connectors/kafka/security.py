"""`security` of a Kafka entry: TLS and SASL in the spec's words, turned into librdkafka's settings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from connectors.api.fields import BootstrapServers, LocalPath, NonEmpty
from connectors.api.model import Strict, wrong
from connectors.api.tls import NO_FILES, Protection, machine_authorities, why_not_safe
from connectors.aws import AwsIdentity
from connectors.kafka.settings import KAFKA_FILES, of_kafka

_OURS: Final = ("security.protocol", "sasl.", "ssl.", "enable.ssl.", "https.")
"""Settings that `security` writes, by how they begin."""

_TELLING: Final = {
    "PLAIN": "PLAIN would send the password",
    "OAUTHBEARER": "OAUTHBEARER would send the token",
    "AWS_MSK_IAM": "AWS_MSK_IAM would send the token",
}
"""Mechanisms that need encryption: what they would tell whoever listens."""

_PORT: Final = 9092
_MSK_HOST: Final = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com")
"""A broker of Amazon MSK, with its region."""


class Tls(Strict):
    """`security: {tls: …}`. Its files must be under these paths wherever tasks run."""

    ca: LocalPath | None = None
    """PEM file of the authorities that the brokers' certificates must come from; without it those of the machine."""
    certificate: LocalPath | None = None
    """PEM file of the client's own certificate, where brokers ask for one."""
    key: LocalPath | None = None
    """PEM file of the certificate's private key."""
    key_password: NonEmpty | None = None
    """Of the key's file; best as `${env:NAME}`."""
    verify_host_name: bool = True
    """`false`: any certificate of the authority will do, whatever host it is for: another server may pose as a
    broker."""

    @model_validator(mode="after")
    def _certificate_with_its_key(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            there, missing = ("key", "certificate") if self.certificate is None else ("certificate", "key")
            raise wrong(f"{there} without {missing}", "both, or neither", at=there)
        if self.key_password is not None and self.key is None:
            raise wrong("key_password without key", "key: client.key", at="key_password")
        return self

    def settings(self) -> dict[str, str]:
        """librdkafka's."""
        found = {
            "ssl.ca.location": self.ca,
            "ssl.certificate.location": self.certificate,
            "ssl.key.location": self.key,
            "ssl.key.password": self.key_password,
        }
        algorithm = "https" if self.verify_host_name else "none"
        given = {name: str(value) for name, value in found.items() if value is not None}
        return {**given, "ssl.endpoint.identification.algorithm": algorithm}


class Sasl(Strict):
    """`security: {sasl: …}`: who the client says that it is."""

    mechanism: Literal["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"] = "SCRAM-SHA-512"
    """With SCRAM the password itself never travels."""
    username: NonEmpty
    """The principal is `User:` and this."""
    password: NonEmpty
    """Best as `${env:NAME}` or `${file:/run/secrets/name}`."""

    def settings(self) -> dict[str, str]:
        """librdkafka's. Contains the password."""
        return {
            "sasl.mechanism": self.mechanism,
            "sasl.username": self.username,
            "sasl.password": self.password,
        }


class Oidc(Strict):
    """`security: {sasl: {mechanism: OAUTHBEARER, …}}`: who the client is, a token says that it fetches (KIP-768).

    By the grant for client credentials (RFC 6749, 4.4). librdkafka fetches the token, and the next one in time.
    """

    mechanism: Literal["OAUTHBEARER"]
    token_url: NonEmpty
    """Of the identity provider's token endpoint; https."""
    client_id: NonEmpty
    """By which the provider knows the client; brokers see whom the token names."""
    client_secret: NonEmpty
    """Best as `${env:NAME}` or `${file:/run/secrets/name}`."""
    scope: NonEmpty | None = None
    """What the token is asked for, where the provider wants to know."""
    extensions: dict[str, str] = Field(default_factory=dict)
    """What brokers are told beside the token (KIP-342), as `logicalCluster` and `identityPoolId`."""
    token_ca: LocalPath | None = None
    """PEM file of the authorities that the token endpoint's certificate must come from; without it those of the
    machine."""

    @model_validator(mode="after")
    def _can_be_sent(self) -> Self:
        if why := why_not_safe(self.token_url):
            raise wrong(why, "https://…", at="token_url")
        for name, value in self.extensions.items():
            if not name.isalpha() or "," in value or not value.isprintable():
                raise wrong(f"'{name}' has a character that cannot be sent", "logicalCluster: lkc-1", at="extensions")
        return self

    def settings(self) -> dict[str, str]:
        """librdkafka's. Contains the secret."""
        given = {
            "sasl.oauthbearer.token.endpoint.url": self.token_url,
            "sasl.oauthbearer.client.id": self.client_id,
            "sasl.oauthbearer.client.secret": self.client_secret,
            "sasl.oauthbearer.scope": self.scope,
            "sasl.oauthbearer.extensions": ",".join(f"{name}={value}" for name, value in self.extensions.items()),
            "https.ca.location": self.token_ca or machine_authorities(),
        }
        found = {name: str(value) for name, value in given.items() if value}
        return {"sasl.mechanism": self.mechanism, "sasl.oauthbearer.method": "oidc", **found}


def _region(value: str) -> str:
    if not re.fullmatch(r"[a-z]{2}(-[a-z]+)+-\d", value):
        raise wrong(f"'{value}' is not a region of AWS", "eu-west-1")
    return value


def _one_word(value: str) -> str:
    if not value or len(value.split()) != 1:
        raise wrong("it is empty, or has a blank in it", "without blanks")
    return value


OneWord = Annotated[str, AfterValidator(_one_word)]


class AwsIam(Strict):
    """`security: {sasl: {mechanism: AWS_MSK_IAM, …}}`: the client is an identity of AWS, as Amazon MSK knows it.

    Whatever logs in signs a token with the credentials of its own machine (AWS's default chain), and the next one in
    time. Needs the extra `aws`.
    """

    mechanism: Literal["AWS_MSK_IAM"]
    region: Annotated[str, AfterValidator(_region)]
    """The cluster's, such as `eu-west-1`."""
    profile: OneWord | None = None
    """Of the files in `~/.aws` wherever tasks run; it may name a role to assume. Without it and without keys: the role
    of the machine or container, variables, or the default profile."""
    access_key_id: OneWord | None = None
    """With `secret_access_key`: an IAM user's own keys."""
    secret_access_key: OneWord | None = None
    """Best as `${env:NAME}` or `${file:/run/secrets/name}`."""

    @model_validator(mode="after")
    def _credentials_of_one_kind(self) -> Self:
        keys = {"access_key_id": self.access_key_id, "secret_access_key": self.secret_access_key}
        given = [name for name, value in keys.items() if value is not None]
        if len(given) == 1:
            (missing,) = keys.keys() - given
            raise wrong(f"{given[0]} without {missing}", "both, or neither", at=given[0])
        if given and self.profile is not None:
            raise wrong("keys beside a profile, which names credentials too", "one of the two", at="profile")
        return self

    def settings(self) -> dict[str, str]:
        """librdkafka's; the callback for tokens reads the second. Contains the secret."""
        identity = AwsIdentity(self.region, self.profile, self.access_key_id, self.secret_access_key)
        return {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.config": identity.text}


_TOKENS: Final = {"OAUTHBEARER": "token", "AWS_MSK_IAM": "aws"}


def _login_of(given: object) -> str:
    """Which of the three a login is, before it is read."""
    mechanism = given.get("mechanism") if isinstance(given, dict) else getattr(given, "mechanism", None)
    return _TOKENS.get(str(mechanism), "password")


Login = Annotated[
    Annotated[Sasl, Tag("password")] | Annotated[Oidc, Tag("token")] | Annotated[AwsIam, Tag("aws")],
    Discriminator(_login_of),
]


class KafkaSecurity(Strict):
    """`security` of a Kafka source or sink. Encrypted and verified unless it says otherwise in so many words."""

    encrypt: bool = True
    """`false`: records travel in plain text, and only `sasl` is left."""
    tls: Tls = Tls()
    """How brokers prove who they are, and the client by a certificate."""
    sasl: Login | None = None
    """How the client proves who it is, if not by a certificate."""

    @model_validator(mode="after")
    def _tells_nothing_in_plain_text(self) -> Self:
        if not self.encrypt and self.tls != Tls():
            raise wrong("tls where nothing is encrypted", "encrypt: true", at="tls")
        if not self.encrypt and self.sasl is None:
            raise wrong("nothing is encrypted, and no side proves its identity", "no `security` at all", at="encrypt")
        if not self.encrypt and self.sasl is not None and self.sasl.mechanism in _TELLING:
            what = _TELLING[self.sasl.mechanism]
            raise wrong(f"{what} in plain text", "SCRAM-SHA-512", "encrypt: true", at="encrypt")
        return self

    def settings(self) -> dict[str, str]:
        """librdkafka's. Contains passwords."""
        protocol = ("sasl_" if self.sasl else "") + ("ssl" if self.encrypt else "plaintext")
        tls = self.tls.settings() if self.encrypt else {}
        return {"security.protocol": protocol, **tls, **(self.sasl.settings() if self.sasl else {})}


class Secured(Strict):
    """What entries of a cluster have in common: how its clients are secured, and librdkafka's settings."""

    bootstrap_servers: BootstrapServers
    """`host:port`, or several with commas."""
    security: KafkaSecurity | None = None
    """TLS and SASL. Without it the client speaks as `properties` say, in plain text if they say nothing."""
    properties: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _secured_in_one_place(self) -> Self:
        twice = next((name for name in self.properties if name.startswith(_OURS)), None)
        if self.security is not None and twice is not None:
            raise wrong(f"'{twice}' beside `security`, which says the same", "one of the two", at="security")
        return self

    @model_validator(mode="after")
    def _region_of_the_cluster(self) -> Self:
        login = self.security.sasl if self.security is not None else None
        found = _MSK_HOST.search(self.bootstrap_servers)
        if isinstance(login, AwsIam) and found and found[1] != login.region:
            raise wrong(f"region {login.region} for brokers in {found[1]}", f"region: {found[1]}", at="security")
        return self

    @property
    def extras(self) -> frozenset[str]:
        """Of `eos-spark`, which the client needs wherever it runs."""
        login = self.security.sasl if self.security is not None else None
        return frozenset({"aws"} if isinstance(login, AwsIam) else ())

    @property
    def client_properties(self) -> dict[str, str]:
        """All settings of librdkafka that the entry gives. Contains passwords."""
        return {**self.properties, **(self.security.settings() if self.security else {})}

    @property
    def cluster(self) -> str:
        """The namespace of its topics by OpenLineage's rules for names."""
        return f"kafka://{self.bootstrap_servers.partition(',')[0].strip()}"

    @property
    def brokers(self) -> list[tuple[str, int]]:
        """Host and port of each broker that the spec names."""
        parts = [urlsplit(f"//{broker}") for broker in self.bootstrap_servers.split(",")]
        return [(part.hostname, part.port or _PORT) for part in parts if part.hostname]

    @property
    def files(self) -> list[Path]:
        """Files that the client reads wherever it runs: here and on each worker."""
        settings = self.client_properties
        named = [settings[name] for name in KAFKA_FILES if name in settings]
        return [Path(name) for name in named if name not in NO_FILES]

    @property
    def protection(self) -> Protection:
        """Of the way to the brokers, whichever of the two says it."""
        return of_kafka(self.bootstrap_servers, self.client_properties)
