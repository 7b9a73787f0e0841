"""TLS, SASL and rights of Kafka, on a broker that asks for them: what works, and how what does not is told."""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from connectors.formats.plain import RawFormat
from connectors.kafka.pool import shared_admin
from connectors.kafka.security import KafkaSecurity
from connectors.kafka.sink.place import Place
from connectors.kafka.sink.producer import TransactionalProducer
from connectors.kafka.sink.target import BATCH, Topics, check_markers, check_timeout, in_sink_words
from connectors.kafka.source import KafkaSource
from eos.errors import SourceAccessError, SourceError, SpecError, TargetError
from integration_tests import topics
from integration_tests.harness import kafka_client, typed
from integration_tests.harness.command_line import CommandLine
from integration_tests.harness.cut_link import CutLink
from integration_tests.harness.drain import drain
from integration_tests.harness.pipeline import PARTITIONS
from integration_tests.harness.pipeline_process import child_environment
from integration_tests.harness.workload import Workload
from integration_tests.services.kafka_secured import SecuredKafka
from integration_tests.test_kafka_sink import KafkaPipeline
from twophase.values import OffsetRange, StartingPoint

pytestmark = [pytest.mark.any_server]

_SECRET = "sesame-7-street"
_RECORDS = 1_200
_PATIENCE_S = 2.0
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

    def grant(self, title: str) -> None:
        """A block of the docs."""
        self.type_in(typed.block("how-to/security.md", "Rights in Kafka", title))


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


def test_init_reads_a_topic_with_a_login(tenant: Tenant, eos: CommandLine, tmp_path: Path) -> None:
    """By SCRAM through TLS; without the keys of the login there is no answer. The spec runs without a change."""
    tenant.type_in(_SCRAM_512, _ANYBODY)
    broker, name = tenant.broker, tenant.name
    Workload(broker.bootstrap, name, PARTITIONS).produce(40)
    keys = [f"username={name}", "password=${env:SECRET}", "mechanism=SCRAM-SHA-512"]
    login = [word for key in keys for word in ("--set", f"security.sasl.{key}")]
    variables = {"KAFKA": broker.listener("TLS"), "SECRET": _SECRET, "DATABASE": str(tmp_path / "rows.db")}
    spec = tmp_path / "found.yaml"
    command = ["init", str(spec), "--from-topic", name, "--sink", "sqlite"]
    ended = eos.run([*command, "--set", f"security.tls.ca={broker.ca}", *login], variables)
    assert ended.code == 0, ended.output
    assert f"40 records of topic {name} are json: 3 columns" in ended.output
    assert _SECRET not in spec.read_text()
    ran = eos.run(["run", str(spec), "--until-caught-up"], variables)
    assert ran.code == 0, ran.output
    with closing(sqlite3.connect(tmp_path / "rows.db")) as database:
        assert database.execute(f'SELECT count(DISTINCT id) FROM "{name}"').fetchone() == (40,)
    wrong = eos.run(
        [*command[:1], str(tmp_path / "other.yaml"), *command[2:], *login], {**variables, "SECRET": "wrong"}
    )
    assert wrong.code != 0
    assert not (tmp_path / "other.yaml").exists()


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
    assert link.cuts > 0
    assert failure.value.retriable, failure.value


def test_rights_one_after_another(tenant: Tenant) -> None:
    """Each that is missing is told as such, and not tried again; with those of the docs none is."""
    tenant.grant("the administrator")
    broker, name = tenant.broker, tenant.name
    own = replace(source(broker, name, broker.listener("TLS"), **sasl(name)), group_id=f"{name}-lag")
    place = Place(own.connection, f"{name}.big", markers=f"{name}.markers")
    lines = typed.block("how-to/security.md", "Rights in Kafka", "a sink, or dead_letter").splitlines(keepends=True)[1:]
    describe = typed.block("how-to/security.md", "Rights in Kafka", "a source").replace("--operation Read ", "")
    Workload(broker.bootstrap, name, PARTITIONS).produce(10)

    def produce() -> None:
        producer = TransactionalProducer(place, f"eos.{name}.out.0", BATCH)
        producer.begin()
        producer.produce(lambda handle: handle.produce(f"{name}.big", b"{}"), 1, 2)
        producer.commit("marker", 1, {})
        producer.close()

    def markers() -> bool:
        with in_sink_words("markers"), shared_admin(own.connection) as admin:
            return check_markers(admin, place.markers)

    def timeout() -> None:
        with in_sink_words("timeout"), shared_admin(own.connection) as admin:
            check_timeout(admin, place)

    steps: list[tuple[Callable[[], object], Callable[[], None]]] = [
        (lambda: own.starting_point(StartingPoint()), lambda: tenant.type_in(describe)),
        (lambda: list(own.read([OffsetRange(f"{name}/0", 0, 5)])), lambda: tenant.grant("a source")),
        (lambda: own.commit_back({f"{name}/0": 5}), lambda: tenant.grant("a source with group_id")),
        (lambda: Topics.of_sink("out", place), lambda: tenant.type_in(lines[0])),
        (markers, lambda: tenant.type_in(lines[1])),
        (produce, lambda: tenant.type_in(lines[2])),
        (timeout, lambda: tenant.type_in(lines[3])),
    ]
    for number, (call, grant) in enumerate(steps):
        with pytest.raises((SourceAccessError, TargetError)) as failure:
            call()
        assert "authorization failed" in failure.value.message, number
        assert "docs/how-to/security.md" in failure.value.remedy, number
        grant()
        call()


@pytest.mark.in_turns
@pytest.mark.timeout(600)
def test_a_pipeline_through_tls_with_the_rights_of_the_docs_and_no_others(tenant: Tenant, eos: CommandLine) -> None:
    """Source, sink and dead letters as one user; `eos doctor` finds all well, and nothing shows the password."""
    for title in ("the administrator", "a source", "a sink, or dead_letter"):
        tenant.grant(title)
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
        refused = eos.run(["dead-letters", "list", spec], pipeline.environment)
        assert refused.code == 1
        assert "Topic authorization failed" in refused.output
        tenant.grant("eos dead-letters list")
        listed = eos.run(["dead-letters", "list", spec, "--json"], pipeline.environment)
        assert len(json.loads(listed.output)["dead_letters"]) == 1, listed.output
        tenant.grant("eos dead-letters replay")
        again = eos.run(["dead-letters", "replay", spec, "--all"], pipeline.environment)
        assert again.code == 0, again.output
        assert [each.value for each in drain(tenant.broker.bootstrap, tenant.name)].count(b"no JSON") == 2
        shown = eos.run(["preview", spec], pipeline.environment)
        assert shown.code == 0, shown.output
        pipeline.spec["transforms"][0]["sql"] = f"SELECT 1 AS id, value AS word, '' AS payload FROM text.`{spec}`"
        peeked = eos.run(["preview", str(pipeline.write_spec())], pipeline.environment)
        assert peeked.code != 0, "SQL has read a file of this machine"
        outputs = [each.output for each in (found, refused, listed, again, shown, peeked)]
        said = [*outputs, *(each.output() for each in pipeline.processes)]
        kept = [path.read_text(errors="replace") for path in pipeline.location.rglob("*") if path.is_file()]
        assert not [text for text in [*said, *kept] if _SECRET in text]
        assert pipeline.location.stat().st_mode & 0o077 == 0, "others may look into the checkpoint location"
