"""The syntax of a step's SQL, as far as it can be judged without Spark: mistakes that are certain, and a tree.

sqlglot parses the text. It refuses some texts that Spark takes (docs/explanation/decisions.md), so its refusal is a
mistake only if the text shows the cause. Spark itself parses every text at a start.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from connectors.spec.table_names import TOKENS

if TYPE_CHECKING:
    from sqlglot.expressions import Query

Columns = Sequence[str] | None
"""Names of columns, in order; None: not known."""

_MOST_CHARACTERS: Final = 100_000
"""A longer text is left to Spark."""

_CLAUSES: Final = (
    *("SELECT", "DISTINCT", "FROM", "JOIN", "LEFT", "RIGHT", "INNER", "OUTER", "FULL", "CROSS", "ON", "USING"),
    *("LATERAL", "WHERE", "GROUP", "ORDER", "BY", "HAVING", "QUALIFY", "LIMIT", "UNION", "EXCEPT", "INTERSECT"),
    *("WITH", "AS", "AND", "OR", "NOT", "BETWEEN", "LIKE", "CASE", "WHEN", "THEN", "ELSE", "END", "OVER", "PARTITION"),
)
"""Keywords that a word without a meaning may be meant for."""

_ALIKE: Final = 0.75
"""Similarity of a misspelled keyword; a column's name is less like one (`tags` and `AS`: 0.67)."""

_OWN_KEYWORDS: Final = frozenset({"stream", "recursive", "level", "extend", "aggregate", "user", "single"})
"""Keywords of Spark that sqlglot does not list."""

_LEFT_TO_SPARK: Final = re.compile(r"\|>|\b(table|stream|identifier)\b", re.IGNORECASE)
"""Outcome of a query that sqlglot reads in another way than Spark, or not at all."""

_WINDOW_CALL: Final = re.compile(r"\bwindow(?=\s*\()", re.IGNORECASE)
_AS_A_FUNCTION: Final = "w1ndow"
"""The function `window` under a name of the same length: sqlglot takes `GROUP BY window(…)` for a clause."""

_QUOTES: Final = re.compile(r"['\"`]|/\*")


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a SQL text. `found` is a phrase without the place."""

    start: int  # characters from the begin of the text
    found: str
    allowed: tuple[str, ...] = ()
    suggestion: str = ""

    def located(self, sql: str) -> str:
        """Return the phrase behind line and column in the text, both from 1."""
        before = sql[: self.start]
        line, column = before.count("\n") + 1, self.start - before.rfind("\n")
        return f"line {line}, column {column} of the SQL: {self.found}"


@dataclass(frozen=True, slots=True)
class _Refusal:
    """The words at which sqlglot ends: the refused one, and the one before it."""

    words: Sequence[re.Match[str]]


def parse(sql: str) -> tuple[Query | None, list[Problem]]:
    """Return the tree of a query, and the mistakes that are certain.

    There is a tree only for a text that sqlglot can read. It has the offsets of the text.
    """
    if len(sql) > _MOST_CHARACTERS:
        return None, []
    if found := list(_unclosed(sql)):
        return None, found
    if _LEFT_TO_SPARK.search(sql):
        return None, []
    tree = _tree(sql)
    if not isinstance(tree, _Refusal):
        return tree, []
    return None, list(_explained(sql, tree))


def as_column(name: str) -> str:
    """Return the name of a column as SQL takes it: quoted, unless it is a plain word that is not a keyword."""
    from connectors.spark_types import quoted  # loads pyarrow

    is_plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name.lower() not in _keywords()
    return name if is_plain else quoted(name)


def is_window_call(name: str) -> bool:
    """Return whether the tree has the function `window` under this name."""
    return name == _AS_A_FUNCTION


def _unclosed(sql: str) -> Iterator[Problem]:
    """Yield quotes and parentheses without their partners."""
    tokens = list(TOKENS.finditer(sql))
    inside = {at for token in tokens for at in range(*token.span())}
    for quote in _QUOTES.finditer(sql):
        if quote.start() not in inside:
            what = "a comment begins" if quote[0] == "/*" else f"a text in {quote[0]} begins"
            yield Problem(quote.start(), f"{what} and does not end")
            return
    open_: list[int] = []
    for token in tokens:
        if token["mark"] == "(" or (token["called"] is not None and not token["closed"]):
            open_.append(token.start())
        elif token["mark"] == ")":
            if not open_:
                yield Problem(token.start(), "this ) closes no parenthesis")
                return
            open_.pop()
    if open_:
        yield Problem(open_[-1], "this ( is not closed")


def _tree(sql: str) -> Query | _Refusal | None:
    """Return sqlglot's tree; where it stops reading; or None for any other text."""
    import sqlglot
    from sqlglot.errors import ParseError
    from sqlglot.expressions import Query

    text = _WINDOW_CALL.sub(_AS_A_FUNCTION, sql)
    try:
        trees = [each for each in sqlglot.parse(text, dialect="spark") if each is not None]
    except ParseError as error:
        return _refusal(sql, error.errors[0] if error.errors else {})
    except Exception:  # noqa: BLE001  # of sqlglot: Spark judges the text
        return None
    return trees[0] if len(trees) == 1 and isinstance(trees[0], Query) else None


def _refusal(sql: str, error: dict[str, object]) -> _Refusal | None:
    line, column, refused = error.get("line"), error.get("col"), str(error.get("highlight") or "")
    if not isinstance(line, int) or not isinstance(column, int) or not refused:
        return None
    before = sum(len(each) for each in sql.splitlines(keepends=True)[: line - 1])
    start = before + column - len(refused)  # the column is the last character's
    words = [token for token in TOKENS.finditer(sql) if token.lastgroup]
    at = next((index for index, token in enumerate(words) if token.start() == start), None)
    return None if at is None else _Refusal(words[max(at - 1, 0) : at + 1])


def _explained(sql: str, refusal: _Refusal) -> Iterator[Problem]:
    """Yield the mistake behind a refusal, if the text shows it: a misspelled keyword, or a name where none belongs."""
    for token in reversed(refusal.words):
        meant = _keyword_for(token["word"] or "")
        corrected = sql[: token.start()] + meant + sql[token.end() :]
        if meant and not isinstance(_tree(corrected), _Refusal | None):
            yield Problem(token.start(), f"'{token[0]}' is not a keyword here", (), meant)
            return
    if len(refusal.words) == 2 and all(map(_is_operand, refusal.words)):
        before, refused = refusal.words
        yield Problem(refused.start(), f"'{refused[0]}' cannot follow '{before[0]}': a comma or a keyword is missing")


def _keyword_for(word: str) -> str:
    """Return the keyword that a word is a misspelling of; empty if it is a keyword itself, or like none."""
    if not word or word.casefold() in _keywords():
        return ""
    letters = sorted(word.upper())
    swapped = next((each for each in _CLAUSES if sorted(each) == letters), "")
    return swapped or next(iter(difflib.get_close_matches(word.upper(), _CLAUSES, n=1, cutoff=_ALIKE)), "")


def _is_operand(token: re.Match[str]) -> bool:
    """Return whether a token is a constant or a name, and certainly not a keyword."""
    if token["constant"] is not None or token["quoted"] is not None:
        return True
    return token["word"] is not None and token["word"].casefold() not in _keywords()


@lru_cache(maxsize=1)
def _keywords() -> frozenset[str]:
    from sqlglot.dialects.spark import Spark

    known = {word.casefold() for each in Spark.Tokenizer.KEYWORDS for word in each.split()}
    return frozenset(known | _OWN_KEYWORDS | {each.casefold() for each in _CLAUSES})
