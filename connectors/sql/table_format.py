"""The format of the tables `eos_*`, in a comment on each, so that a version never works on tables that it misreads.

Pipelines share these tables, and each has a head of its own: the format of a head says nothing about tables that the
newer version of another pipeline has changed. The comment is set by the statement, or in the transaction, that creates
the table. So it takes no right and no table besides, and a dump, a replica or a copy of the table has it.

A table without such a comment is of format 1: versions that knew no format made it, or an administrator did.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from sqlalchemy import Dialect, Table
from sqlalchemy.schema import CreateTable, SetTableComment

from eos.errors import HeadFormatError
from twophase.codec import check_readable

FORMAT: Final = 1
COMMENT: Final = f"eos_format {FORMAT}"
"""What this version writes; a later one may add `, least_reader N` (twophase.codec). Words of an administrator may
stand around it."""

_COMMENT: Final = re.compile(r"\beos_format\b(?: (?P<format>\d{1,9})(?:, least_reader (?P<least_reader>\d{1,9}))?\b)?")
_REMEDY: Final = (
    "run the version of eos that changed these tables, or a newer one, for every pipeline whose tables are there"
)


def creating(table: Table, dialect: Dialect, *, if_missing: bool = False) -> list[str]:
    """Return the statements that create the table with its format, for one transaction.

    Args:
        if_missing: for an administrator, who may run them twice. Otherwise they fail where the table exists, so that
            they never lower the format of a table that a newer version has created at the same moment.
    """
    create = str(CreateTable(table, if_not_exists=if_missing).compile(dialect=dialect)).strip()
    if not dialect.supports_comments:
        return [create.replace("(", f"(/* {table.comment} */", 1)]  # SQLite keeps the text of the statement
    if dialect.inline_comments:
        return [create]
    return [create, str(SetTableComment(table).compile(dialect=dialect))]


def reading(comment_of: str, tables: Iterable[Table]) -> str:
    """Return one query for name and comment of each table that exists. `comment_of`: see statements.Connected."""
    return " UNION ALL ".join(comment_of.format(each.name) for each in tables)


def check_formats(comments: Iterable[tuple[Any, ...]], where: str) -> None:
    """Raise HeadFormatError, which names the tables and both formats, unless this version may work on all of them.

    Args:
        comments: the rows of `reading`.
        where: the database, for people.
    """
    names: dict[tuple[object, object], list[str]] = {}
    for name, comment in comments:
        found = _format_of(str(name), str(comment or ""), where)
        names.setdefault((found["format"], found.get("least_reader")), []).append(str(name))
    for (written, least), of_format in names.items():
        document = {"format": written, **({} if least is None else {"least_reader": least})}
        check_readable(document, f"the group of tables {', '.join(of_format)} at {where}", FORMAT, _REMEDY)


def _format_of(name: str, comment: str, where: str) -> Mapping[str, int]:
    found = _COMMENT.search(comment)
    if found is None:
        return {"format": 1}
    document = {key: int(value) for key, value in found.groupdict().items() if value is not None}
    if "format" not in document:
        message = f"the comment of table {name} at {where} is damaged: it begins as a format, and names none"
        raise HeadFormatError(message, remedy=f"write the comment {COMMENT!r} where this version created the table")
    return document
