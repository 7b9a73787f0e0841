"""The SQL of all steps, checked on the document: views that do not exist, misspelled keywords, unknown columns.

Only certain mistakes are reported. Spark parses and resolves every query at a start, and reports the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from connectors.api import plugins
from connectors.api.document import Document, Items, Section
from connectors.api.entry import SourceEntry
from connectors.api.mistakes import nearest
from connectors.spec.flow import command_in
from connectors.spec.sql_syntax import Columns, Problem, parse
from connectors.spec.table_names import tables_in

_CATALOGS: Final = (
    *("spark.sql.catalog", "spark.sql.extensions", "spark.sql.warehouse.", "spark.sql.defaultCatalog"),
    *("spark.sql.hive.", "spark.hadoop."),
)
"""Beginnings of Spark's settings by which a query may find a table that no source and no step is."""


def check_sql(document: Document) -> Mapping[str, Columns]:
    """Report the mistakes in the SQL of all steps.

    Returns:
        By the name of a source or step, its columns; None where they are not known. Empty if no step has SQL.
    """
    steps = _sections(document.root, "transforms")
    if not any(isinstance(step.get("sql"), str) for _, step in steps):
        return {}
    columns = {
        name: _source_columns(document, source)
        for _, source in _sections(document.root, "sources")
        if isinstance(name := source.get("name"), str)
    }
    only_views = not _has_catalog(document.root)
    later = [str(step.get("name")) for _, step in steps]
    with _quiet():
        for index, step in steps:
            later.pop(0)
            sql, path = step.get("sql"), ("transforms", index, "sql")
            own: Columns = None
            if isinstance(sql, str) and not command_in(sql):
                problems, own = _check_step(sql, columns, later if only_views else None)
                for problem in problems:
                    document.report(path, problem.located(sql), problem.allowed, problem.suggestion)
            only_views &= "python" not in step  # the code of such a step may create further views
            if isinstance(name := step.get("name"), str):
                columns[name] = own
                _check_watermark(document, index, step, own)
    return columns


def _sections(root: Section, group: str) -> list[tuple[int, Section]]:
    items = root.get(group)
    entries = enumerate(items if isinstance(items, Items) else ())
    return [(index, entry) for index, entry in entries if isinstance(entry, Section)]


def _source_columns(document: Document, source: Section) -> Columns:
    """Return the columns of a source's rows; None if its entry is wrong, which is reported elsewhere."""
    own = replace(document, mistakes=[], meant=set())
    try:
        model = plugins.load(plugins.SOURCES, str(source.get("connector")), SourceEntry)
        found = model.model_validate(source, context=own).columns
    except (Exception, SystemExit):  # noqa: BLE001  # also of a plugin
        return None
    return list(map(str, found)) if isinstance(found, (list, tuple)) else None


def _has_catalog(root: Section) -> bool:
    """Return whether Spark's settings may bring tables that the spec does not name."""
    spark = root.get("spark")
    conf = spark.get("conf") if isinstance(spark, Section) else None
    return isinstance(conf, Section) and any(str(key).startswith(_CATALOGS) for key in conf)


def _check_step(sql: str, columns: Mapping[str, Columns], later: list[str] | None) -> tuple[list[Problem], Columns]:
    """Return the mistakes of one query, and the columns of its result.

    `later`: the steps that follow; None: the query may read tables that are not in the spec.
    """
    tree, problems = parse(sql)
    if later is not None:
        problems += _unknown_views(sql, list(columns), later)
    if tree is None:
        return problems, None
    from connectors.spec.sql_columns import check_columns  # loads sqlglot's scopes

    found, own = check_columns(tree, {name.casefold(): known for name, known in columns.items()})
    return problems + found, own


def _unknown_views(sql: str, earlier: list[str], later: list[str]) -> Iterator[Problem]:
    known = {name.casefold() for name in earlier}
    for start, name in tables_in(sql):
        if name.casefold() in known:
            continue
        found = f"unknown source or step '{name}'"
        if name.casefold() in {each.casefold() for each in later}:
            found = f"'{name}' is a later step; steps read from earlier steps and sources"
        yield Problem(start, found, tuple(earlier), nearest(name, earlier))


def _check_watermark(document: Document, index: int, step: Section, columns: Columns) -> None:
    watermark = step.get("watermark")
    column = watermark.get("column") if isinstance(watermark, Section) else None
    if columns is None or not isinstance(column, str) or "." in column:
        return
    if column.casefold() not in {each.casefold() for each in columns}:
        found = f"the rows of '{step.get('name')}' have no column '{column}'"
        document.report(("transforms", index, "watermark", "column"), found, tuple(columns), nearest(column, columns))


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep sqlglot's warnings about queries that it does not read out of the log."""
    logger = logging.getLogger("sqlglot")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
