"""`${env:NAME}`, `${NAME}` and `${file:/run/secrets/x}` inside the values of a spec. `$${` stands for `${` itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from connectors.api.document import Text
from connectors.api.plugins import SECRETS, PluginError, UnknownPluginError, installed, load
from connectors.api.secret import Secrets, UnresolvedError

_REFERENCE: Final = re.compile(r"\$\$\{|\$\{([^{}]*)(\})?")


class Substitution:
    """Replaces references, and remembers what came in: `secrets`. Used for one load of one spec."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._environ = environ
        self._places: dict[str, Secrets] = {}
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
        try:
            value: object = self._place(kind).resolve(name)
        except UnknownPluginError:
            found = f"'{match[0]}' is neither a variable nor a file"
            allowed = (*(f"${{{each}:…}}" for each in installed(SECRETS)), "$${ for ${ itself")
            raise UnresolvedError(found, allowed=allowed) from None
        except PluginError as error:
            raise UnresolvedError(f"'{match[0]}': {error.message}; {error.remedy}") from None
        except UnresolvedError:
            raise
        except (Exception, SystemExit) as error:  # of a plugin; its message may quote a secret
            raise UnresolvedError(f"'{match[0]}' cannot be resolved: {kind!r} raised {type(error).__name__}") from error
        if not isinstance(value, str):
            raise UnresolvedError(f"'{match[0]}' cannot be resolved: {kind!r} returned no text")
        return value

    def _place(self, kind: str) -> Secrets:
        if kind not in self._places:
            self._places[kind] = load(SECRETS, kind, Secrets)(self._folder, self._environ)
        return self._places[kind]
