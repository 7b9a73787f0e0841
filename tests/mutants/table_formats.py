"""The format of the tables `eos_*`, which pipelines of several versions share."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_TESTS: Final = "tests/connectors/sql/test_table_formats.py::"
_RULE: Final = "docs/explanation/protocol.md, Formats"

MUTANTS: Final = (
    Mutant(
        name="tables are created beside those that a newer version has changed",
        rule=_RULE,
        path="connectors/sql/tables.py",
        before="    there = _check_formats(server, tables, where)\n",
        after="    there = set[str]()\n",
        caught_by=(f"{_TESTS}test_a_start_and_the_doctor_refuse_tables_of_another_format_and_change_nothing",),
    ),
    Mutant(
        name="tables that a newer version creates meanwhile are not compared",
        rule=_RULE,
        path="connectors/sql/tables.py",
        before="    if any(each.name not in there for each in tables):\n",
        after="    if missing:\n",
        caught_by=(f"{_TESTS}test_the_format_of_a_newer_version_that_creates_the_tables_at_the_same_moment_stays",),
    ),
    Mutant(
        name="a row without the column that a newer version has added is refused",
        rule=_RULE,
        path="connectors/sql/tables.py",
        before="""    return f"INSERT INTO {into.name} ({', '.join(columns)}) VALUES ({', '.join(values)})"\n""",
        after="""    return f"INSERT INTO {into.name} VALUES ({', '.join(values)})"\n""",
        caught_by=(f"{_TESTS}test_a_sink_works_on_tables_of_a_neighbouring_version_and_leaves_them_as_they_are",),
    ),
    Mutant(
        name="the comment of a table that another version has created is written over",
        rule=_RULE,
        path="connectors/sql/table_format.py",
        before="CreateTable(table, if_not_exists=if_missing)",
        after="CreateTable(table, if_not_exists=True)",
        caught_by=(f"{_TESTS}test_what_creates_a_table_fails_where_it_exists",),
    ),
    Mutant(
        name="a damaged comment counts as format 1",
        rule=_RULE,
        path="connectors/sql/table_format.py",
        before='    if "format" not in document:\n',
        after='    document.setdefault("format", 1)\n    if "format" not in document:\n',
        caught_by=(f"{_TESTS}test_a_start_and_the_doctor_refuse_tables_of_another_format_and_change_nothing",),
    ),
    Mutant(
        name="the tables of head are not compared",
        rule=_RULE,
        path="connectors/sql/head.py",
        before="        check_formats(map(tuple, found), self._place)\n",
        after="",
        caught_by=(f"{_TESTS}test_head_in_tables_of_another_format_is_refused_and_nothing_changes",),
    ),
    Mutant(
        name="the formats of head's tables are asked for by each statement",
        rule=_RULE,
        path="connectors/sql/head.py",
        before="            self._check_formats()\n        self._created = True\n",
        after="            self._check_formats()\n        self._created = bool(missing)\n",
        caught_by=(f"{_TESTS}test_the_format_of_head_is_asked_for_once",),
    ),
    Mutant(
        name="SQLite: a table that is missing while others are created is an error",
        rule="R2",
        path="connectors/sql/sqlite/errors.py",
        before="_UNKNOWN: Final = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_SCHEMA)",
        after="_UNKNOWN: Final = (sqlite3.SQLITE_ERROR,)",
        caught_by=(f"{_TESTS}test_a_table_that_is_missing_while_others_are_created_is_missing",),
    ),
)
