"""Values of a spec that are stored in Vault, AWS Secrets Manager, Google Secret Manager or Azure Key Vault.

Each client library is imported with the first reference that needs it. A message of this module names no value.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Final

from connectors.api.secret import Secrets, UnresolvedError

_TIMEOUT_S: Final = 10


class StoredSecrets(Secrets):
    """Base of the stores. `NAME#KEY` is one key of a secret that is a JSON object. Each secret is read once."""

    api_version: ClassVar[int] = 1
    kind: ClassVar[str]  # in a reference
    extra: ClassVar[str]  # of eos-spark, with the client library
    form: ClassVar[str]  # of a reference, for messages

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        super().__init__(folder, environ)
        self._values: dict[str, object] = {}

    def resolve(self, name: str) -> str:
        path, has_key, key = name.partition("#")
        if not path or (has_key and not key):
            raise UnresolvedError(f"'{name}' is not the name of a secret", allowed=(self.form,))
        if path not in self._values:
            self._values[path] = self._read(path)
        value = self._values[path]
        if has_key:
            return self._part(path, key, value)
        if not isinstance(value, str):
            keys = ", ".join(sorted(value)) if isinstance(value, dict) else ""
            raise UnresolvedError(f"the secret {path} has several values ({keys})", allowed=(self.form,))
        return value

    @abstractmethod
    def _read(self, path: str) -> object:
        """Return the text of a secret, or its values by key. Raises UnresolvedError, or an error of the library."""

    def _part(self, path: str, key: str, value: object) -> str:
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                value = None
        found = value.get(key) if isinstance(value, dict) else None
        if not isinstance(found, str | int | float) or isinstance(found, bool):
            raise UnresolvedError(f"the secret {path} has no text under the key {key}", allowed=(self.form,))
        return str(found)

    def _library(self, module: str) -> Any:
        try:
            return import_module(module)
        except ImportError:
            found = f"${{{self.kind}:…}} needs the Python package {module}"
            raise UnresolvedError(found, allowed=(f"pip install 'eos-spark[{self.extra}]'",)) from None


class VaultSecrets(StoredSecrets):
    """`${vault:secret/data/orders#password}`: HashiCorp Vault, at VAULT_ADDR with VAULT_TOKEN.

    The path is that of the HTTP API, so of a key-value engine of version 2 it contains `data`.
    """

    kind, extra, form = "vault", "vault", "${vault:secret/data/orders#password}"

    def _read(self, path: str) -> object:
        hvac = self._library("hvac")
        address, token = self.environ.get("VAULT_ADDR"), self._token()
        if not address or not token:
            missing = "VAULT_ADDR" if not address else "VAULT_TOKEN"
            raise UnresolvedError(f"the environment variable {missing} is not set, and ${{vault:…}} needs it")
        verify = self.environ.get("VAULT_CACERT") or True
        namespace = self.environ.get("VAULT_NAMESPACE")
        client = hvac.Client(url=address, token=token, namespace=namespace, verify=verify, timeout=_TIMEOUT_S)
        answer = client.read(path)
        data = answer.get("data") if isinstance(answer, dict) else None
        if isinstance(data, dict) and isinstance(data.get("data"), dict) and "metadata" in data:
            data = data["data"]  # of version 2 of the engine
        if not isinstance(data, dict):
            raise UnresolvedError(f"Vault has no secret {path}", allowed=(self.form,))
        return data

    def _token(self) -> str:
        """The variable, or the file that `vault login` and Vault's agent write."""
        if token := self.environ.get("VAULT_TOKEN"):
            return token
        home = self.environ.get("HOME")
        try:
            return (Path(home) / ".vault-token").read_text().strip() if home else ""
        except (OSError, UnicodeDecodeError):
            return ""


class AwsSecrets(StoredSecrets):
    """`${aws:orders/database#password}`: AWS Secrets Manager, with the credentials and region of this process."""

    kind, extra, form = "aws", "aws", "${aws:orders/database#password}"

    def _read(self, path: str) -> object:
        session = self._library("botocore.session").get_session()
        config = self._library("botocore.config").Config(connect_timeout=_TIMEOUT_S, read_timeout=_TIMEOUT_S)
        region = self.environ.get("AWS_REGION")  # the library itself reads AWS_DEFAULT_REGION and ~/.aws
        client = session.create_client("secretsmanager", region_name=region, config=config)
        found = client.get_secret_value(SecretId=path)
        return found["SecretString"] if "SecretString" in found else _text(path, found["SecretBinary"])


class GoogleSecrets(StoredSecrets):
    """`${gcp:projects/shop/secrets/database}`: Google Secret Manager, with this process's credentials.

    Without `/versions/N` it is the latest version.
    """

    kind, extra, form = "gcp", "gcp", "${gcp:projects/shop/secrets/database}"

    def _read(self, path: str) -> object:
        module = self._library("google.cloud.secretmanager")
        name = path if "/versions/" in path else f"{path}/versions/latest"
        answer = module.SecretManagerServiceClient().access_secret_version(name=name, timeout=_TIMEOUT_S)
        return _text(path, answer.payload.data)


class AzureSecrets(StoredSecrets):
    """`${azure:shop-vault/database-password}`: Azure Key Vault, with this process's credentials.

    The vault may be a host name, such as `shop.vault.azure.cn`. A version may follow the name.
    """

    kind, extra, form = "azure", "azure", "${azure:shop-vault/database-password}"

    def _read(self, path: str) -> object:
        vault, _, rest = path.partition("/")
        name, _, version = rest.partition("/")
        if not vault or not name:
            raise UnresolvedError(f"'{path}' does not name a vault and a secret", allowed=(self.form,))
        host = vault if "." in vault else f"{vault}.vault.azure.net"
        credential = self._library("azure.identity").DefaultAzureCredential()
        module = self._library("azure.keyvault.secrets")
        client = module.SecretClient(f"https://{host}", credential, connection_timeout=_TIMEOUT_S)
        value = client.get_secret(name, version or None).value
        if not isinstance(value, str):
            raise UnresolvedError(f"the secret {path} has no value", allowed=(self.form,))
        return value


def _text(path: str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise UnresolvedError(f"the secret {path} is not valid UTF-8") from None
