"""References to values that stand elsewhere: the base of what `eos.secrets` brings, as `env` for `${env:NAME}`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar


class UnresolvedError(Exception):
    """A reference that leads nowhere. The message names it; `suggestion` is the nearest that would."""

    def __init__(self, found: str, suggestion: str = "", allowed: tuple[str, ...] = ()) -> None:
        super().__init__(found)
        self.found = found
        self.suggestion = suggestion
        self.allowed = allowed


class Secrets:
    """Base of the places that a reference can name. One object serves one load of one spec."""

    api_version: ClassVar[int]

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        """`folder`: of the spec, absolute. `environ`: the environment of the command."""
        self.folder = folder
        self.environ = environ

    def resolve(self, name: str) -> str:
        """Return the value of `${kind:name}`. May block. Raises UnresolvedError, which must not quote the value."""
        raise NotImplementedError
