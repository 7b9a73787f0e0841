"""The words and marks of a DDL schema, with their places, and the error that points at one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from eos.errors import SpecError


class Kind(Enum):
    """What a token is."""

    WORD = "word"
    QUOTED = "quoted name"
    STRING = "text"
    MARK = "mark"
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    """One word or mark of a schema."""

    kind: Kind
    text: str  # without its quotes
    start: int  # characters from the start of the schema

    def is_word(self, text: str) -> bool:
        """Whether this is the keyword or the mark `text`; a quoted name never is."""
        return self.kind in (Kind.WORD, Kind.MARK) and self.text.upper() == text


_TOKEN = re.compile(
    r"""\s*(?:
      (?P<word>\w+)
    | `(?P<quoted>(?:[^`]|``)+)`
    | '(?P<single>(?:[^'\\]|\\.|'')*)'
    | "(?P<double>(?:[^"\\]|\\.|"")*)"
    | (?P<mark>[,:<>()])
    )""",
    re.VERBOSE | re.DOTALL,
)


def tokens_of(text: str) -> Iterator[Token]:
    """Yield the tokens of a schema; the last one is of Kind.END. Raises SpecError at a character that begins none."""
    position = 0
    while match := _TOKEN.match(text, position):
        group = match.lastgroup
        assert group is not None
        found = match[group]
        start = match.start(group) - (group in ("quoted", "single", "double"))
        if group == "quoted":
            yield Token(Kind.QUOTED, found.replace("``", "`"), start)
        else:
            yield Token({"word": Kind.WORD, "mark": Kind.MARK}.get(group, Kind.STRING), found, start)
        position = match.end()
    rest = text[position:].lstrip()
    if rest:
        start = len(text) - len(rest)
        what = "quotes that are not closed" if rest[0] in "`'\"" else "a character that has no meaning here"
        raise fail(text, Token(Kind.MARK, rest[0], start), what)
    yield Token(Kind.END, "", len(text))


def fail(text: str, token: Token, complaint: str) -> SpecError:
    """The error that points at a token: position (from 1), what stands there, and the text before it."""
    found = "the schema ends" if token.kind is Kind.END else f"found {token.text!r}"
    before = text[max(0, token.start - 30) : token.start].strip()
    after = f" after {before!r}" if before else ""
    return SpecError(
        f"schema, position {token.start + 1}: {found}{after}: {complaint}",
        remedy='write it as Spark DDL, for example "id BIGINT NOT NULL, amount DECIMAL(10,2), ts TIMESTAMP"',
    )
