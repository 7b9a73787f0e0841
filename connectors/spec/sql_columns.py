"""The columns that a step's SQL names, compared with the columns of the views that it reads. Pure.

Only certain mistakes are found. If the columns of one view in a scope are not known, every name may be one of its
columns. Fields of structs, types and functions are left to Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Final

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.scope import Scope, build_scope

from connectors.api.mistakes import nearest
from connectors.spec.sql_syntax import Columns, Problem, is_window_call

_NO_COLUMNS: Final = frozenset(
    {
        *("user", "current_user", "session_user", "current_date", "current_time", "current_timestamp"),
        *("localtimestamp", "current_catalog", "current_database", "current_schema", "all", "grouping__id"),
        *("year", "quarter", "month", "week", "day", "dayofyear", "hour", "minute", "second"),
        *("millisecond", "microsecond", "nanosecond"),
    }
)
"""Words that Spark reads without a column: functions without parentheses, and units of time."""

_WINDOWS: Final = frozenset({"window", "session_window"})
"""Columns that a function of the same name brings."""


def check_columns(tree: exp.Query, views: Mapping[str, Columns]) -> tuple[list[Problem], Columns]:
    """Return the unknown columns of a query, and the columns of its result.

    Args:
        tree: the query, with the offsets of its text.
        views: by name in lower case, the columns of each view.
    """
    try:
        root = None if _is_beyond(tree) else build_scope(tree)
        if root is None:
            return [], None
        checker = _Checker(tree, views)
        return list(checker.problems(root)), checker.result(root)
    except (SqlglotError, RecursionError):  # a query whose scopes sqlglot does not separate: Spark judges it
        return [], None


def _is_beyond(tree: exp.Query) -> bool:
    """Return whether a query has a part whose columns are not computed here."""
    if any(node.args.get("recursive") for node in tree.find_all(exp.With)):
        return True
    return tree.find(exp.Pivot, exp.MatchRecognize, exp.Transform) is not None


class _Checker:
    """One pass over the scopes of a query."""

    def __init__(self, tree: exp.Query, views: Mapping[str, Columns]) -> None:
        self._views = views
        calls = [node.name.casefold() for node in tree.find_all(exp.Anonymous)]
        has_windows = any(is_window_call(name) or name in _WINDOWS for name in calls)
        self._free = _NO_COLUMNS | (_WINDOWS if has_windows else frozenset())
        self._seen: set[int] = set()
        self._aliases_of: dict[Scope, frozenset[str]] = {}

    def problems(self, root: Scope) -> Iterator[Problem]:
        """Yield the unknown columns of all scopes, in the order of the text."""
        found: list[Problem] = []
        for scope in root.traverse():  # inner scopes first: a column is judged where it is written
            names = _Names(self._sources(scope), self._free | self._aliases(scope))
            for column in scope.columns:
                if id(column) not in self._seen:
                    self._seen.add(id(column))
                    found += self._judge(column, names)
        yield from sorted(found, key=lambda each: each.start)

    def result(self, scope: Scope) -> Columns:
        """Return the columns of the result of a scope."""
        if scope.outer_columns:
            return list(scope.outer_columns)
        if scope.set_operation_scopes:
            return self.result(scope.set_operation_scopes[0])
        if not isinstance(scope.expression, exp.Select):
            return None
        names: list[str] = []
        for projection in scope.expression.expressions:
            own = self._projected(projection, scope)
            if own is None:
                return None
            names += own
        return names

    def _projected(self, projection: exp.Expr, scope: Scope) -> Columns:
        if isinstance(projection, exp.Star):
            return self._star(projection, [*self._selected(scope).values()])
        if isinstance(projection, exp.Column) and isinstance(projection.this, exp.Star):
            sources = {name.casefold(): columns for name, columns in self._selected(scope).items()}
            return self._star(projection.this, [sources.get(projection.table.casefold())])
        if isinstance(projection, exp.Aliases):
            return [each.name for each in projection.aliases] if projection.aliases else None
        return [projection.output_name] if projection.output_name else None

    @staticmethod
    def _star(star: exp.Star, sources: Sequence[Columns]) -> Columns:
        if star.args.get("replace") or star.args.get("rename"):
            return None
        left_out = {each.name.casefold() for each in star.args.get("except_") or star.args.get("except") or ()}
        names: list[str] = []
        for columns in sources:
            if columns is None:
                return None
            names += [name for name in columns if name.casefold() not in left_out]
        return names

    def _selected(self, scope: Scope) -> dict[str, Columns]:
        """Return the views behind FROM, each with its columns."""
        return {name: self._columns(source) for name, (_, source) in scope.selected_sources.items()}

    def _sources(self, scope: Scope) -> dict[str, Columns]:
        """Return all views whose columns a scope may name, also from outer queries."""
        found: dict[str, Columns] = {}
        each: Scope | None = scope
        while each is not None:
            for name, source in each.sources.items():
                found.setdefault(name.casefold(), self._columns(source))
            if each.set_operation_scopes:
                found.setdefault("", self.result(each))
            each = each.parent
        return found

    def _columns(self, source: exp.Expr | Scope) -> Columns:
        if isinstance(source, Scope):
            return self.result(source)
        alias = source.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            return [each.name for each in alias.args["columns"]]
        if not isinstance(source, exp.Table) or source.db or not isinstance(source.this, exp.Identifier):
            return None
        return self._views.get(source.name.casefold())

    def _judge(self, column: exp.Column, names: _Names) -> Iterator[Problem]:
        first, *fields = column.parts
        if isinstance(first, exp.Star) or column.find_ancestor(exp.Hint, exp.Kwarg) is not None:
            return
        name = first.name
        if fields and name.casefold() in names.sources:
            columns, of, first = names.sources[name.casefold()], name, fields[0]
            if columns is not None and not isinstance(first, exp.Star) and first.name.casefold() not in columns:
                yield self._unknown(first, f"'{of}' has no column '{first.name}'", columns)
            return
        if names.columns is None or name.casefold() in names.others or name.casefold() in names.columns:
            return
        what = f"unknown column or view '{name}'" if fields else f"unknown column '{name}'"
        yield self._unknown(first, what, names.columns)

    @staticmethod
    def _unknown(identifier: exp.Expr, found: str, columns: Mapping[str, str]) -> Problem:
        start, known = identifier.meta.get("start"), tuple(columns.values())
        return Problem(start if isinstance(start, int) else 0, found, known, nearest(identifier.name, known))

    def _aliases(self, scope: Scope) -> frozenset[str]:
        """Return the names that a query and the queries around it give to their results, in lower case."""
        known = self._aliases_of.get(scope)
        if known is None:
            tree = scope.expression
            names = [alias.alias for alias in tree.find_all(exp.Alias)]
            names += [name.name for aliases in tree.find_all(exp.Aliases) for name in aliases.aliases]
            outer = self._aliases(scope.parent) if scope.parent is not None else frozenset()
            known = self._aliases_of[scope] = outer.union(map(str.casefold, names))
        return known


class _Names:
    """The names that a column may have in one scope."""

    def __init__(self, sources: Mapping[str, Columns], others: Set[str]) -> None:
        """`others`: names in lower case that are not columns of a view."""
        self.others = others
        self.sources = {name: None if found is None else _by_name(found) for name, found in sources.items()}
        self.columns: dict[str, str] | None = None
        """Columns of all views; None without a view, or if the columns of one are not known."""
        if sources and None not in sources.values():
            self.columns = _by_name(each for found in sources.values() for each in found or ())


def _by_name(columns: Iterable[str]) -> dict[str, str]:
    """Return columns by their names in lower case."""
    return {name.casefold(): name for name in columns}
