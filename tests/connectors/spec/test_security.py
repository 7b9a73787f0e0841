"""`security` of Kafka entries, what a spec leaves open on the way, and that no password of it is shown."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from connectors.api.tls import machine_authorities
from connectors.aws import AwsIdentity
from connectors.kafka.settings import aws_of
from connectors.spec import SpecMistakesError, exposures, load_spec
from connectors.spec.spec import Spec
from spark_jobs.cli import run_command_line
from spark_jobs.page.reading import effective
from tests.connectors.spec.entries import kafka_source

_SPEC = """\
pipeline: orders
checkpoint: {location: state%(head)s}
sources:
  - name: s
    connector: kafka
    bootstrap_servers: %(servers)s
    topics: [t]
    format: {type: string}
    %(security)s
sinks:
  - {name: out, from: s, connector: %(sink)s}
"""
_FILE = "sqlite, path: x.db, table: t, commit: write-ahead-log"
_SCRAM = "sasl: {username: orders, password: hunter22}"
_AWS = "mechanism: AWS_MSK_IAM, region: eu-west-1"
_TOKEN = "mechanism: OAUTHBEARER, client_id: orders, client_secret: hunter22, token_url"


def load(
    tmp_path: Path, security: str = "", servers: str = "k.example.com:9093", sink: str = _FILE, head: str = ""
) -> Spec:
    path = tmp_path / "spec.yaml"
    path.write_text(_SPEC % {"security": security, "servers": servers, "sink": sink, "head": head})
    return load_spec(path, {})


def settings(spec: Spec) -> dict[str, str]:
    return kafka_source(spec).client_properties


def test_tls_and_scram_are_what_security_means(tmp_path: Path) -> None:
    spec = load(tmp_path, f"security: {{tls: {{ca: certs/ca.pem}}, {_SCRAM}}}")
    assert settings(spec) == {
        "security.protocol": "sasl_ssl",
        "ssl.ca.location": str(tmp_path / "certs" / "ca.pem"),
        "ssl.endpoint.identification.algorithm": "https",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "orders",
        "sasl.password": "hunter22",
    }
    assert exposures(spec) == []


def test_a_token_is_fetched_with_the_clients_secret(tmp_path: Path) -> None:
    given = "scope: kafka, extensions: {logicalCluster: lkc-1, identityPoolId: pool-2}, token_ca: certs/id.pem"
    spec = load(tmp_path, f'security: {{sasl: {{{_TOKEN}: "https://id.example.com/token", {given}}}}}')
    assert settings(spec) == {
        "security.protocol": "sasl_ssl",
        "ssl.endpoint.identification.algorithm": "https",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": "https://id.example.com/token",
        "sasl.oauthbearer.client.id": "orders",
        "sasl.oauthbearer.client.secret": "hunter22",
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=pool-2",
        "https.ca.location": str(tmp_path / "certs" / "id.pem"),
    }
    assert spec.sources[0].files == [tmp_path / "certs" / "id.pem"]
    plain = load(tmp_path, f'security: {{sasl: {{{_TOKEN}: "https://id.example.com/token"}}}}')
    assert settings(plain).get("https.ca.location") == machine_authorities()
    assert exposures(spec) == []
    assert "hunter22" not in str(effective(spec))


def test_a_login_by_aws_iam_is_a_setting_for_the_callback(tmp_path: Path) -> None:
    keys = "access_key_id: AKIA1, secret_access_key: hunter22"
    spec = load(tmp_path, f"security: {{sasl: {{{_AWS}, {keys}}}}}")
    assert settings(spec) == {
        "security.protocol": "sasl_ssl",
        "ssl.endpoint.identification.algorithm": "https",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.config": "aws_msk_iam region=eu-west-1 key=AKIA1 secret=hunter22",
    }
    assert aws_of(settings(spec)) == AwsIdentity("eu-west-1", None, "AKIA1", "hunter22")
    assert spec.extras == {"aws"}
    assert exposures(spec) == []
    for shown in (str(effective(spec)), repr(spec), spec.text, spec.mask(str(settings(spec)))):
        assert "hunter22" not in shown
    chain = load(tmp_path, f"security: {{sasl: {{{_AWS}, profile: orders}}}}")
    assert aws_of(settings(chain)) == AwsIdentity("eu-west-1", "orders")
    assert load(tmp_path, "security: {}").extras == frozenset()


def test_validate_names_the_extra_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    load(tmp_path, f"security: {{sasl: {{{_AWS}}}}}")
    assert run_command_line(["validate", str(tmp_path / "spec.yaml")]) == 0
    monkeypatch.setattr("connectors.extras.find_spec", lambda name: None if name == "botocore" else find_spec(name))
    assert run_command_line(["validate", str(tmp_path / "spec.yaml")]) == 2
    shown = " ".join(capsys.readouterr().err.split())
    assert "lacks: botocore" in shown
    assert "pip install 'eos-spark[aws]'" in shown


@pytest.mark.parametrize(
    ("security", "protocol"),
    [
        ("security: {}", "ssl"),
        (f"security: {{{_SCRAM}}}", "sasl_ssl"),
        ("security: {tls: {certificate: c.crt, key: c.key, key_password: locked-up}}", "ssl"),
        (f"security: {{encrypt: false, {_SCRAM}}}", "sasl_plaintext"),
        ("security: {sasl: {mechanism: PLAIN, username: u, password: hunter22}}", "sasl_ssl"),
    ],
)
def test_protocols(tmp_path: Path, security: str, protocol: str) -> None:
    assert settings(load(tmp_path, security))["security.protocol"] == protocol


@pytest.mark.parametrize(
    ("security", "found"),
    [
        ("security: {encrypt: false}", "nothing is encrypted, and no side proves its identity"),
        (f"security: {{encrypt: false, tls: {{ca: x}}, {_SCRAM}}}", "tls where nothing is encrypted"),
        ("security: {encrypt: false, sasl: {mechanism: PLAIN, username: u, password: hunter22}}", "in plain text"),
        (
            f"security: {{encrypt: false, sasl: {{{_TOKEN}: 'https://i/t'}}}}",
            "OAUTHBEARER would send the token",
        ),
        (f"security: {{sasl: {{{_TOKEN}: 'http://i/t'}}}}", "a secret would be sent in plain text"),
        (f"security: {{sasl: {{{_TOKEN}: 'https://u:hunter22@i/t'}}}}", "does not stand in this URL"),
        (f"security: {{sasl: {{{_TOKEN}: 'https://i/t', username: u}}}}", "unknown key 'username'"),
        (f"security: {{sasl: {{{_TOKEN}: 'https://i/t', extensions: {{a: 'b,c=d'}}}}}}", "that cannot be sent"),
        ("security: {sasl: {mechanism: OAUTHBEARER, client_id: orders}}", "missing key"),
        (f"security: {{encrypt: false, sasl: {{{_AWS}}}}}", "AWS_MSK_IAM would send the token"),
        ("security: {sasl: {mechanism: AWS_MSK_IAM}}", "missing key 'region'"),
        ("security: {sasl: {mechanism: AWS_MSK_IAM, region: Ireland}}", "'Ireland' is not a region of AWS"),
        (f"security: {{sasl: {{{_AWS}, username: u, password: hunter22}}}}", "unknown key 'username'"),
        (f"security: {{sasl: {{{_AWS}, profile: 'a b'}}}}", "has a blank in it"),
        (f"security: {{sasl: {{{_AWS}, secret_access_key: hunter22}}}}", "secret_access_key without access_key_id"),
        (f"security: {{sasl: {{{_AWS}, access_key_id: a}}}}", "access_key_id without secret_access_key"),
        (
            f"security: {{sasl: {{{_AWS}, access_key_id: a, secret_access_key: hunter22, profile: p}}}}",
            "keys beside a profile",
        ),
        ("security: {tls: {certificate: c.crt}}", "certificate without key"),
        ("security: {tls: {key: c.key}}", "key without certificate"),
        ("security: {tls: {key_password: locked-up}}", "key_password without key"),
        ("security: {sasl: {mechanism: GSSAPI, username: u, password: hunter22}}", "wrong value: 'GSSAPI'"),
        ("security: {sasl: {username: u}}", "missing key 'password'"),
        ("security: {tls: {verify: false}}", "unknown key 'verify'"),
        (f"security: {{{_SCRAM}}}\n    properties: {{sasl.mechanism: PLAIN}}", "'sasl.mechanism' beside `security`"),
        ("security: {}\n    properties: {ssl.ca.location: x}", "'ssl.ca.location' beside `security`"),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path: Path, security: str, found: str) -> None:
    with pytest.raises(SpecMistakesError) as failure:
        load(tmp_path, security)
    assert found in str(failure.value)
    assert "hunter22" not in str(failure.value)


def test_the_region_of_the_brokers_names(tmp_path: Path) -> None:
    login = f"security: {{sasl: {{{_AWS}}}}}"
    servers = "b-1.c.x1.c2.kafka.%s.amazonaws.com:9098,b-2.c.x1.c2.kafka.%s.amazonaws.com:9098"
    assert load(tmp_path, login, servers % ("eu-west-1", "eu-west-1")).sources
    with pytest.raises(SpecMistakesError) as failure:
        load(tmp_path, login, servers % ("eu-central-1", "eu-central-1"))
    assert "region eu-west-1 for brokers in eu-central-1" in str(failure.value)


_OPEN: dict[str, dict[str, Any]] = {
    "plain text": {},
    "without TLS": {"security": f"security: {{encrypt: false, {_SCRAM}}}"},
    "any host": {"security": "security: {tls: {verify_host_name: false}}"},
    "any host, on this machine": {
        "security": "security: {tls: {verify_host_name: false}}",
        "servers": "localhost:9093",
    },
    "any host by properties": {
        "security": "properties: {security.protocol: ssl, ssl.endpoint.identification.algorithm: none}"
    },
    "any certificate": {"security": "properties: {security.protocol: SSL, enable.ssl.certificate.verification: false}"},
}
_PROTECTED = {"security": "security: {}"}
_OPEN_ELSEWHERE: dict[str, dict[str, Any]] = {
    "sink out": {"sink": 'mysql, url: "mysql+pymysql://u:p@db/d?ssl_disabled=true", table: t, commit: two-phase'},
    "sink out by host": {
        "sink": 'postgresql, url: "postgresql://u:p@db/d?sslmode=require", table: t, commit: two-phase'
    },
    "sink out by option": {
        "sink": 'postgresql, url: "postgresql://u:p@/d?host=db&sslmode=prefer", table: t, commit: two-phase'
    },
    "head": {"head": ', head: "postgresql://u:p@db/d?sslmode=disable"'},
}


@pytest.mark.parametrize("given", _OPEN.values(), ids=_OPEN)
def test_validate_says_what_is_open_of_a_source(
    tmp_path: Path, given: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    (found,) = exposures(load(tmp_path, **given))
    assert found.of == "source s"
    assert run_command_line(["validate", str(tmp_path / "spec.yaml")]) == 0
    shown = capsys.readouterr().out
    assert "What is not protected" in shown
    assert found.what[:40] in " ".join(shown.split())


@pytest.mark.parametrize(("of", "given"), _OPEN_ELSEWHERE.items(), ids=_OPEN_ELSEWHERE)
def test_validate_says_what_is_open_elsewhere(tmp_path: Path, of: str, given: dict[str, Any]) -> None:
    (found,) = exposures(load(tmp_path, **_PROTECTED, **given))
    assert of.startswith(found.of)


def test_validate_names_secrets_among_javas_options(tmp_path: Path) -> None:
    spec = load(tmp_path, **_PROTECTED)
    path = tmp_path / "spec.yaml"
    options = (
        'spark: {conf: {spark.executor.extraJavaOptions: "-Dk=${env:KEY}", spark.driver.extraJavaOptions: -Xss4m}}'
    )
    path.write_text(f"{path.read_text()}{options}\n")
    (found,) = exposures(load_spec(path, {"KEY": "hunter22"}))
    assert (found.of, found.what.partition(" ")[0]) == ("spark", "spark.executor.extraJavaOptions")
    assert exposures(spec) == []


def test_validate_names_steps_whose_secrets_spark_would_show(tmp_path: Path) -> None:
    """A constant of a query is in each plan of it: on Spark's pages, and in its event log."""
    load(tmp_path, **_PROTECTED)
    path = tmp_path / "spec.yaml"
    steps = """transforms:
  - {name: salted, sql: "SELECT sha2(concat(value, '${env:SALT}'), 256) AS v FROM s"}
  - {name: plain, sql: "SELECT v, 'token=x' AS t FROM salted"}
"""
    text = f"{path.read_text()}{steps}"
    for setting, count in (("ui.enabled: true", 1), ("eventLog.enabled: true", 1), ("ui.enabled: false", 0)):
        path.write_text(f"{text}spark: {{conf: {{spark.{setting}}}}}\n")
        found = exposures(load_spec(path, {"SALT": "hunter22"}))
        assert [each.of for each in found] == ["step salted"] * count, setting
        assert "hunter22" not in str(found)


def test_nothing_is_open_on_this_machine(tmp_path: Path) -> None:
    sink = 'mysql, url: "mysql+pymysql://u:p@localhost/d", table: t, commit: two-phase'
    assert exposures(load(tmp_path, servers="127.0.0.1:9092,[::1]:9092", sink=sink)) == []


def test_no_password_is_shown(tmp_path: Path) -> None:
    tls = "tls: {certificate: c, key: k, key_password: locked-up}"
    spec = load(tmp_path, f"security: {{{tls}, {_SCRAM}}}")
    for shown in (effective(spec), repr(spec), spec.text, spec.mask("hunter22 locked-up")):
        assert "hunter22" not in shown
        assert "locked-up" not in shown
    short = load(tmp_path, "security: {sasl: {username: u, password: abc}}")
    assert "password: '***'" in effective(short)
