"""The columns of the sources from which each column of a step is computed, as far as SQL shows it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from connectors.spec.spec import Spec
from connectors.spec.sql_syntax import parse
from connectors.spec.steps import SqlStep

if TYPE_CHECKING:
    from sqlglot.lineage import Node

Types = Mapping[str, str]
"""Type by column, as Spark writes it."""

Origins = Mapping[str, frozenset[tuple[str, str]]] | None
"""By column in lower case: source and column of each origin. None: not known."""


def origins(spec: Spec, sources: Mapping[str, Types]) -> Mapping[str, Origins]:
    """Return the origins by source and step.

    They are not known behind a step in Python, and where sqlglot does not understand a query. A column that only
    decides which rows there are, in a condition or a grouping, is no origin.
    """
    known: dict[str, Origins] = {
        name: {column.casefold(): frozenset({(name, column)}) for column in columns}
        for name, columns in sources.items()
    }
    for step in spec.transforms:
        known[step.name] = _of_query(step.sql, known) if isinstance(step, SqlStep) else None
    return known


def _of_query(sql: str, views: Mapping[str, Origins]) -> Origins:
    """Return the origins of a query's columns, given the origins in the views."""
    from sqlglot.lineage import lineage
    from sqlglot.schema import MappingSchema

    tree, _ = parse(sql)
    if tree is None:
        return None
    by_name = {name.casefold(): of for name, of in views.items()}
    try:
        schema = MappingSchema(
            {name: dict.fromkeys(of, "string") for name, of in by_name.items() if of}, dialect="spark"
        )
        columns: Mapping[str, Node] = lineage(None, tree, schema, dialect="spark")
        return {name.casefold(): _at_leaves(node, by_name) for name, node in columns.items()}
    except Exception:  # noqa: BLE001  # of sqlglot, or a view without known origins: nothing depends on the answer
        return None


def _at_leaves(node: Node, views: Mapping[str, Origins]) -> frozenset[tuple[str, str]]:
    """Raises KeyError or TypeError for a column whose origins are not known."""
    from sqlglot import exp

    found: set[tuple[str, str]] = set()
    for leaf in node.walk():
        if isinstance(leaf.source, exp.Table):
            of = views[leaf.source.name.casefold()]
            assert of is not None
            found |= of[exp.to_column(leaf.name).name.casefold()]
    return frozenset(found)
