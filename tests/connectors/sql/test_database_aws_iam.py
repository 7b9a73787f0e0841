"""Logins to databases by tokens of AWS IAM, at servers that are played: see integration_tests/test_database_aws_iam.py
for a real one."""

from __future__ import annotations

import ssl
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from botocore.session import Session

from connectors.api.login import TokenLogin, token_login
from connectors.aws import AwsIdentity, rds_token
from connectors.spec import SpecMistakesError, load_spec
from connectors.sql.head import SqlHead
from connectors.sql.mysql.sink import MySqlSink
from connectors.sql.postgres.sink import PostgresSink
from eos.errors import HeadAccessError, SinkUnavailableError, TargetError
from integration_tests.services.aws_identities import REGION, Identity, Program
from integration_tests.services.certificates import Authority
from integration_tests.services.rds_tokens import why_refused
from spark_jobs.cli import run_command_line
from tests.played.impostor import Heard, impostor

_LOGIN = f"login=aws-iam&aws_region={REGION}"
_KINDS = {
    "mysql": ("mysql+pymysql", "mysql_clear_password", "ssl_ca"),
    "postgresql": ("postgresql+psycopg", "cleartext", "sslrootcert"),
}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"), "authority")


@pytest.fixture
def tls(authority: Authority) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pair = authority.sign("server", "127.0.0.1")
    context.load_cert_chain(pair.certificate, pair.key)
    return context


@pytest.fixture
def identity() -> Identity:
    return Identity("orders")


@pytest.fixture
def program(identity: Identity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    return Program(tmp_path / "program", identity, 3600).install(monkeypatch)


def open_sink(kind: str, url: str) -> None:
    sink = (MySqlSink if kind == "mysql" else PostgresSink)("out", url, "t")
    sink.open(pa.schema([("id", pa.int64())]))


def tokens(heard: Heard, begin: bytes) -> list[str]:
    """What came in the password's place."""
    found = [part[part.index(begin) :] for part in heard.parts if begin in part]
    return [part.rstrip(b"\0").decode() for part in found]


@pytest.mark.parametrize("kind", _KINDS)
def test_each_connection_has_a_token_of_its_own(
    kind: str, tls: ssl.SSLContext, authority: Authority, identity: Identity, program: Program
) -> None:
    """As a sink and as head; nothing of it is in the error with which this server refuses everyone."""
    scheme, asks, ca = _KINDS[kind]
    with impostor(kind, asks, tls) as (port, heard):
        url = f"{scheme}://ord%40ers@127.0.0.1:{port}/d?{_LOGIN}&{ca}={authority.ca}"
        server = f"127.0.0.1:{port}"
        for _ in range(2):
            with pytest.raises(TargetError) as failure:
                open_sink(kind, url)
            time.sleep(1.1)  # a token's time is in seconds
        assert len(set(tokens(heard, f"{server}/?".encode()))) >= 2
        with pytest.raises(HeadAccessError):
            SqlHead(url, "orders").read()
        found = tokens(heard, f"{server}/?".encode())
    assert len(set(found)) >= 3
    for token in found:
        assert why_refused(token, "ord@ers", server, REGION, {identity.key: identity}) == ""
        assert why_refused(token, "ord@ers", server, REGION, {identity.key: Identity("x", identity.key)}) != ""
        assert why_refused(token, "other", server, REGION, {identity.key: identity}) != ""
        assert why_refused(token, "ord@ers", "127.0.0.1:1", REGION, {identity.key: identity}) != ""
    assert "X-Amz" not in str(failure.value)
    assert program.calls == 1, "temporary credentials are kept"


@pytest.mark.parametrize("kind", _KINDS)
def test_a_machine_without_credentials_is_told(
    kind: str, tls: ssl.SSLContext, authority: Authority, program: Program
) -> None:
    scheme, asks, ca = _KINDS[kind]
    with impostor(kind, asks, tls) as (port, heard):
        url = f"{scheme}://u@127.0.0.1:{port}/d?{_LOGIN}&{ca}={authority.ca}"
        with pytest.raises(TargetError, match="could not be found") as failure:
            open_sink(kind, f"{url}&aws_profile=missing")
        assert "name a profile" in failure.value.remedy
        (program.config.parent / "identity").unlink()
        with pytest.raises(SinkUnavailableError, match="no credentials of AWS"):
            open_sink(kind, url)
        assert heard.connections == 0


def test_a_token_is_the_one_that_awss_own_tools_make(program: Program) -> None:
    lasting = AwsIdentity(REGION, None, "AKIA1", "secret")
    session = Session()
    session.set_credentials("AKIA1", "secret")
    client = session.create_client("rds", region_name=REGION)
    for _ in range(5):  # both in one second, at least once
        given = ("db.x1.eu-west-1.rds.amazonaws.com", 3306, "ord ers")
        own, theirs = rds_token(lasting, *given), client.generate_db_auth_token(*given)
        if own == theirs:
            return
    assert own == theirs


_HEAD = """\
pipeline: orders
checkpoint: {location: state, head: "%s"}
sources:
  - {name: s, connector: kafka, bootstrap_servers: "localhost:9092", topics: [t], format: {type: string}}
sinks:
  - {name: out, from: s, connector: sqlite, path: x.db, table: t, commit: write-ahead-log}
"""
_POSTGRES = "postgresql+psycopg://u@db.example.com/d"
_REFUSED = {
    f"{_POSTGRES}?login=aws-iam": "login=aws-iam without aws_region",
    f"{_POSTGRES}?aws_region=eu-west-1": "aws_region without login",
    f"{_POSTGRES}?login=kerberos": "'kerberos' is not a login by a token",
    f"sqlite:///x.db?{_LOGIN}": "'login of a sqlite URL' is not a login by a token",
    f"postgresql+psycopg://u:sesame@db.example.com/d?{_LOGIN}": "a password beside login",
    f"postgresql+psycopg://db.example.com/d?{_LOGIN}": "one user of one host",
    f"postgresql+psycopg://u@/d?host=db.example.com&{_LOGIN}": "one user of one host",
    f"{_POSTGRES}?{_LOGIN}&sslmode=require": "to a server that TLS does not verify",
    f"postgresql+psycopg://u@localhost/d?{_LOGIN}": "to a server that TLS does not verify",
    f"mysql+pymysql://u@db.example.com/d?{_LOGIN}&ssl_disabled=true": "to a server that TLS does not verify",
    f"mysql+pymysql://u@db.x.us-east-2.rds.amazonaws.com/d?{_LOGIN}": "aws_region=eu-west-1 for a server in us-east-2",
}


@pytest.mark.parametrize("url", _REFUSED)
def test_what_does_not_go_together_is_refused(url: str, tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(_HEAD % url)
    with pytest.raises(SpecMistakesError) as failure:
        load_spec(tmp_path / "spec.yaml", {})
    assert _REFUSED[url] in str(failure.value)
    assert "checkpoint.head" in str(failure.value)
    assert "sesame" not in str(failure.value)


def test_what_a_url_means(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    url = f"mysql+pymysql://ord%40ers@db.x.eu-west-1.rds.amazonaws.com/d?{_LOGIN}&aws_profile=orders"
    identity = AwsIdentity(REGION, "orders")
    assert token_login(url) == TokenLogin(identity, "db.x.eu-west-1.rds.amazonaws.com", 3306, "ord@ers")
    assert token_login(f"{_POSTGRES}?sslmode=verify-full") is None
    (tmp_path / "spec.yaml").write_text(_HEAD % url)
    assert load_spec(tmp_path / "spec.yaml", {}).extras == {"aws"}
    assert run_command_line(["validate", str(tmp_path / "spec.yaml")]) == 0
    assert "What is not protected" not in capsys.readouterr().out
