"""What `eos doctor` says of a SQLite sink. Changes nothing, apart from the lock that it takes and gives back."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, Table, inspect, make_url
from sqlalchemy.exc import DBAPIError

from connectors.api.contracts import Finding
from connectors.log.place import late_refusal
from connectors.sql import head
from connectors.sql.slots import LOG_TABLES
from connectors.sql.sqlite.database import COMMENT_OF, Database, empty, open_url
from connectors.sql.sqlite.errors import SqliteError
from connectors.sql.sqlite.target import find_table, missing
from connectors.sql.table_format import check_formats, reading
from eos.errors import ConnectorError
from wal.errors import WalError
from wal.filesystem import refuse_network_filesystem

_Ahead = Callable[[Connection], Iterator[Finding]]

_OLDEST: Final = (3, 31, 0)  # the pragma that lists generated columns
_KEYS: Final = ("a primary key", "unique constraints", "unique indexes")
_DURABLE: Final = ("delete", "truncate", "persist", "wal")


def findings(
    path: Path,
    table: str,
    compare: Callable[[], Sequence[str]] | None,
    ahead: _Ahead,
    *,
    merged: bool = False,
    missing: bool = False,
) -> Sequence[Finding]:
    """Every check, in the order in which they would stop a run.

    Args:
        path: of the database.
        table: the target; empty for a sink of several tables.
        compare: compares the rows with the table, where they are known; returns what is written, raises ConnectorError.
        ahead: what a run would make.
        merged: whether rows are merged, so that the table's one key refuses none.
        missing: whether the file is missing, and a run creates it.
    """
    checks: dict[str, Callable[[], Iterator[Finding]]] = {
        "SQLite version": _version,
        "database location": partial(_location, path),
        "database": partial(_database, path),
        "own tables": partial(_own_tables, path),
        "target table": partial(_target, path, table, compare, ahead),
        "constraints": partial(_constraints, path, table, merged=merged),
    }
    if missing:
        del checks["own tables"], checks["constraints"]
        checks["database"] = partial(_file_ahead, path)
        checks["target table"] = partial(_target_ahead, compare, ahead)
    if not table:
        del checks["target table"]
        checks.pop("constraints", None)
    found: list[Finding] = []
    for name, check in checks.items():
        try:
            found.extend(check())
        except (ConnectorError, WalError) as error:
            found.append(Finding(name, ok=False, detail=error.message, remedy=error.remedy))
    return found


def head_findings(name: str, url: str) -> Sequence[Finding]:
    """See DatabaseKind. None of a file that is missing: looking would create it."""
    path = make_url(url).database
    if not path or not Path(path).is_file():
        return []
    check = f"{name}: own tables"
    engine = open_url(url, 0)
    try:
        with engine.connect() as connection:
            names = _readable(connection, head.TABLES, path)
    except ConnectorError as error:
        return [Finding(check, False, error.message, error.remedy)]
    except DBAPIError as error:
        problem = SqliteError(Path(path), error.orig).connector_error("")
        return [Finding(check, False, problem.message, problem.remedy)]
    finally:
        engine.dispose()
    return [Finding(check, True, f"{names} are there; a start creates what is missing")]


def _own_tables(path: Path) -> Iterator[Finding]:
    with Database(path).reading() as connection:
        names = _readable(connection, LOG_TABLES, str(path))
    yield Finding("own tables", True, f"{names} are there; a start creates what is missing")


def _readable(connection: Connection, tables: Sequence[Table], where: str) -> str:
    """Return the names of the tables that are there, for people. Raises HeadFormatError."""
    found = [tuple(row) for row in connection.exec_driver_sql(reading(COMMENT_OF, tables))]
    check_formats(found, where)
    return ", ".join(str(name) for name, _ in found) or "none"


def _version() -> Iterator[Finding]:
    ok = sqlite3.sqlite_version_info >= _OLDEST
    remedy = "" if ok else f"use a Python with SQLite {'.'.join(map(str, _OLDEST))} or newer"
    yield Finding("SQLite version", ok, sqlite3.sqlite_version, remedy)


def _location(path: Path) -> Iterator[Finding]:
    refuse_network_filesystem(path)
    yield Finding("database location", ok=True, detail=f"{path} is on a local disk")


def _database(path: Path) -> Iterator[Finding]:
    with Database(path).writing() as connection:  # the lock shows that the file can be written
        mode = str(connection.exec_driver_sql("PRAGMA journal_mode").scalar_one())
    ok = mode in _DURABLE
    remedy = "" if ok else "PRAGMA journal_mode=WAL, or DELETE: without a journal a crash leaves half a checkpoint"
    yield Finding("database", ok, f"{path} can be written; journal mode {mode}", remedy)


def _file_ahead(path: Path) -> Iterator[Finding]:
    is_writable = os.access(path.parent, os.W_OK | os.X_OK)
    remedy = "" if is_writable else f"create the folder {path.parent}, with the right to write there"
    yield Finding("database", is_writable, f"{path} is missing; will be created", remedy)


def _target_ahead(compare: Callable[[], Sequence[str]] | None, ahead: _Ahead) -> Iterator[Finding]:
    with empty() as connection:
        yield from ahead(connection)
    if compare is not None:
        compare()


def _target(path: Path, table: str, compare: Callable[[], Sequence[str]] | None, ahead: _Ahead) -> Iterator[Finding]:
    with Database(path).reading() as connection:
        made = list(ahead(connection))
        found = find_table(connection, table)
        if found is None and compare is None and not made:
            raise missing(connection, table, "create it, or let a run do so: create: if-missing")
    yield from made
    if found is None and made:
        return
    takes = f"{table} has {len(found.columns)} columns" if found is not None else ""
    if compare is not None:
        takes = f"{table} takes {', '.join(compare())}"
    yield Finding("target table", ok=True, detail=takes)


def _constraints(path: Path, table: str, *, merged: bool) -> Iterator[Finding]:
    with Database(path).reading() as connection:
        kinds = [kind for kind in _constraint_kinds(connection, table) if not (merged and kind in _KEYS)]
    none = Finding("constraints", ok=True, detail=f"{table} has none that could refuse a row")
    yield late_refusal(kinds) if kinds else none


def _constraint_kinds(connection: Connection, table: str) -> list[str]:
    inspector = inspect(connection)
    if not inspector.has_table(table):
        return []
    found = {
        "a primary key": inspector.get_pk_constraint(table)["constrained_columns"],
        "unique constraints": inspector.get_unique_constraints(table),
        "unique indexes": [each for each in inspector.get_indexes(table) if each["unique"]],
        "check constraints": inspector.get_check_constraints(table),
        "triggers": connection.exec_driver_sql(
            "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND lower(tbl_name) = lower(?)", (table,)
        ).all(),
    }
    return [kind for kind, members in found.items() if members]
