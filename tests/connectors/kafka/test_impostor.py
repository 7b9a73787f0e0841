"""An impostor at a broker's port gets no password and no token, and no record: whatever login it offers."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from connectors.formats.plain import RawFormat
from connectors.kafka.security import KafkaSecurity
from connectors.kafka.sink.place import Place
from connectors.kafka.sink.producer import TransactionalProducer
from connectors.kafka.sink.target import BATCH
from connectors.kafka.source import KafkaSource
from eos.errors import ConnectorError
from integration_tests.services.certificates import Authority
from integration_tests.services.tokens import CLIENT_SECRET, Signer, TokenServer
from tests.played.kafka_impostor import Heard, impostor
from twophase.values import StartingPoint

PASSWORD: Final = "sesame-7-street"
PATIENCE_S: Final = 3.0
SCRAM: Final = {"mechanism": "SCRAM-SHA-512", "username": "orders", "password": PASSWORD}
_SASL: Final = {17, 18, 36}


def read(address: str, security: dict[str, Any]) -> None:
    settings = KafkaSecurity.model_validate(security).settings()
    source = KafkaSource("s", address, ("orders",), RawFormat(), properties=settings, connect_timeout_s=PATIENCE_S)
    source.starting_point(StartingPoint())


def write(address: str, security: dict[str, Any]) -> None:
    settings = KafkaSecurity.model_validate(security).settings()
    source = KafkaSource("s", address, ("orders",), RawFormat(), properties=settings, connect_timeout_s=PATIENCE_S)
    TransactionalProducer(Place(source.connection), "eos.orders.out.0", BATCH)


WAYS: Final = pytest.mark.parametrize("way", [read, write])
Way = Callable[[str, dict[str, Any]], None]


def refused(way: Way, address: str, security: dict[str, Any], heard: Heard) -> ConnectorError:
    """The error, which ends the pipeline, and of which nobody learns the password."""
    with pytest.raises(ConnectorError) as failure:
        way(address, security)
    error = failure.value
    assert not error.retriable, error
    for secret in (PASSWORD, CLIENT_SECRET):
        assert secret not in f"{error.message}{error.remedy}{error!r}"
        assert secret.encode() not in heard.bytes
    assert set(heard.requests) <= _SASL, "it learns what the client wants to do"
    return error


def context(pair: Any) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(pair.certificate, pair.key)
    return made


@WAYS
def test_one_that_lets_everybody_in_does_not_prove_that_it_knows_the_password(way: Way) -> None:
    """It has the client's proof then, and can guess at it (docs/how-to/security.md)."""
    with impostor("SCRAM-SHA-512") as (address, heard):
        error = refused(way, address, {"encrypt": False, "sasl": SCRAM}, heard)
    assert "ServerSignature mismatch" in error.message
    assert "ours" not in error.message, "a guess could be held against ours, too"
    assert [login[:2] for login in heard.logins[:2]] == [b"n,", b"c="]


@WAYS
@pytest.mark.parametrize("offers", ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"])
def test_one_that_offers_another_login_gets_none(way: Way, offers: str) -> None:
    with impostor(offers) as (address, heard):
        error = refused(way, address, {"encrypt": False, "sasl": SCRAM}, heard)
    assert offers in error.message
    assert set(heard.mechanisms) == {"SCRAM-SHA-512"}
    assert heard.logins == []


@WAYS
@pytest.mark.parametrize("names", ["foreign", "of another host"])
def test_one_without_the_certificate_hears_nothing(way: Way, names: str, tmp_path: Path) -> None:
    """Whatever is written for its name, it is of another authority; or the authority's, for another name."""
    known, foreign = Authority(tmp_path / "known", "known"), Authority(tmp_path / "foreign", "foreign")
    pair = foreign.sign("broker", "127.0.0.1") if names == "foreign" else known.sign("broker", "kafka-1.example.com")
    with (
        TokenServer.made(tmp_path / "provider", Signer(tmp_path)) as provider,
        impostor("PLAIN", context(pair)) as (address, heard),
    ):
        token = {"mechanism": "OAUTHBEARER", "token_url": provider.url, "token_ca": str(provider.ca)}
        token |= {"client_id": "orders", "client_secret": CLIENT_SECRET}
        logins = [
            {"tls": {"ca": str(known.ca)}, "sasl": sasl} for sasl in (token, {**SCRAM, "mechanism": "PLAIN"}, SCRAM)
        ]
        with ThreadPoolExecutor(len(logins)) as threads:  # each waits out its patience
            list(threads.map(lambda security: refused(way, address, security, heard), logins))
        assert provider.requests, "there was a token that could have been told"
    assert heard.bytes == b""


@WAYS
def test_one_that_speaks_no_tls_hears_nothing_of_the_login(way: Way, tmp_path: Path) -> None:
    known = Authority(tmp_path, "known")
    for mechanism in ("PLAIN", "SCRAM-SHA-512"):
        with impostor(mechanism) as (address, heard):
            sasl = {**SCRAM, "mechanism": mechanism}
            error = refused(way, address, {"tls": {"ca": str(known.ca)}, "sasl": sasl}, heard)
        assert "TLS" in error.message
        assert b"orders" not in heard.bytes, "which versions it knows is all that it was asked"
