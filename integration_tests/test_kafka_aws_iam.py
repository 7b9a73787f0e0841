"""Logging in by AWS IAM, as to Amazon MSK, at a broker that verifies the signature of each token."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connectors.formats.plain import RawFormat
from connectors.kafka.pool import shared_admin
from connectors.kafka.security import KafkaSecurity
from connectors.kafka.sink.place import Place
from connectors.kafka.sink.producer import TransactionalProducer
from connectors.kafka.sink.target import BATCH
from connectors.kafka.source import KafkaSource
from connectors.kafka.splits import as_offset
from eos.errors import SinkUnavailableError, SourceAccessError, SourceError, TargetError
from integration_tests import topics
from integration_tests.harness import kafka_client
from integration_tests.harness.drain import drain
from integration_tests.harness.pipeline import PARTITIONS
from integration_tests.services.aws_identities import REGION, Identity, Program, remove_credentials
from integration_tests.services.kafka_secured import SecuredKafka
from integration_tests.test_kafka_sink import KafkaPipeline
from twophase.values import OffsetRange, StartingPoint

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns, pytest.mark.xdist_group("aws-identities")]

_TOPIC = f"by-aws-{secrets.token_hex(4)}"
_LIFE_S = 8
_LONGER_S = 30


@pytest.fixture(scope="module")
def granted(secured_kafka: SecuredKafka) -> Iterator[str]:
    """A topic that the principal `orders` may read and write."""
    topics.create(secured_kafka.bootstrap, _TOPIC, 1, {})
    kafka_client.grant(secured_kafka.bootstrap, "User:orders", _TOPIC)
    yield _TOPIC
    topics.delete(secured_kafka.bootstrap, [_TOPIC])


@pytest.fixture
def identity(secured_kafka: SecuredKafka) -> Iterator[Identity]:
    yield secured_kafka.identities.add(Identity("orders"))
    secured_kafka.identities.clear()


@pytest.fixture
def nothing_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without credentials of AWS."""
    remove_credentials(monkeypatch, tmp_path)


@pytest.fixture
def program(tmp_path: Path, identity: Identity, nothing_here: None, monkeypatch: pytest.MonkeyPatch) -> Program:
    """The machine's default chain leads to a program whose credentials end after some seconds."""
    return Program(tmp_path / "program", identity, _LIFE_S).install(monkeypatch)


def keys(identity: Identity) -> dict[str, str]:
    return {"access_key_id": identity.key, "secret_access_key": identity.secret}


def source(broker: SecuredKafka, group: str = "s", **login: Any) -> KafkaSource:
    """`group`: clients of another one are no others' of this process."""
    sasl = {"mechanism": "AWS_MSK_IAM", "region": REGION, **login}
    security = KafkaSecurity.model_validate({"tls": {"ca": str(broker.ca)}, "sasl": sasl})
    properties = security.settings()
    return KafkaSource(
        group, broker.listener("AWS"), (_TOPIC,), RawFormat(), properties=properties, connect_timeout_s=5.0
    )


def send(place: Place, records: int) -> TransactionalProducer:
    """Begin a transaction with so many records."""
    producer = TransactionalProducer(place, "eos.by-aws.0", BATCH)
    producer.begin()
    for _ in range(records):
        producer.produce(lambda handle: handle.produce(_TOPIC, b"one"), 1, 3)
    return producer


def values(source: KafkaSource, start: int, end: int) -> list[bytes]:
    batches = source.read([OffsetRange(f"{_TOPIC}/0", start, end)])
    return [row["value"] for batch in batches for row in batch.to_pylist()]


def end_of(source: KafkaSource) -> int:
    return as_offset(source.horizon(StartingPoint({f"{_TOPIC}/0": 0})).ends[f"{_TOPIC}/0"])


def await_end(source: KafkaSource, end: int) -> None:
    """A commit is acknowledged before readers see it."""
    deadline = time.monotonic() + 30
    while end_of(source) < end:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert end_of(source) == end


@pytest.mark.parametrize("by", ["keys", "variables", "profile"])
def test_a_signed_token_is_a_login(
    secured_kafka: SecuredKafka,
    granted: str,
    identity: Identity,
    nothing_here: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    by: str,
) -> None:
    """Of every kind of client; the broker knows by the signature who it is."""
    login = {"keys": keys(identity), "variables": {}, "profile": {"profile": "orders"}}[by]
    if by == "variables":
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", identity.key)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", identity.secret)
    elif by == "profile":
        lines = f"[orders]\naws_access_key_id = {identity.key}\naws_secret_access_key = {identity.secret}\n"
        (tmp_path / "credentials").write_text(lines)
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    reader = source(secured_kafka, by, **login)
    before = end_of(reader)
    producer = send(Place(reader.connection, granted, markers=granted), 3)
    producer.commit("marker", 0, {})
    producer.close()
    await_end(reader, before + 5)  # three records, the marker, and the transaction's end
    assert values(reader, before, before + 5) == [b"one", b"one", b"one", b"{}"]
    assert [finding.ok for finding in reader.check()] == [True, True]


def test_tokens_are_signed_again_before_they_end(secured_kafka: SecuredKafka, granted: str, program: Program) -> None:
    """Brokers end a connection with its token (KIP-368). In a transaction that is longer than three of them, too, in
    which nothing polls the client, and for an admin client, which nothing ever polls."""
    reader = source(secured_kafka, "renewed")
    before = end_of(reader)
    producer = send(Place(reader.connection, granted, markers=granted), 2)
    first = program.calls
    began = time.monotonic()
    answers = 0
    while time.monotonic() - began < 3.5 * _LIFE_S:
        assert end_of(reader) >= before
        answers += 1
        time.sleep(0.5)
    producer.produce(lambda handle: handle.produce(granted, b"two"), 1, 3)
    producer.commit("marker", 0, {})
    producer.close()
    assert answers > 10
    assert 6 <= program.calls - first < answers, "each of two clients signs one in 80 % of a token's time"
    await_end(reader, before + 5)
    assert values(reader, before, before + 5) == [b"one", b"one", b"two", b"{}"]


def test_a_connection_whose_role_has_a_new_session_is_made_again(
    secured_kafka: SecuredKafka, granted: str, program: Program
) -> None:
    """Kafka refuses a connection that logs in again as somebody else, as a role's new credentials may be."""
    kafka_client.grant(secured_kafka.bootstrap, "User:orders-2", _TOPIC)
    reader = source(secured_kafka, "rotated")
    assert end_of(reader) >= 0
    program.use(secured_kafka.identities.add(Identity("orders-2")))
    began = time.monotonic()
    failures, answers = [], 0
    while time.monotonic() - began < 2 * _LIFE_S:
        try:
            assert end_of(reader) >= 0
            answers += 1
        except SourceError as error:
            failures.append(error)
        time.sleep(0.3)
    assert answers > 5
    assert all(each.retriable for each in failures), failures
    secured_kafka.identities.clear()
    secured_kafka.identities.add(Identity("orders-2"))


def both_refused(refused: KafkaSource) -> list[SourceAccessError | TargetError]:
    """What a source and a sink say."""
    with pytest.raises(SourceAccessError) as failure:
        refused.starting_point(StartingPoint())
    with pytest.raises(TargetError) as error:
        TransactionalProducer(Place(refused.connection), "eos.by-aws.0", BATCH)
    return [failure.value, error.value]


_REFUSED: dict[str, tuple[dict[str, str], str, str]] = {
    "a foreign key": ({"access_key_id": "AKIAFOREIGN"}, "no identity has the key AKIAFOREIGN", "kafka-cluster:Connect"),
    "a wrong secret": ({"secret_access_key": "wrong-one"}, "the signature is not this identity's", "region"),
    "another region": ({"region": "eu-central-1"}, "the token is for another region", "region"),
}


@pytest.mark.parametrize("case", _REFUSED)
def test_a_token_that_is_refused_is_told_and_not_tried_again(
    secured_kafka: SecuredKafka, granted: str, identity: Identity, nothing_here: None, case: str
) -> None:
    other, problem, remedy = _REFUSED[case]
    for error in both_refused(source(secured_kafka, **{**keys(identity), **other})):
        assert problem in error.message
        assert remedy in error.remedy
        assert "wrong-one" not in str(error)
        assert identity.secret not in str(error)


def test_a_token_that_has_expired_is_refused(
    secured_kafka: SecuredKafka,
    granted: str,
    identity: Identity,
    nothing_here: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Though this machine takes it for a good one."""
    late = Program(tmp_path / "late", identity, -5, told_s=60)
    for name, value in late.environment.items():
        monkeypatch.setenv(name, value)
    for error in both_refused(source(secured_kafka, "late")):
        assert "the token has expired" in error.message
        assert "the clock is right" in error.remedy


def test_a_machine_without_credentials_is_told_at_once(
    secured_kafka: SecuredKafka, granted: str, nothing_here: None
) -> None:
    began = time.monotonic()
    for error in both_refused(source(secured_kafka, "none")):
        assert "give no credentials of AWS" in error.message
        assert "name a profile" in error.remedy
    for error in both_refused(source(secured_kafka, profile="missing")):
        assert "The config profile (missing) could not be found" in error.message
    assert time.monotonic() - began < 5
    (finding,) = source(secured_kafka, "none").check()
    assert (finding.ok, "give no credentials" in finding.detail) == (False, True)


def test_a_program_that_gives_no_credentials_is_an_outage(
    secured_kafka: SecuredKafka, granted: str, program: Program
) -> None:
    (program.config.parent / "identity").unlink()
    failing = source(secured_kafka, "failing")
    with pytest.raises(SourceError, match="credential") as failure:
        failing.starting_point(StartingPoint())
    assert failure.value.retriable
    with pytest.raises(SinkUnavailableError, match="credential"):
        TransactionalProducer(Place(failing.connection), "eos.by-aws.0", BATCH)


def test_a_broker_with_too_many_logins_is_an_outage(
    secured_kafka: SecuredKafka, granted: str, identity: Identity, nothing_here: None
) -> None:
    """Amazon MSK takes so many a second."""
    secured_kafka.identities.refuse("Too many connects")
    busy = source(secured_kafka, "busy", **keys(identity))
    with pytest.raises(SourceError, match="no answer") as failure:
        busy.starting_point(StartingPoint())
    assert failure.value.retriable
    secured_kafka.identities.clear()
    secured_kafka.identities.add(identity)
    assert end_of(busy) >= 0


def test_the_clients_of_a_process_share_no_secret_with_its_settings(
    secured_kafka: SecuredKafka, granted: str, identity: Identity, nothing_here: None
) -> None:
    reader = source(secured_kafka, "shown", **keys(identity))
    with shared_admin(reader.connection) as admin:
        assert identity.secret not in repr(admin) + repr(reader) + repr(reader.connection.aws)
    assert reader.connection.hide(f"x {identity.secret} y") == "x *** y"


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("_first_run")
def test_a_pipeline_by_credentials_that_end_while_it_runs(
    secured_kafka: SecuredKafka, granted: str, identity: Identity, tmp_path: Path
) -> None:
    """Source, sink and dead letters, on the driver and in Spark's tasks, longer than two of its tokens."""
    program = Program(tmp_path / "program", identity, _LONGER_S)
    target, letters = f"{_TOPIC}-out", f"{_TOPIC}-bad"
    for name in (target, letters):
        topics.create(secured_kafka.bootstrap, name, 2, {})
    folder = tmp_path / "pipeline"
    folder.mkdir()
    incoming = f"{_TOPIC}-in"
    kafka_client.grant_settings(secured_kafka.bootstrap, "User:orders")
    topics.create(secured_kafka.bootstrap, incoming, PARTITIONS, {})
    with KafkaPipeline(folder, secured_kafka.bootstrap, incoming, target) as pipeline:
        sasl = {"mechanism": "AWS_MSK_IAM", "region": REGION}
        security = {"tls": {"ca": str(secured_kafka.ca)}, "sasl": sasl}
        shared = {"bootstrap_servers": secured_kafka.listener("AWS"), "security": security}
        pipeline.source.update({**shared, "on_bad_record": "dead-letter"})
        pipeline.sink.update(shared)
        pipeline.spec["dead_letter"] = {"connector": "kafka", **shared, "topic": letters}
        pipeline.environment |= program.environment
        pipeline.workload.produce_bad("no JSON")
        running = pipeline.start(until_caught_up=False)
        began = time.monotonic()
        pipeline.workload.produce(100)
        while pipeline.verdict().in_sink < 100:
            assert time.monotonic() - began < 300, running.output()
            time.sleep(1)
        began = time.monotonic()
        records = 100
        while time.monotonic() - began < 2.2 * _LONGER_S:
            assert running.exit_code is None, running.output()
            pipeline.workload.produce(100)
            records += 100
            time.sleep(2)
        pipeline.command("stop").succeed()
        running.succeed()
        pipeline.catch_up()
        pipeline.assert_exact(at_least=records)
        assert [letter.value for letter in drain(secured_kafka.bootstrap, letters)] == [b"no JSON"]
        assert program.calls > 8
        kept = [path.read_text(errors="replace") for path in pipeline.location.rglob("*") if path.is_file()]
        shown = re.compile(rf"until-\d{{9}}|X-Amz-Signature|{identity.secret}")
        assert not [text for text in [running.output(), *kept] if shown.search(text)]
    topics.delete(secured_kafka.bootstrap, [incoming, target, letters])
