"""Identities of AWS, as the broker of the tests knows them and as a machine has them: no service of AWS is there."""

from __future__ import annotations

import secrets
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from connectors.aws import forget_sessions

if TYPE_CHECKING:
    import pytest

REGION: Final = "eu-west-1"

_PROGRAM: Final = """\
#!{python}
import json, time
from pathlib import Path
folder = Path({folder!r})
with (folder / "calls").open("a") as calls:
    calls.write("1")
life, told = map(int, (folder / "life").read_text().split())
end = int(time.time()) + life
name, secret = (folder / "identity").read_text().split()
print(json.dumps({{"Version": 1, "AccessKeyId": name, "SecretAccessKey": secret, "SessionToken": f"until-{{end}}",
                   "Expiration": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(end - life + told))}}))
"""


@dataclass(frozen=True, slots=True)
class Identity:
    """A key, and the principal that the broker takes its tokens for."""

    principal: str
    key: str = field(default_factory=lambda: f"AKIA{secrets.token_hex(8).upper()}")
    secret: str = field(default_factory=lambda: secrets.token_hex(20))


class Identities:
    """The file by which the broker's handler knows identities; see AwsIamHandler.java. It reads it for each login."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def clear(self) -> None:
        """Know none, and refuse nobody else."""
        self.path.write_text("")

    def add(self, identity: Identity) -> Identity:
        """Know it from now on."""
        self._append(f"{identity.key}={identity.secret} {identity.principal}")
        return identity

    def refuse(self, reason: str) -> None:
        """Refuse every login, with this reason."""
        self._append(f"refuse={reason}")

    def _append(self, line: str) -> None:
        with self.path.open("a") as file:
            file.write(f"{line}\n")


class Program:
    """A program that gives temporary credentials (`credential_process` of a profile), as a machine's role would."""

    def __init__(self, folder: Path, identity: Identity, life_s: int, told_s: int | None = None) -> None:
        """`life_s`: of the credentials; `told_s`: what the program says of it, if not the same."""
        folder.mkdir()
        self._folder = folder
        (folder / "life").write_text(f"{life_s} {life_s if told_s is None else told_s}")
        self.use(identity)
        program = folder / "credentials"
        program.write_text(_PROGRAM.format(python=sys.executable, folder=str(folder)))
        program.chmod(stat.S_IRWXU)
        self.config = folder / "config"
        self.config.write_text(f"[default]\ncredential_process = {program}\n")

    def use(self, identity: Identity) -> None:
        """Give credentials of this one from now on."""
        (self._folder / "identity").write_text(f"{identity.key} {identity.secret}")

    @property
    def calls(self) -> int:
        """How often it was asked."""
        path = self._folder / "calls"
        return len(path.read_text()) if path.exists() else 0

    @property
    def environment(self) -> dict[str, str]:
        """By which AWS's default chain finds this program, and nothing else of the machine's."""
        return _chain(self.config, self._folder)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> Program:
        """Be the only credentials that this process finds, for one test."""
        _replace_credentials(monkeypatch, self.environment)
        return self


def remove_credentials(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Have this process find no credentials of AWS, for one test. `folder`: any."""
    _replace_credentials(monkeypatch, _chain(folder / "none", folder))


def _chain(config: Path, folder: Path) -> dict[str, str]:
    return {
        "AWS_CONFIG_FILE": str(config),
        "AWS_SHARED_CREDENTIALS_FILE": str(folder / "none"),
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def _replace_credentials(monkeypatch: pytest.MonkeyPatch, environment: Mapping[str, str]) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    forget_sessions()
