"""Logging in by a token of an identity provider (KIP-768), at a broker that verifies it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from ruamel.yaml import YAML

from connectors.formats.plain import RawFormat
from connectors.kafka.security import KafkaSecurity
from connectors.kafka.sink.place import Place
from connectors.kafka.sink.producer import TransactionalProducer
from connectors.kafka.sink.target import BATCH
from connectors.kafka.source import KafkaSource
from eos.errors import SourceAccessError, SourceError, TargetError
from integration_tests import topics
from integration_tests.harness import kafka_client
from integration_tests.harness.http_proxy import HttpProxy
from integration_tests.services.kafka_secured import SecuredKafka
from integration_tests.services.tokens import CLIENT_SECRET, TokenServer
from twophase.values import OffsetRange, StartingPoint

pytestmark = [pytest.mark.any_server]

_TOPIC = f"by-token-{secrets.token_hex(4)}"


@pytest.fixture(scope="module")
def topic(secured_kafka: SecuredKafka) -> Iterator[str]:
    topics.create(secured_kafka.bootstrap, _TOPIC, 1, {})
    yield _TOPIC
    topics.delete(secured_kafka.bootstrap, [_TOPIC])


@pytest.fixture
def provider(secured_kafka: SecuredKafka, tmp_path: Path) -> Iterator[TokenServer]:
    with TokenServer.made(tmp_path, secured_kafka.signer) as made:
        yield made


def source(broker: SecuredKafka, provider: TokenServer, **login: Any) -> KafkaSource:
    sasl = {
        "mechanism": "OAUTHBEARER",
        "token_url": provider.url,
        "token_ca": str(provider.ca),
        "client_id": "orders",
        "client_secret": CLIENT_SECRET,
        **login,
    }
    security = KafkaSecurity.model_validate({"tls": {"ca": str(broker.ca)}, "sasl": sasl})
    return KafkaSource(
        "s", broker.listener("TOKEN"), (_TOPIC,), RawFormat(), properties=security.settings(), connect_timeout_s=5.0
    )


@pytest.fixture
def granted(secured_kafka: SecuredKafka, topic: str) -> str:
    """A topic that the client `orders` may read and write."""
    kafka_client.grant(secured_kafka.bootstrap, "User:orders", topic)
    return topic


def test_a_token_is_a_login(secured_kafka: SecuredKafka, provider: TokenServer, granted: str) -> None:
    """Of every kind of client; the broker knows who it is by the token."""
    reader = source(secured_kafka, provider, scope="kafka")
    place = Place(reader.connection, granted, markers=granted)
    producer = TransactionalProducer(place, "eos.by-token.0", BATCH)
    producer.begin()
    producer.produce(lambda handle: handle.produce(granted, b"one"), 1, 3)
    producer.commit("marker", 0, {})
    producer.close()
    assert reader.starting_point(StartingPoint()).positions == {f"{granted}/0": 0}
    read = [row for batch in reader.read([OffsetRange(f"{granted}/0", 0, 3)]) for row in batch.to_pylist()]
    assert [row["value"] for row in read] == [b"one", b"{}"]
    asked = {"client": "orders", "grant_type": "client_credentials", "scope": "kafka"}
    assert provider.requests == [asked] * len(provider.requests) != []
    with pytest.raises(SourceAccessError, match="authorization failed"):
        source(secured_kafka, provider, client_id="stranger").starting_point(StartingPoint())


def test_a_token_is_fetched_anew_before_it_ends(
    secured_kafka: SecuredKafka, provider: TokenServer, granted: str
) -> None:
    """Brokers end a connection with its token (KIP-368)."""
    provider.life_s = 10
    reader = source(secured_kafka, provider, scope=f"for {granted}")  # a connection that no other test has open
    began = time.monotonic()
    answers = 0
    while time.monotonic() - began < 2.5 * provider.life_s:
        assert reader.starting_point(StartingPoint()).positions == {f"{granted}/0": 0}
        answers += 1
        time.sleep(0.5)
    assert answers > 10
    assert 3 <= len(provider.requests) < answers


def _documented(title: str) -> dict[str, Any]:
    """The login of a service in docs/how-to/security.md."""
    page = (Path(__file__).parents[1] / "docs" / "how-to" / "security.md").read_text()
    block = page.partition(f"**{title}**")[2].partition("```yaml\n")[2].partition("```")[0]
    (entry,) = YAML(typ="safe").load(block)["sources"]
    sasl: dict[str, Any] = entry["security"]["sasl"]
    return sasl


@pytest.mark.parametrize("service", ["Azure Event Hubs", "Confluent Cloud"])
def test_what_the_docs_write_for_a_service_is_a_login(
    secured_kafka: SecuredKafka, provider: TokenServer, topic: str, service: str
) -> None:
    """With this test's own endpoint and secret in the place of theirs."""
    documented = _documented(service)
    kafka_client.grant(secured_kafka.bootstrap, f"User:{documented['client_id']}", topic)
    ours = {"token_url": provider.url, "client_secret": CLIENT_SECRET}
    reader = source(secured_kafka, provider, **{**documented, **ours})
    assert reader.starting_point(StartingPoint()).positions == {f"{topic}/0": 0}
    form = {"grant_type": "client_credentials", "client": documented["client_id"], "scope": documented["scope"]}
    assert provider.requests[0] == form


def test_what_the_docs_write_for_google_cloud_is_a_login(secured_kafka: SecuredKafka, topic: str) -> None:
    documented = _documented("Google Cloud Managed Service for Apache Kafka")
    assert documented["mechanism"] == "PLAIN"
    kafka_client.grant(secured_kafka.bootstrap, "User:orders", topic)
    sasl = {**documented, "username": "orders", "password": "orders-secret"}
    security = KafkaSecurity.model_validate({"tls": {"ca": str(secured_kafka.ca)}, "sasl": sasl})
    servers = secured_kafka.listener("TLS")
    reader = KafkaSource("plain", servers, (topic,), RawFormat(), properties=security.settings(), connect_timeout_s=5.0)
    assert reader.starting_point(StartingPoint()).positions == {f"{topic}/0": 0}


def test_a_token_is_fetched_through_the_proxy_of_the_environment(
    secured_kafka: SecuredKafka, provider: TokenServer, granted: str, http_proxy: HttpProxy
) -> None:
    """The brokers are not: Kafka's protocol is none that a proxy carries."""
    reader = source(secured_kafka, provider, scope=f"through a proxy for {granted}")
    assert reader.starting_point(StartingPoint()).positions == {f"{granted}/0": 0}
    assert set(http_proxy.asked) == {urlsplit(provider.url).netloc}
    assert len(provider.requests) >= 1


_REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "a wrong secret": ({"client_secret": "wrong-one"}, "invalid_client", "client_secret"),
    "an unknown authority": ({"token_ca": "foreign"}, "certificate", "token_ca"),
}


@pytest.mark.parametrize("case", _REFUSED)
def test_a_provider_that_refuses_is_told_and_not_tried_again(
    secured_kafka: SecuredKafka, provider: TokenServer, case: str
) -> None:
    login, problem, remedy = _REFUSED[case]
    if "token_ca" in login:
        login = {"token_ca": str(secured_kafka.foreign_ca)}
    refused = source(secured_kafka, provider, **login)
    with pytest.raises(SourceAccessError) as failure:
        refused.starting_point(StartingPoint())
    with pytest.raises(TargetError) as error:
        TransactionalProducer(Place(refused.connection), "eos.by-token.0", BATCH)
    for each in (failure.value, error.value):
        assert problem in each.message
        assert remedy in each.remedy
        assert "wrong-one" not in str(each)


def test_a_token_that_the_broker_does_not_take(secured_kafka: SecuredKafka, provider: TokenServer) -> None:
    provider.audience = "another cluster"
    with pytest.raises(SourceAccessError, match="invalid_token") as failure:
        source(secured_kafka, provider).starting_point(StartingPoint())
    assert "the brokers know the identity provider" in failure.value.remedy


@pytest.mark.parametrize("case", ["no server there", "no such host", "an error of the server"])
def test_a_provider_that_is_away_is_an_outage(secured_kafka: SecuredKafka, provider: TokenServer, case: str) -> None:
    login: dict[str, Any] = {}
    if case == "an error of the server":
        provider.refuses = HTTPStatus.SERVICE_UNAVAILABLE
    else:
        login = {"token_url": f"https://{'127.0.0.1:1' if case == 'no server there' else 'nowhere.invalid'}/token"}
    with pytest.raises(SourceError) as failure:
        source(secured_kafka, provider, **login).starting_point(StartingPoint())
    assert failure.value.retriable, failure.value
