"""Names of tables in Spark SQL, found without Spark: which of the known names a query may read.

An alias, a qualifier (`orders.id`) and a name that WITH defines are no tables of the pipeline. A name too many costs a
refusal at most. A name too few is reported by the run, since Spark then misses the view.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

TOKENS: Final = re.compile(
    r"`(?P<quoted>(?:[^`]|``)*)`"
    r"|\bidentifier\s*\(\s*'(?P<called>[^']*)'(?P<closed>\s*\))?"
    r"|\b[rR](?:'[^']*'|\"[^\"]*\")|'(?:[^'\\]|\\.|'')*'|--[^\n]*|/\*.*?\*/"  # text and comments name nothing
    r'|"(?P<text>(?:[^"\\]|\\.|"")*)"'  # a name, where Spark is told so
    r"|(?P<word>[^\W\d]\w*)"
    r"|(?P<mark>[(),.])",
    re.DOTALL | re.IGNORECASE,
)

_BEFORE_TABLES: Final = frozenset({"from", "join", "table", "lateral", "stream", ",", "("})
_BEFORE_DEFINITIONS: Final = frozenset({"with", "recursive", ","})
_END_OF_WITH: Final = frozenset({"select", "from", "table", "values", "map", "reduce"})


def names_in(sql: str, known: Iterable[str]) -> list[str]:
    """Return the known names that the query may read as tables, in the order of `known`.

    A column in a list counts as well: `SELECT id, orders FROM …`.
    """
    read = set(_tables([token for token in TOKENS.finditer(sql) if token.lastgroup]))
    return [name for name in known if name.casefold() in read]


def _tables(tokens: Sequence[re.Match[str]]) -> Iterator[str]:
    scopes = [_Scope()]
    for index, token in enumerate(tokens):
        before, plain, after = _plain(tokens, index - 1), _plain(tokens, index), _plain(tokens, index + 1)
        scope = scopes[-1]
        if plain == "(":
            scopes.append(_Scope(scope.take_definition() if before == "as" else ""))
        elif plain == ")" and len(scopes) > 1:
            defined = scopes.pop().body_of
            scopes[-1].names |= {defined} - {""}
        elif plain == "with":
            scope.is_list, scope.is_recursive = True, after == "recursive"
        elif plain in _END_OF_WITH:
            scope.is_list = False
        elif scope.is_list and before in _BEFORE_DEFINITIONS and _is_definition(tokens, index):
            scope.define(_name(token))
        elif token["called"] is not None:
            scopes += [] if token["closed"] else [_Scope()]
            yield _name(token)
        elif before in _BEFORE_TABLES and after != "." and not any(_name(token) in each.names for each in scopes):
            yield _name(token)


class _Scope:
    """The names that WITH defines between two parentheses, or in the query as a whole.

    Invariant: a name is in `names` only behind its definition, or if WITH is recursive: the definition of `orders` may
    read the source `orders`.
    """

    def __init__(self, body_of: str = "") -> None:
        """`body_of`: the name whose definition the parentheses hold."""
        self.body_of = body_of
        self.names: set[str] = set()
        self.is_list = False  # the list of definitions has not ended
        self.is_recursive = False
        self._defined = ""

    def define(self, name: str) -> None:
        """Begin a definition."""
        self._defined = name
        if self.is_recursive:
            self.names.add(name)

    def take_definition(self) -> str:
        """Return the name whose definition begins, once."""
        name, self._defined = self._defined, ""
        return name


def _is_definition(tokens: Sequence[re.Match[str]], index: int) -> bool:
    """Whether `name AS (` or `name (column, …) AS (` begins here."""
    following = index + 1
    if _plain(tokens, following) == "(":
        while following < len(tokens) and _plain(tokens, following) != ")":
            following += 1
        following += 1
    return _plain(tokens, following) == "as" and _plain(tokens, following + 1) == "("


def _name(token: re.Match[str]) -> str:
    return (token["quoted"] or token["called"] or token["text"] or token["word"] or "").casefold()


def _plain(tokens: Sequence[re.Match[str]], index: int) -> str:
    """The keyword or mark of a token, in lower case; empty for a quoted name, and beyond the ends."""
    if not 0 <= index < len(tokens):
        return ""
    return (tokens[index]["word"] or tokens[index]["mark"] or "").lower()
