"""TLS, SASL and rights of Kafka, on a broker that asks for them: what works, and how what does not is told."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from connectors.formats import RawFormat
from connectors.kafka.sink.place import Place
from connectors.kafka.sink.producer import TransactionalProducer
from connectors.kafka.sink.target import BATCH
from connectors.kafka.source import KafkaSource
from connectors.spec.security import KafkaSecurity
from integration_tests import topics
from integration_tests.harness import kafka_client, typed
from integration_tests.harness.command_line import CommandLine
from integration_tests.harness.cut_link import CutLink
from integration_tests.harness.drain import drain
from integration_tests.harness.pipeline import PARTITIONS
from integration_tests.harness.pipeline_process import child_environment
from integration_tests.services.kafka_secured import SecuredKafka
from integration_tests.test_kafka_sink import KafkaPipeline
from twophase.errors import SourceAccessError, SourceError, SpecError, TargetError
from twophase.values import StartingPoint

pytestmark = [pytest.mark.any_server]

_SECRET = "sesame-7-street"
_RECORDS = 1_200
_PATIENCE_S = 3.0
_SASL_HANDSHAKE = 17  # Kafka's number of the request


@dataclass(frozen=True, slots=True)
class Tenant:
    """A user of the broker with topics of its own: those of the docs under another name, for one test."""

    broker: SecuredKafka
    name: str
    folder: Path

    @property
    def security(self) -> dict[str, Any]:
        """Of a spec."""
        sasl = {"mechanism": "SCRAM-SHA-512", "username": self.name, "password": "${env:SECRET}"}
        return {"tls": {"ca": str(self.broker.ca)}, "sasl": sasl}

    def type_in(self, *blocks: str) -> None:
        """Commands of the docs, as an administrator."""
        kafka_client.install(self.folder / "bin")
        variables = {"KAFKA": self.broker.bootstrap, "SECRET": _SECRET}
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        script = "".join(blocks).replace("orders", self.name)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            env={**child_environment(variables), "PATH": path},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"


@pytest.fixture
def tenant(secured_kafka: SecuredKafka, tmp_path: Path) -> Iterator[Tenant]:
    made = Tenant(secured_kafka, f"t{secrets.token_hex(4)}", tmp_path)
    names = [made.name, f"{made.name}.big", f"{made.name}.bad"]
    for name in names:
        topics.create(secured_kafka.bootstrap, name, PARTITIONS, {})
    yield made
    topics.delete(secured_kafka.bootstrap, names)


def source(broker: SecuredKafka, topic: str, address: str, **security: Any) -> KafkaSource:
    """Of a spec with this `security`; patient for a moment only."""
    given = {"tls": {"ca": str(broker.ca)}, **security}
    properties = KafkaSecurity.model_validate(given).settings()
    return KafkaSource("s", address, (topic,), RawFormat(), properties=properties, connect_timeout_s=_PATIENCE_S)


def sasl(name: str, password: str = _SECRET, mechanism: str = "SCRAM-SHA-512") -> dict[str, Any]:
    return {"sasl": {"mechanism": mechanism, "username": name, "password": password}}


_USERS = 'kafka-configs --bootstrap-server "$KAFKA" --alter --entity-type users --entity-name orders '
_SCRAM_512 = f'{_USERS} --add-config "SCRAM-SHA-512=[password=$SECRET]"\n'
_SCRAM_256 = f'{_USERS} --add-config "SCRAM-SHA-256=[password=$SECRET]"\n'
_ANYBODY = (
    'kafka-acls --bootstrap-server "$KAFKA" --add --allow-principal "User:*" --operation Describe --operation Read '
    "--topic orders\n"
)


def test_ways_to_log_in(tenant: Tenant) -> None:
    """By each mechanism and by a certificate; and by another name of the host, where that is allowed on purpose."""
    tenant.type_in(_SCRAM_512, _SCRAM_256, _ANYBODY)
    broker, name = tenant.broker, tenant.name
    certificate, key = broker.client("orders")
    identity = {"ca": str(broker.ca), "certificate": str(certificate), "key": str(key)}
    ways: dict[str, tuple[str, dict[str, Any]]] = {
        "SCRAM-SHA-512": (broker.listener("TLS"), sasl(name)),
        "SCRAM-SHA-256": (broker.listener("TLS"), sasl(name, mechanism="SCRAM-SHA-256")),
        "PLAIN": (broker.listener("TLS"), sasl("orders", "orders-secret", "PLAIN")),
        "a certificate": (broker.listener("MUTUAL"), {"tls": identity}),
        "SCRAM without TLS": (broker.listener("CLEAR"), {"tls": {}, "encrypt": False, **sasl(name)}),
        "any host name": (
            broker.listener("TLS", "localhost"),
            {"tls": {"ca": str(broker.ca), "verify_host_name": False}, **sasl(name)},
        ),
    }
    for way, (address, security) in ways.items():
        found = source(broker, name, address, **security).starting_point(StartingPoint())
        assert len(found.positions) == PARTITIONS, way


_BY_SCRAM = sasl("orders")
_NO_TLS: dict[str, Any] = {"tls": {}, "encrypt": False, **_BY_SCRAM}
_FOREIGN: dict[str, Any] = {"tls": {"ca": "foreign"}, **_BY_SCRAM}
_REFUSED: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "a wrong password": ("TLS 127.0.0.1", sasl("orders", "wrong-one"), "invalid credentials", "security.sasl"),
    "a user that is not known": ("TLS 127.0.0.1", sasl("stranger"), "invalid credentials", "security.sasl"),
    "an unknown authority": (
        "TLS 127.0.0.1",
        {"tls": {"ca": "foreign"}, **sasl("orders")},
        "issuer",
        "security.tls.ca",
    ),
    "a wrong host name": ("TLS localhost", sasl("orders"), "Hostname mismatch", "advertised.listeners"),
    "an expired certificate": ("EXPIRED 127.0.0.1", sasl("orders"), "has expired", "renewed"),
    "no certificate": ("MUTUAL 127.0.0.1", {}, "alert", "security.tls.certificate"),
    "TLS where there is none": ("CLEAR 127.0.0.1", sasl("orders"), "speaks no TLS", "a listener with TLS"),
    "no TLS where there is": (
        "TLS 127.0.0.1",
        {"tls": {}, "encrypt": False, **sasl("orders")},
        "speaks TLS",
        "security",
    ),
}


@pytest.mark.parametrize("case", _REFUSED)
def test_what_brokers_refuse_is_told_and_not_tried_again(secured_kafka: SecuredKafka, case: str) -> None:
    at, security, problem, remedy = _REFUSED[case]
    listener, _, host = at.partition(" ")
    if security.get("tls") == {"ca": "foreign"}:
        security = {**security, "tls": {"ca": str(secured_kafka.foreign_ca)}}
    refused = source(secured_kafka, "orders", secured_kafka.listener(listener, host), **security)
    with pytest.raises(SourceAccessError) as failure:
        refused.starting_point(StartingPoint())
    assert problem in failure.value.message
    assert remedy in failure.value.remedy
    assert not failure.value.retriable
    with pytest.raises(TargetError) as error:
        TransactionalProducer(Place(refused.connection), "eos.orders.out.0", BATCH)
    assert problem in error.value.message
    assert remedy in error.value.remedy


def test_files_that_are_not_there(tmp_path: Path, secured_kafka: SecuredKafka) -> None:
    away = {"tls": {"ca": str(tmp_path / "gone.pem")}}
    with pytest.raises(SpecError, match=r"ssl.ca.location .*/gone.pem cannot be read on ") as failure:
        source(secured_kafka, "orders", secured_kafka.listener("TLS"), **away).starting_point(StartingPoint())
    assert "wherever tasks run" in failure.value.remedy


def test_a_login_that_is_cut_off_is_an_outage(secured_kafka: SecuredKafka) -> None:
    """As when a broker is killed in the middle of it: the client calls that a failed authentication."""
    host, _, port = secured_kafka.listener("CLEAR").partition(":")
    with CutLink(host, int(port), _SASL_HANDSHAKE) as link:
        security: dict[str, Any] = {"tls": {}, "encrypt": False, **sasl("orders")}
        cut = source(secured_kafka, "orders", f"127.0.0.1:{link.port}", **security)
        with pytest.raises(SourceError) as failure:
            cut.starting_point(StartingPoint())
    assert link.cut > 0
    assert failure.value.retriable, failure.value


@pytest.mark.timeout(600)
def test_a_pipeline_through_tls_with_the_rights_of_the_docs_and_no_others(tenant: Tenant, eos: CommandLine) -> None:
    """Source, sink and dead letters as one user; `eos doctor` finds all well, and nothing shows the password."""
    tenant.type_in(*typed.blocks("security.md", "Kafka's rights"))
    folder = tenant.folder / "pipeline"
    folder.mkdir()
    with KafkaPipeline(folder, tenant.broker.bootstrap, tenant.name, f"{tenant.name}.big") as pipeline:
        listener = tenant.broker.listener("TLS")
        shared = {"bootstrap_servers": listener, "security": tenant.security}
        pipeline.source.update(shared)
        pipeline.sink.update({**shared, "markers": f"{tenant.name}.markers"})
        pipeline.spec["dead_letter"] = {
            "connector": "kafka",
            **shared,
            "topic": f"{tenant.name}.bad",
            "markers": f"{tenant.name}.markers",
        }
        pipeline.environment["SECRET"] = _SECRET
        spec = str(pipeline.write_spec())
        found = eos.run(["doctor", spec, "--json"], pipeline.environment)
        assert found.code == 0, found.output
        pipeline.workload.produce(_RECORDS)
        pipeline.workload.produce_bad("no JSON")
        pipeline.catch_up()
        pipeline.assert_exact(at_least=_RECORDS)
        letters = drain(tenant.broker.bootstrap, f"{tenant.name}.bad")
        assert [letter.value for letter in letters] == [b"no JSON"]
        listed = eos.run(["dead-letters", "list", spec, "--json"], pipeline.environment)
        assert len(json.loads(listed.output)["dead_letters"]) == 1, listed.output
        shown = eos.run(["preview", spec], pipeline.environment)
        assert shown.code == 0, shown.output
        said = [found.output, listed.output, shown.output, *(each.output() for each in pipeline.processes)]
        kept = [path.read_text(errors="replace") for path in pipeline.location.rglob("*") if path.is_file()]
        assert not [text for text in [*said, *kept] if _SECRET in text]
