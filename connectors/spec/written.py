"""Secrets as a spec's file shows them: with escapes, over several lines, and beside references.

The file is shown as a whole, on the page, in the history and in savepoints. A value that is read from it is not always
in it letter by letter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from connectors.api.masking import is_secret_name, passwords_in
from connectors.api.mistakes import Path
from connectors.spec import yaml_reader
from connectors.spec.notifications import secrets_of
from connectors.spec.yaml_reader import Node, Scalar, Sequence

REFERENCE: Final = re.compile(r"\$\$\{|\$\{([^{}]*)(\})?")

_HOST: Final = re.compile(r"^[A-Za-z][\w+.-]*://[^\s/]*")
_LOGIN_SCHEMES: Final = frozenset({"apikey", "basic", "bearer", "digest", "negotiate", "token"})
"""Words before the secret of a header, which are not secret. Masked everywhere, they would hide other text."""


def secrets_in(node: Node, path: Path = ()) -> Iterator[str]:
    """Yield the secrets that a file shows, also in profiles that are not chosen: its text is shown as a whole."""
    if isinstance(node, Sequence):
        for index, item in enumerate(node.items):
            yield from secrets_in(item, (*path, index))
    elif isinstance(node, yaml_reader.Mapping):
        of_spec = path[2:] if path[:1] == ("profiles",) else path
        for key, (_, value) in node.entries.items():
            if isinstance(value, Scalar):
                if is_secret_name(key):
                    yield from shown(value)
                yield from shown(value, partial(secrets_of, of_spec, key))
            yield from secrets_in(value, (*path, key))
    elif isinstance(node.value, str):
        yield from shown(node, passwords_in)


def shown(value: Scalar, secrets: Callable[[str], Iterable[str]] = lambda text: (text,)) -> frozenset[str]:
    """Return the secrets of a value as the file shows them: without the references in them.

    `secrets` returns the secrets in a text. Without it, the whole value is one.
    """
    return frozenset(part for text in (value.text, value.raw) for each in secrets(text) for part in _literals(each))


def _literals(text: str) -> Iterator[str]:
    """Yield the text, or its parts between references if it has any."""
    if "${" not in text:
        yield text
        return
    end = 0
    for match in REFERENCE.finditer(text):
        yield _without_public_words(text[end : match.start()])
        end = match.end()
    yield _without_public_words(text[end:])


def _without_public_words(part: str) -> str:
    part = _HOST.sub("", part).strip()
    return "" if part.lower() in _LOGIN_SCHEMES else part
