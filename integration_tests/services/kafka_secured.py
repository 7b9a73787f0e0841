"""A broker with TLS, SASL and an authorizer, as a process of this machine: started by the first test that asks for it.

Its certificate is for 127.0.0.1 and for no other name of this machine, so that `localhost` is a wrong host name.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from integration_tests.services.aws_identities import REGION, Identities
from integration_tests.services.certificates import Authority
from integration_tests.services.kafka_native import KafkaNative, Listener, Own
from integration_tests.services.processes import ServerProcess
from integration_tests.services.readiness import await_kafka
from integration_tests.services.single import SingleServer
from integration_tests.services.state import data_folder, free_port, tail
from integration_tests.services.tokens import AUDIENCE, ISSUER, Signer

_PROTOCOLS: Final = {
    "TLS": "SASL_SSL",
    "CLEAR": "SASL_PLAINTEXT",
    "MUTUAL": "SSL",
    "EXPIRED": "SASL_SSL",
    "TOKEN": "SASL_SSL",  # by OAUTHBEARER alone
    "AWS": "SASL_SSL",  # by tokens of AWS IAM alone, as Amazon MSK
    "IPV6": "PLAINTEXT",
}
_HOSTS: Final = {"IPV6": "[::1]"}  # not 127.0.0.1
_USERS: Final = {"orders": "orders-secret", "nobody": "nobody-secret"}
"""Of PLAIN; those of SCRAM are made by whoever needs them."""

# Whoever comes by the plain listener may do everything: that is the broker itself, and the tests.
_SETTINGS: Final = """\
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
allow.everyone.if.no.acl.found=false
ssl.keystore.type=PEM
ssl.truststore.type=PEM
ssl.keystore.location={folder}/server.pem
ssl.truststore.location={folder}/authority.pem
ssl.client.auth=none
listener.name.mutual.ssl.client.auth=required
listener.name.expired.ssl.keystore.type=PEM
listener.name.expired.ssl.keystore.location={folder}/server-expired.pem
sasl.enabled.mechanisms=SCRAM-SHA-512,SCRAM-SHA-256,PLAIN
"""
_TOKENS: Final = """\
sasl.oauthbearer.jwks.endpoint.url={jwks}
sasl.oauthbearer.expected.audience={audience}
sasl.oauthbearer.expected.issuer={issuer}
listener.name.token.sasl.enabled.mechanisms=OAUTHBEARER
listener.name.token.oauthbearer.connections.max.reauth.ms=600000
listener.name.token.oauthbearer.sasl.jaas.config={modules}oauthbearer.OAuthBearerLoginModule required;
listener.name.token.oauthbearer.sasl.server.callback.handler.class={modules}oauthbearer.OAuthBearerValidatorCallbackHandler
"""
_AWS: Final = """\
listener.name.aws.sasl.enabled.mechanisms=OAUTHBEARER
listener.name.aws.oauthbearer.connections.max.reauth.ms=600000
listener.name.aws.oauthbearer.sasl.jaas.config={modules}oauthbearer.OAuthBearerLoginModule required;
listener.name.aws.oauthbearer.sasl.server.callback.handler.class=eos.tests.AwsIamHandler
"""
_PLAIN: Final = "listener.name.{listener}.plain.sasl.jaas.config={module} required {users};\n"
_SCRAM: Final = "listener.name.{listener}.{mechanism}.sasl.jaas.config={module} required;\n"
_MODULES: Final = "org.apache.kafka.common.security."


class SecuredKafka(SingleServer):
    """See SingleServer."""

    kind = "kafka-secured"

    @property
    def bootstrap(self) -> str:
        """Where everything is allowed, in plain text: for the tests' own hands."""
        return f"127.0.0.1:{self._ports()['PLAINTEXT']}"

    def listener(self, name: str, host: str | None = None) -> str:
        """Where it listens under one of the names of `_PROTOCOLS`."""
        return f"{host or _HOSTS.get(name, '127.0.0.1')}:{self._ports()[name]}"

    @property
    def ca(self) -> Path:
        """Of its authority."""
        return self._folder / "authority.pem"

    @property
    def foreign_ca(self) -> Path:
        """Of another one."""
        return self._folder / "foreign.pem"

    def client(self, principal: str) -> tuple[Path, Path]:
        """Certificate and key of a client."""
        return self._folder / f"{principal}.crt", self._folder / f"{principal}.key"

    @property
    def signer(self) -> Signer:
        """Of the tokens that it takes at TOKEN."""
        return Signer(self._folder)

    @property
    def identities(self) -> Identities:
        """Of AWS, that it takes tokens of at AWS."""
        return Identities(self._folder / "identities.properties")

    def _start(self) -> ServerProcess:
        self._make_certificates()
        self.identities.clear()
        return self._broker().start()

    def _await(self) -> None:
        await_kafka(self.bootstrap, lambda: None if self.running() else tail(self._broker().log))

    def _clear(self) -> None:
        shutil.rmtree(self._data, ignore_errors=True)

    @property
    def _data(self) -> Path:
        return data_folder() / self.kind

    @property
    def _folder(self) -> Path:
        return self._data / "certificates"

    def _make_certificates(self) -> None:
        authority = Authority(self._folder, "authority")
        Authority(self._folder, "foreign")
        authority.sign("server", "127.0.0.1")
        authority.sign("server", "127.0.0.1", expired=True)
        authority.sign("orders", mode=0o600)
        Signer(self._folder)

    def _broker(self) -> KafkaNative:
        ports = self._ports()
        listeners = {
            name: Listener(ports[name], protocol, host=_HOSTS.get(name, "127.0.0.1"))
            for name, protocol in _PROTOCOLS.items()
        }
        settings = _SETTINGS.format(folder=self._folder)
        users = " ".join(f'user_{name}="{password}"' for name, password in _USERS.items())
        for name in ("tls", "clear", "expired"):
            settings += _PLAIN.format(listener=name, module=f"{_MODULES}plain.PlainLoginModule", users=users)
            for mechanism in ("scram-sha-256", "scram-sha-512"):
                module = f"{_MODULES}scram.ScramLoginModule"
                settings += _SCRAM.format(listener=name, mechanism=mechanism, module=module)
        jwks = self.signer.jwks.as_uri()
        settings += _TOKENS.format(jwks=jwks, audience=AUDIENCE, issuer=ISSUER, modules=_MODULES)
        settings += _AWS.format(modules=_MODULES)
        classes = {"AwsIamHandler": self._data / "classes"}
        java = (
            f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={jwks}",
            f"-Deos.identities={self.identities.path}",
            f"-Deos.region={REGION}",
        )
        own = Own(listeners, settings, java=java, classes=classes)
        return KafkaNative(self._state, self._data, ports["PLAINTEXT"], ports["CONTROLLER"], own)

    def _ports(self) -> dict[str, int]:
        state = self._state.load()
        if "ports" not in state:
            first = int(os.environ.get("EOS_NATIVE_SECURED_KAFKA_PORT", "19193"))
            names = ("PLAINTEXT", "CONTROLLER", *_PROTOCOLS)
            state["ports"] = {name: free_port(first + index) for index, name in enumerate(names)}
            self._state.save(state)
        ports: dict[str, int] = state["ports"]
        return ports
