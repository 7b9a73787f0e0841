"""Keeping secrets out of every message, log and plan.

A secret is whatever came into the spec through `${…}`, a password inside a URL, and a setting whose name says so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from html import escape
from typing import Final
from urllib.parse import quote, quote_plus, unquote, unquote_plus

from eos.bounded import CUT

MASK: Final = "***"

_MIN_LENGTH: Final = 4
"""Shorter secrets are masked by where they stand (in a URL, behind `password=`), not wherever their letters occur:
that would hide half of every message and betray them by doing so."""

# All of these take time in proportion to the text, whatever it holds: an error may quote a record. So a repetition is
# possessive, and begins where its run of characters begins.
_BEFORE_PASSWORD: Final = re.compile(
    r"(?<![\w+.-])(?=(?:(?![A-Za-z])[\w+.-])*+[A-Za-z])[\w+.-]++://[^\s/@:'\"]*+:"  # a scheme, which has a letter
)
_BLANK: Final = re.compile(r"\s")
_BEHIND_NAME: Final = re.compile(r"(?i)((?:password|passwd|pwd|secret|token)=)[^&\s'\",;]+")
_HEX: Final = re.compile(r"%[0-9A-F]{2}")
_PASSWORD_OF_URL: Final = re.compile(r"^[A-Za-z][\w+.-]*://[^:/@]*:(.*)@[^@]*$", re.DOTALL)
_SCHEME: Final = re.compile(r"[A-Za-z][\w+.-]*+:")
_IN_QUERY: Final = re.compile(r"(?i)[?&](?:password|passwd|pwd|sslpassword|ssl_key_password)=([^&]++)")
SECRET_NAME: Final = (
    r"(?i)password|secret|token|passphrase|credential|\.pem$|(access|account|sas|api|storage).?key"
    r"|private.?key(?!.?(file|path|location|id|type|alias)\b)|(^|header\.|proxy.)authorization$|user\.info$|connection.?string"
)
"""A setting whose name this finds holds a secret; an expression of Python's and of Java's."""
_SECRET_NAME: Final = re.compile(SECRET_NAME)


def mask(text: str, secrets: frozenset[str]) -> str:
    """The text with `***` for each secret, however it is quoted. Called for everything that a person or a log gets."""
    pattern = _pattern(secrets)
    if pattern is not None:
        text = pattern.sub(MASK, text)
    text = _without_cut_secrets(text, secrets)
    return _BEHIND_NAME.sub(rf"\g<1>{MASK}", _without_url_passwords(text))


def _without_url_passwords(text: str) -> str:
    """The user name ends at the first colon and the password at the last @ before a blank: rather too much than too
    little.
    """
    parts: list[str] = []
    done = 0
    while (at := text.find("://", done)) >= 0:
        blank = _BLANK.search(text, at)
        end = blank.start() if blank is not None else len(text)
        last = text.rfind("@", at, end)
        before = _BEFORE_PASSWORD.search(text, done, last) if last >= 0 else None
        if before is not None:
            parts += [text[done : before.end()], MASK]
            done = last
        parts.append(text[done:end])
        done = end
    return "".join((*parts, text[done:]))


def _without_cut_secrets(text: str, secrets: frozenset[str]) -> str:
    """Mask the beginning of a secret before each `…`: messages are cut before anybody knows what is secret in them."""
    if CUT not in text:
        return text
    beginnings = _beginnings(secrets)
    *parts, rest = text.split(CUT)
    for at, part in enumerate(parts):
        found = beginnings.get(part[-_MIN_LENGTH:], ())
        if longest := max((end for form, end in found if part.endswith(form[:end])), default=0):
            parts[at] = part[:-longest] + MASK
    return CUT.join((*parts, rest))


@lru_cache(maxsize=16)
def _beginnings(secrets: frozenset[str]) -> Mapping[str, Sequence[tuple[str, int]]]:
    """A form of a secret and an end in it, by the last characters before that end."""
    found: dict[str, list[tuple[str, int]]] = {}
    for form in {form for secret in secrets for form in _forms(secret)}:
        for end in range(_MIN_LENGTH, len(form)):
            found.setdefault(form[end - _MIN_LENGTH : end], []).append((form, end))
    return found


@lru_cache(maxsize=16)
def _pattern(secrets: frozenset[str]) -> re.Pattern[str] | None:
    forms = {form for secret in secrets for form in _forms(secret)}
    ordered = sorted(forms, key=len, reverse=True)  # the longest first: one secret may contain another
    return re.compile("|".join(re.escape(form) for form in ordered)) if ordered else None


def _forms(secret: str) -> set[str]:
    """How a secret may look in a message: as it is, quoted in Python, JSON, SQL, HTML or a URL, and line by line."""
    if len(secret) < _MIN_LENGTH:
        return set()
    lines = [line.strip() for line in secret.splitlines()] if "\n" in secret else []
    return {
        secret,
        repr(secret)[1:-1],
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        quote(secret, safe=""),
        quote(secret),
        quote_plus(secret),
        *(_HEX.sub(lambda found: found[0].lower(), form) for form in (quote(secret, safe=""), quote(secret))),
        secret.replace("'", "''"),
        escape(secret),
        escape(secret, quote=False),
        *(line for line in lines if len(line) >= _MIN_LENGTH),
    }


def passwords_in(text: str) -> frozenset[str]:
    """Return the passwords of a URL, also in its query, as written and decoded; empty for a text that is not a URL."""
    match = _PASSWORD_OF_URL.match(text)
    found = {match[1], unquote(match[1])} if match else set()
    if _SCHEME.match(text):
        for value in _IN_QUERY.findall(text):
            found |= {value, unquote(value), unquote_plus(value)}
    return frozenset(found - {""})


def is_secret_name(name: str) -> bool:
    """Whether a setting of this name (`sasl.password`, `ssl.key.pem`) holds a secret."""
    return _SECRET_NAME.search(name) is not None


class Url:
    """A database URL that shows its password to nobody who does not ask with `reveal`. Immutable, picklable."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The URL with its password: for the driver of the database only."""
        return self._text

    @property
    def scheme(self) -> str:
        """`mysql+pymysql` of `mysql+pymysql://…`."""
        return self._text.partition("://")[0]

    def __str__(self) -> str:
        return mask(self._text, passwords_in(self._text))

    def __repr__(self) -> str:
        return f"Url({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Url) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)
