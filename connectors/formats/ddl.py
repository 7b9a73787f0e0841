"""A schema as Spark writes it (`id BIGINT, user STRING NOT NULL`), read into Arrow without Spark."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

import pyarrow as pa

from eos.errors import SpecError

_SIMPLE: Final = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "BYTE": pa.int8(),
    "SMALLINT": pa.int16(),
    "SHORT": pa.int16(),
    "INT": pa.int32(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "LONG": pa.int64(),
    "FLOAT": pa.float32(),
    "REAL": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "TIMESTAMP_LTZ": pa.timestamp("us", "UTC"),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
}
_DECIMAL: Final = ("DECIMAL", "DEC", "NUMERIC")
_NESTED: Final = ("ARRAY", "MAP", "STRUCT")
_INSTEAD: Final = {"VARCHAR": "STRING", "CHAR": "STRING", "TEXT": "STRING", "DATETIME": "TIMESTAMP", "BOOL": "BOOLEAN"}
_VARIANT: Final = (
    "VARIANT rounds numbers of more than 38 digits; read the value as text with `type: string`, and use "
    "parse_json(value) in a step"
)
_MAX_PRECISION: Final = 38
_DEFAULT_DECIMAL: Final = (10, 0)
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


def parse_ddl(text: str) -> pa.Schema:
    """Read a Spark DDL schema. Pure; called where a spec is checked and where a job is built.

    Types: those of Spark but for intervals, VARIANT and lengths of characters. `NOT NULL` becomes `nullable=False`,
    COMMENT is read and left out, names that are not words stand in backticks. TIMESTAMP is `timestamp('us', 'UTC')`.

    Raises:
        SpecError: names the position, what was found and what was expected, and the nearest type name for a typo.
    """
    parser = _Parser(text)
    fields = parser.fields()
    parser.expect(Kind.END, "',' or the end of the schema")
    return pa.schema(fields)


class _Parser:
    """Recursive descent, one method a rule of the grammar."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(tokens_of(text))
        self._next = 0

    @property
    def _token(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self._token
        self._next += 1
        return token

    def _takes(self, word: str) -> bool:
        """Step over `word` if it is what comes next."""
        found = self._token.is_word(word)
        self._next += found
        return found

    def expect(self, kind: Kind, what: str, text: str | None = None) -> Token:
        if self._token.kind is not kind or (text is not None and self._token.text.upper() != text):
            raise fail(self._text, self._token, f"expected {what}")
        return self._take() if kind is not Kind.END else self._token

    def fields(self) -> list[pa.Field]:
        """Rule `field {',' field}`; names are told apart without regard to case, as Spark does."""
        found: list[pa.Field] = []
        seen: set[str] = set()
        while True:
            name = self._token
            found.append(self._field())
            if name.text.lower() in seen:
                raise fail(self._text, name, "this name is used twice (Spark does not tell upper from lower case)")
            seen.add(name.text.lower())
            if not self._takes(","):
                return found

    def _field(self) -> pa.Field:
        """Rule `name [':'] type ['NOT' 'NULL'] ['COMMENT' text]`."""
        if self._token.kind not in (Kind.WORD, Kind.QUOTED):
            raise fail(self._text, self._token, "expected a column name (other than words: in `backticks`)")
        name = self._take().text
        self._takes(":")
        kind = self._type()
        nullable = not self._takes("NOT")
        if not nullable:
            self.expect(Kind.WORD, "NULL after NOT", "NULL")
        if self._takes("COMMENT"):
            self.expect(Kind.STRING, "the comment's text in quotes")
        return pa.field(name, kind, nullable)

    def _type(self) -> pa.DataType:
        token = self._token
        if token.kind is not Kind.WORD:
            raise fail(self._text, token, "expected a type")
        name = self._take().text.upper()
        if name in _SIMPLE:
            return _SIMPLE[name]
        if name in _DECIMAL:
            return self._decimal()
        if name in _NESTED:
            return self._nested(name)
        raise fail(self._text, token, _nearest(name))

    def _decimal(self) -> pa.DataType:
        """Rule `['(' precision [',' scale] ')']`."""
        if not self._takes("("):
            return pa.decimal128(*_DEFAULT_DECIMAL)
        at = self._token
        precision = self._number()
        scale = self._number() if self._takes(",") else 0
        self.expect(Kind.MARK, "')'", ")")
        if not 1 <= precision <= _MAX_PRECISION or scale > precision:
            raise fail(self._text, at, f"expected a precision of 1 to {_MAX_PRECISION} and a scale up to it")
        return pa.decimal128(precision, scale)

    def _number(self) -> int:
        token = self.expect(Kind.WORD, "a number")
        if not token.text.isascii() or not token.text.isdigit():
            raise fail(self._text, token, "expected a number")
        return int(token.text)

    def _nested(self, name: str) -> pa.DataType:
        self.expect(Kind.MARK, f"'<' after {name}", "<")
        if name == "STRUCT":
            kind: pa.DataType = pa.struct(self.fields())
        elif name == "ARRAY":
            kind = pa.list_(self._type())
        else:
            key = self._type()
            self.expect(Kind.MARK, "',' between the types of key and value", ",")
            kind = pa.map_(key, self._type())
        self.expect(Kind.MARK, f"'>' that ends {name}", ">")
        return kind


def _nearest(name: str) -> str:
    if name == "VARIANT":
        return _VARIANT
    known = [*_SIMPLE, *_DECIMAL, *_NESTED]
    instead = _INSTEAD.get(name) or next(iter(difflib.get_close_matches(name, known, 1)), None)
    return f"no such type; did you mean {instead}?" if instead else f"no such type; types are {', '.join(known)}"


class Kind(Enum):
    """The kinds of tokens."""

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
