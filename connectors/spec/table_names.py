"""Names of tables in Spark SQL, found without Spark: which of the known names a query reads.

An alias, a column, a qualifier (`orders.id`) and a name that WITH defines are not tables of the pipeline.
`tests/connectors/spec/test_table_names.py` compares the answers with Spark's parser.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

_FLAT: Final = r"/\*(?:(?!/\*|\*/).)*\*/"
COMMENT: Final = rf"--(?:\\\n|[^\n\r])*|/\*(?:{_FLAT}|(?!/\*|\*/).)*\*/"
"""A pattern of Spark's comments. Those in brackets may hold others; one level is enough in practice."""

TOKENS: Final = re.compile(
    r"`(?P<quoted>(?:[^`]|``)*)`"
    r"|\bidentifier\s*\(\s*(?P<mark_of_name>['\"])(?P<called>[^'\"]*)(?P=mark_of_name)(?P<closed>\s*\))?"
    r"|(?P<constant>\b[rR](?:'[^']*'|\"[^\"]*\")|'(?:[^'\\]|\\.|'')*')"
    rf"|{COMMENT}"
    r'|"(?P<text>(?:[^"\\]|\\.|"")*)"'  # a name, if spark.sql.ansi.doubleQuotedIdentifiers is set
    r"|(?P<word>\w+)"
    r"|(?P<mark>[(),.*]|\|>)",
    re.DOTALL | re.IGNORECASE,
)

_SET_OPERATORS: Final = frozenset({"union", "except", "minus", "intersect"})
_AFTER_SET_OPERATORS: Final = frozenset({"all", "distinct", "by", "name"})
_ENDS_OF_FROM: Final = frozenset({"select", "where", "by", "having", "limit", "offset", "qualify", "window", "|>"})
"""`by` stands for GROUP, ORDER, SORT, DISTRIBUTE and CLUSTER BY: without it these words may be aliases."""
_BEFORE_RELATIONS: Final = frozenset({"lateral", "stream"})


def names_in(sql: str, known: Iterable[str]) -> list[str]:
    """Return the known names that the query reads as tables, in the order of `known`."""
    read = {_name(token) for token in _Reader(_tokens(sql)).tables()}
    return [name for name in known if name.casefold() in read]


def tables_in(sql: str) -> list[tuple[int, str]]:
    """Return each table that the query reads as a name without dots: its place in the text, and the name as written."""
    found = [(token.start(), _written(token)) for token in _Reader(_tokens(sql)).tables()]
    return [(start, name) for start, name in found if name]


def _tokens(sql: str) -> list[re.Match[str]]:
    return [token for token in TOKENS.finditer(sql) if token.lastgroup]


class _Scope:
    """The query as a whole, or the text between two parentheses.

    Invariant: a name is in `names` only behind its definition, or if WITH is recursive: the definition of `orders` may
    read the source `orders`.
    """

    def __init__(self, *, expects_table: bool = False, body_of: str = "") -> None:
        """`body_of`: the name in WITH whose columns or definition the parentheses hold."""
        self.body_of = body_of
        self.names: set[str] = set()
        self.begins = True  # a query may begin at the next token
        self.is_query = False  # a query has begun: FROM is its clause, and not a word of EXTRACT or TRIM
        self.expects_table = expects_table  # the next token begins a table, a subquery or a table function
        self.lists_tables = False  # a comma separates tables, and not columns
        self.lists_rows = False  # between VALUES and its alias, in FROM
        self.defines = False  # the next token is a name that WITH defines
        self.is_recursive = False
        self.defined = ""  # the name whose definition has not been read


class _Reader:
    """One pass over the tokens of a query, with a stack of scopes."""

    def __init__(self, tokens: Sequence[re.Match[str]]) -> None:
        self._tokens = tokens
        self._scopes = [_Scope()]

    def tables(self) -> Iterator[re.Match[str]]:
        """Yield the token of each table."""
        for index, token in enumerate(self._tokens):
            word, scope = self._plain(index), self._scopes[-1]
            if self._plain(index - 1) == "." and word not in ("(", ")", ",", "*"):
                continue  # the name of a column, whatever it looks like
            if word == "(":
                self._open(scope, self._plain(index - 1))
            elif word == ")":
                self._close()
            elif word == ",":
                scope.defines = scope.begins and bool(scope.names)
                scope.expects_table = scope.lists_tables and not scope.lists_rows
            elif word == "recursive" and scope.defines:
                scope.is_recursive = True
            elif scope.defines:
                self._define(scope, _name(token))
            elif self._is_clause(scope, word, index):
                continue
            elif scope.expects_table and word not in _BEFORE_RELATIONS:
                scope.expects_table = scope.begins = False
                name = _name(token)
                if self._plain(index + 1) not in (".", "(") and not any(name in each.names for each in self._scopes):
                    yield token
            elif word not in _AFTER_SET_OPERATORS:
                scope.begins = False
                scope.lists_rows &= word != "as" and self._plain(index - 1) != ")"
            if token["called"] is not None and not token["closed"]:
                self._scopes.append(_Scope())

    def _open(self, scope: _Scope, before: str) -> None:
        is_table = scope.expects_table or before == "table"
        self._scopes.append(_Scope(expects_table=is_table, body_of=scope.defined))
        scope.expects_table = False

    def _close(self) -> None:
        """Leave the parentheses. WITH goes on behind a definition; behind a list of columns the definition follows."""
        if len(self._scopes) == 1:
            return
        inner = self._scopes.pop()
        scope = self._scopes[-1]
        scope.is_query |= scope.begins and inner.is_query and not scope.defined
        if inner.body_of and inner.is_query:
            scope.names.add(inner.body_of)
            scope.defined = ""
        scope.begins = bool(inner.body_of)

    @staticmethod
    def _define(scope: _Scope, name: str) -> None:
        scope.defines, scope.defined = False, name
        if scope.is_recursive:
            scope.names.add(name)

    def _is_clause(self, scope: _Scope, word: str, index: int) -> bool:
        """Whether the word is a keyword that changes what the next tokens are."""
        after = self._plain(index + 1)
        if word == "with" and scope.begins:
            scope.defines, scope.expects_table, scope.is_query = True, False, True
        elif word == "from" and (scope.begins or (scope.is_query and not self._is_comparison(index))):
            scope.begins, scope.is_query, scope.expects_table, scope.lists_tables = False, True, True, True
        elif (
            word in ("table", "values")
            and scope.begins
            and index + 1 < len(self._tokens)
            and after not in (",", ".", ")")
        ):
            scope.begins, scope.is_query, scope.expects_table = False, True, word == "table"
        elif word == "values" and scope.expects_table and not self._is_name(after):
            scope.expects_table, scope.lists_rows = False, True
        elif word == "join":
            scope.expects_table, scope.lists_rows = True, False
        elif word == "lateral" and after == "view":
            scope.lists_tables = scope.expects_table = False
        elif word in _SET_OPERATORS and self._plain(index - 1) != "*":
            scope.begins, scope.lists_tables, scope.expects_table = True, False, False
        elif word in _ENDS_OF_FROM and not (scope.begins and word == "by"):
            scope.is_query |= word == "select"
            scope.begins = scope.lists_tables = scope.expects_table = False
        else:
            return False
        return True

    def _is_comparison(self, index: int) -> bool:
        """Whether FROM at `index` is that of IS [NOT] DISTINCT FROM."""
        return self._plain(index - 1) == "distinct" and self._plain(index - 2) in ("is", "not")

    @staticmethod
    def _is_name(word: str) -> bool:
        return word.isidentifier() or word == ","

    def _plain(self, index: int) -> str:
        """The keyword or mark of a token, in lower case; empty for a quoted name, and beyond the ends."""
        if not 0 <= index < len(self._tokens):
            return ""
        return (self._tokens[index]["word"] or self._tokens[index]["mark"] or "").lower()


def _name(token: re.Match[str]) -> str:
    return _written(token).casefold()


def _written(token: re.Match[str]) -> str:
    called = (token["called"] or "").strip("`")
    return (token["quoted"] or called or token["text"] or token["word"] or "").replace("``", "`")
