"""Values of a spec that stand in the environment, `${env:NAME}`, or in a file, `${file:/run/secrets/name}`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final

from connectors.api.mistakes import nearest
from connectors.api.secret import Secrets, UnresolvedError

_MAX_FILE_BYTES: Final = 64 * 1024
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class EnvironmentSecrets(Secrets):
    """`${env:NAME}`: the environment of the command, without a newline at the end, which Kubernetes keeps."""

    api_version: ClassVar[int] = 1

    def resolve(self, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise UnresolvedError(f"'{name}' cannot be the name of an environment variable", allowed=("${env:NAME}",))
        try:
            value = self.environ[name]
        except KeyError:
            near = nearest(name, (other for other in self.environ if _NAME.fullmatch(other)))
            found = f"the environment variable {name} is not set"
            raise UnresolvedError(found, f"${{env:{near}}}" if near else "") from None
        if not _is_text(value):
            raise UnresolvedError(f"the environment variable {name} is not valid UTF-8")
        return _without_newline(value)


class FileSecrets(Secrets):
    """`${file:/path}`: the content of a file, without the newline that editors put at the end."""

    api_version: ClassVar[int] = 1

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        super().__init__(folder, environ)
        self._read: dict[str, str] = {}

    def resolve(self, name: str) -> str:
        """Reads each file once."""
        if not name:
            raise UnresolvedError("the name of the file is missing", allowed=("${file:/path}",))
        if name not in self._read:
            self._read[name] = _content(self.folder / name, name)
        return self._read[name]


def _content(path: Path, name: str) -> str:
    try:
        if path.exists() and not path.is_file():  # to open a pipe would wait for somebody to write
            found = f"{name} is no file"
            raise UnresolvedError(found)
        with path.open("rb") as file:
            content = file.read(_MAX_FILE_BYTES + 1)
        if len(content) > _MAX_FILE_BYTES:
            found = f"the file {name} is larger than {_MAX_FILE_BYTES} bytes"
            raise UnresolvedError(found)
        return _without_newline(content.decode())
    except UnicodeDecodeError:
        found = f"the file {name} is not valid UTF-8"
        raise UnresolvedError(found) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = error.strerror if isinstance(error, OSError) else "not a path"
        found = f"the file {name} cannot be read: {reason}"
        raise UnresolvedError(found) from None


def _without_newline(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r")


def _is_text(value: str) -> bool:
    """False for bytes that Python took over from the environment as lone surrogates."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
