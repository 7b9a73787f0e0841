"""`${env:NAME}`, `${NAME}` and `${file:/run/secrets/x}` inside the values of a spec. `$${` stands for `${` itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from connectors.api.document import Text
from connectors.api.mistakes import nearest

_MAX_FILE_BYTES: Final = 64 * 1024
_REFERENCE: Final = re.compile(r"\$\$\{|\$\{([^{}]*)(\})?")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class UnresolvedError(Exception):
    """A reference that leads nowhere. The message names it; `suggestion` is the nearest that would."""

    def __init__(self, found: str, suggestion: str = "", allowed: tuple[str, ...] = ()) -> None:
        super().__init__(found)
        self.found = found
        self.suggestion = suggestion
        self.allowed = allowed


class Substitution:
    """Replaces references, and remembers what came in: `secrets`. Used for one load of one spec."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._environ = environ
        self._files: dict[str, str] = {}
        self.secrets: set[str] = set()

    def apply(self, text: str, *, is_secret: bool = True) -> str:
        """The text with its references resolved, which are secrets from then on. Raises UnresolvedError.

        Reads a named file once.
        """
        if "${" not in text:
            return text
        pieces: list[str] = []
        end, substituted = 0, False
        for match in _REFERENCE.finditer(text):
            pieces.append(text[end : match.start()])
            end = match.end()
            if match[0] == "$${":
                pieces.append("${")
                continue
            value = self._resolve(match)
            pieces.append(value)
            if is_secret:
                self.secrets.add(value)
            substituted = True
        pieces.append(text[end:])
        return Text("".join(pieces)) if substituted else "".join(pieces)

    def _resolve(self, match: re.Match[str]) -> str:
        if match[2] is None:
            found = f"'{match[0][:40]}' is not closed with '}}'"
            raise UnresolvedError(found, allowed=("$${ for the two characters ${",))
        kind, colon, name = match[1].partition(":")
        if not colon:
            kind, name = "env", kind
        if kind == "env" and _NAME.fullmatch(name):
            return self._variable(name, match[0])
        if kind == "file" and name:
            return self._file(name)
        found = f"'{match[0]}' is neither a variable nor a file"
        raise UnresolvedError(found, allowed=("${env:NAME}", "${file:/path}", "$${ for ${ itself"))

    def _variable(self, name: str, reference: str) -> str:
        try:
            value = self._environ[name]
        except KeyError:
            near = nearest(name, (other for other in self._environ if _NAME.fullmatch(other)))
            found = f"the environment variable {name} is not set ('{reference}')"
            raise UnresolvedError(found, f"${{env:{near}}}" if near else "") from None
        if not _is_text(value):
            found = f"the environment variable {name} is not valid UTF-8"
            raise UnresolvedError(found)
        return value

    def _file(self, name: str) -> str:
        """The content without the newline that editors put at the end."""
        if name not in self._files:
            self._files[name] = _read(self._folder / name, name)
        return self._files[name]


def _read(path: Path, name: str) -> str:
    try:
        if path.exists() and not path.is_file():  # to open a pipe would wait for somebody to write
            found = f"{name} is no file"
            raise UnresolvedError(found)
        with path.open("rb") as file:
            content = file.read(_MAX_FILE_BYTES + 1)
        if len(content) > _MAX_FILE_BYTES:
            found = f"the file {name} is larger than {_MAX_FILE_BYTES} bytes"
            raise UnresolvedError(found)
        return content.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        found = f"the file {name} is not valid UTF-8"
        raise UnresolvedError(found) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = error.strerror if isinstance(error, OSError) else "not a path"
        found = f"the file {name} cannot be read: {reason}"
        raise UnresolvedError(found) from None


def _is_text(value: str) -> bool:
    """False for bytes that Python took over from the environment as lone surrogates."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
