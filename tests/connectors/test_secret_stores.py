"""References to secret stores: AWS against an imitated service, the others against imitated client libraries."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from connectors.api.plugins import SECRETS, installed, load
from connectors.api.secret import Secrets, UnresolvedError
from connectors.secret_stores import AwsSecrets, AzureSecrets, GoogleSecrets, StoredSecrets, VaultSecrets
from connectors.spec import SpecMistakesError, load_spec

VAULT = {"VAULT_ADDR": "https://vault:8200", "VAULT_TOKEN": "a token"}


def _modules(monkeypatch: pytest.MonkeyPatch, **modules: object) -> None:
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name.replace("__", "."), module)


def test_each_store_is_a_plugin() -> None:
    expected = {"vault": VaultSecrets, "aws": AwsSecrets, "gcp": GoogleSecrets, "azure": AzureSecrets}
    assert expected.keys() <= set(installed(SECRETS))
    assert {kind: load(SECRETS, kind, Secrets) for kind in expected} == expected
    assert {kind: store.kind for kind, store in expected.items()} == {kind: kind for kind in expected}


class _Vault:
    """The client of hvac."""

    def __init__(self) -> None:
        self.clients: list[dict[str, Any]] = []
        self.read_paths: list[str] = []

    def Client(self, **settings: object) -> _Vault:  # noqa: N802 the library's name
        self.clients.append(settings)
        return self

    def read(self, path: str) -> object:
        self.read_paths.append(path)
        answers: dict[str, object] = {
            "kv/orders": {"data": {"password": "one", "port": 7}},
            "secret/data/orders": {"data": {"data": {"password": "two"}, "metadata": {"version": 3}}},
        }
        return answers.get(path)


@pytest.fixture
def vault(monkeypatch: pytest.MonkeyPatch) -> _Vault:
    found = _Vault()
    _modules(monkeypatch, hvac=found)
    return found


def test_vault(vault: _Vault, tmp_path: Path) -> None:
    store = VaultSecrets(tmp_path, {**VAULT, "VAULT_NAMESPACE": "shop", "VAULT_CACERT": "/ca.pem"})
    assert [store.resolve(each) for each in ("kv/orders#password", "kv/orders#port")] == ["one", "7"]
    assert store.resolve("secret/data/orders#password") == "two"
    assert vault.read_paths == ["kv/orders", "secret/data/orders"]
    expected = {
        "url": "https://vault:8200",
        "token": "a token",
        "namespace": "shop",
        "verify": "/ca.pem",
        "timeout": 10,
    }
    assert vault.clients[0] == expected


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("kv/other#password", "Vault has no secret kv/other"),
        ("kv/orders#user", "the secret kv/orders has no text under the key user"),
        ("kv/orders", "the secret kv/orders has several values .password, port."),
        ("#password", "'#password' is not the name of a secret"),
        ("kv/orders#", "is not the name of a secret"),
    ],
)
def test_what_vault_does_not_have(vault: _Vault, tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(UnresolvedError, match=message):
        VaultSecrets(tmp_path, VAULT).resolve(name)


def test_the_token_of_vault(vault: _Vault, tmp_path: Path) -> None:
    environ = {"VAULT_ADDR": "https://vault:8200", "HOME": str(tmp_path)}
    with pytest.raises(UnresolvedError, match="VAULT_TOKEN is not set"):
        VaultSecrets(tmp_path, environ).resolve("kv/orders#password")
    (tmp_path / ".vault-token").write_text("by login\n")
    assert VaultSecrets(tmp_path, environ).resolve("kv/orders#password") == "one"
    assert vault.clients[-1]["token"] == "by login"
    with pytest.raises(UnresolvedError, match="VAULT_ADDR is not set"):
        VaultSecrets(tmp_path, {}).resolve("kv/orders#password")


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Secrets Manager as moto imitates it in this process."""
    moto = pytest.importorskip("moto")
    for name, value in {"ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b", "DEFAULT_REGION": "eu-west-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    with moto.mock_aws():
        import boto3

        yield boto3.client("secretsmanager", region_name="eu-west-1")


def test_aws(aws: Any, tmp_path: Path) -> None:
    aws.create_secret(Name="orders/plain", SecretString="a text")
    aws.create_secret(Name="orders/json", SecretString='{"password": "p", "port": 7, "nested": {}}')
    aws.create_secret(Name="orders/binary", SecretBinary=b"bytes")
    aws.create_secret(Name="orders/odd", SecretBinary=b"\xff")
    store = AwsSecrets(tmp_path, {"AWS_REGION": "eu-west-1"})
    assert store.resolve("orders/plain") == "a text"
    assert store.resolve("orders/json").startswith('{"password"')
    assert (store.resolve("orders/json#password"), store.resolve("orders/json#port")) == ("p", "7")
    assert store.resolve("orders/binary") == "bytes"
    for name in ("orders/json#nested", "orders/json#user", "orders/plain#user"):
        with pytest.raises(UnresolvedError, match="has no text under the key"):
            store.resolve(name)
    with pytest.raises(UnresolvedError, match="orders/odd is not valid UTF-8"):
        store.resolve("orders/odd")


def test_a_secret_that_aws_does_not_have_is_a_mistake_of_the_spec(aws: Any, tmp_path: Path) -> None:
    aws.create_secret(Name="orders/url", SecretString="mysql+pymysql://u:a-long-password@h/d")
    path = tmp_path / "spec.yaml"
    spec = (
        "pipeline: p\ncheckpoint: {location: state}\n"
        "sources:\n  - {name: s, connector: kafka, bootstrap_servers: a, topics: [t], format: {type: raw}}\n"
        "sinks:\n  - {name: out, from: s, connector: mysql, url: '${aws:orders/%s}', table: t, commit: two-phase}\n"
    )
    path.write_text(spec % "url")
    found = load_spec(path, {})
    assert "a-long-password" not in found.mask("a-long-password") + repr(found)
    path.write_text(spec % "missing")
    with pytest.raises(SpecMistakesError, match="cannot be resolved: 'aws' raised ResourceNotFoundException"):
        load_spec(path, {})


def test_google(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[dict[str, object]] = []

    class Client:
        def access_secret_version(self, **request: object) -> object:
            asked.append(request)
            return SimpleNamespace(payload=SimpleNamespace(data=b'{"password": "p"}'))

    module = SimpleNamespace(SecretManagerServiceClient=Client)
    _modules(monkeypatch, google__cloud__secretmanager=module)
    store = GoogleSecrets(tmp_path, {})
    assert store.resolve("projects/shop/secrets/database#password") == "p"
    assert store.resolve("projects/shop/secrets/database/versions/3") == '{"password": "p"}'
    assert [each["name"] for each in asked] == [
        "projects/shop/secrets/database/versions/latest",
        "projects/shop/secrets/database/versions/3",
    ]


def test_azure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[tuple[object, ...]] = []

    class Client:
        def __init__(self, url: str, credential: object, **_: object) -> None:
            self.url = url

        def get_secret(self, name: str, version: str | None) -> object:
            asked.append((self.url, name, version))
            return SimpleNamespace(value=None if name == "empty" else "p")

    identity = SimpleNamespace(DefaultAzureCredential=lambda: "credential")
    _modules(monkeypatch, azure__identity=identity, azure__keyvault__secrets=SimpleNamespace(SecretClient=Client))
    store = AzureSecrets(tmp_path, {})
    assert store.resolve("shop/database") == store.resolve("shop.vault.azure.cn/database/7") == "p"
    assert asked == [
        ("https://shop.vault.azure.net", "database", None),
        ("https://shop.vault.azure.cn", "database", "7"),
    ]
    for name, message in {"shop": "does not name a vault and a secret", "shop/empty": "has no value"}.items():
        with pytest.raises(UnresolvedError, match=message):
            store.resolve(name)


@pytest.mark.parametrize("store", [VaultSecrets, GoogleSecrets, AzureSecrets])
def test_a_library_that_is_missing_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, store: type[StoredSecrets]
) -> None:
    for name in ("hvac", "google.cloud.secretmanager", "azure.identity", "azure.keyvault.secrets"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UnresolvedError, match="needs the Python package") as failure:
        store(tmp_path, VAULT).resolve("a/b#c")
    assert failure.value.allowed == (f"pip install 'eos-spark[{store.extra}]'",)
