"""What a target table looks like, read from information_schema, which both servers keep in the same words."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Final

from connectors.sql.mysql.engine import Session, quote
from connectors.sql.mysql.errors import ServerError
from eos.errors import TargetError

_NO_DATABASE: Final = "the url names no database"
_MEMBER: Final = re.compile(r"'((?:[^'\\]|''|\\.)*)'", re.DOTALL)
_ESCAPES: Final = {"''": "'", "\\\\": "\\", "\\n": "\n", "\\r": "\r", "\\0": "\0"}
_OF_SERVER: Final = frozenset({"mysql", "sys", "information_schema", "performance_schema"})
_LAST_CHARACTER: Final = "\uffff"  # of a name, on both servers; a question about a longer one is an error


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """One column as the server declares it."""

    name: str
    type: str  # `decimal`, without arguments
    declared: str  # `decimal(10,2) unsigned`
    nullable: bool
    filled: bool  # by a default or by AUTO_INCREMENT, where the rows do not give it
    generated: bool
    automatic: bool = False  # by AUTO_INCREMENT
    collation: str = ""  # of text
    precision: int = 0  # decimal digits, or bits
    scale: int = 0
    fraction: int = 0  # digits of a second's fraction
    members: tuple[str, ...] = ()  # of ENUM and SET
    latest: str = ""  # moment of a TIMESTAMP, in UTC

    @property
    def required(self) -> bool:
        """NOT NULL, and nothing fills it in where the rows do not give it."""
        return not (self.nullable or self.filled or self.generated)

    @property
    def unsigned(self) -> bool:
        """Whether the integer type is unsigned."""
        return "unsigned" in self.declared


@dataclass(frozen=True, slots=True)
class KeyPart:
    """One part of an index."""

    column: str | None  # None: an expression
    whole: bool = True  # False: only so many characters or bytes from its beginning


@dataclass(frozen=True, slots=True)
class UniqueIndex:
    """A unique index or the primary key."""

    name: str
    parts: tuple[KeyPart, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """A table that exists."""

    schema: str
    table: str
    engine: str
    columns: tuple[TargetColumn, ...]
    unique: tuple[UniqueIndex, ...]  # the primary key first

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"

    @property
    def quoted(self) -> str:
        """For a format string."""
        return f"{quote(self.schema)}.{quote(self.table)}"


def read_target(session: Session, name: str) -> Target:
    """As find_target. Raises TargetError where there is none."""
    found = find_target(session, name)
    if found is None:
        raise missing(session, name, "create it, or correct `table`")
    return found


def find_target(session: Session, name: str) -> Target | None:
    """Read the table `name`, which may begin with a schema. None: there is no such table.

    Raises TargetError for a table of the server's own, ServerError.
    """
    current = session.execute("SELECT DATABASE()")[0][0]
    possible = max(name, default="") <= _LAST_CHARACTER
    for schema, table in _readings(name, str(current) if current else None) if possible else ():
        if schema.lower() in _OF_SERVER:
            message = f"database {schema} is the server's own, and {name!r} names a table there"
            raise TargetError(message, remedy="write to a table of another database")
        rows = session.execute(
            "SELECT TABLE_SCHEMA, TABLE_NAME, COALESCE(ENGINE, TABLE_TYPE) FROM information_schema.TABLES"
            " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
            *(schema, table),
        )
        if rows:
            schema, table, engine = (str(part) for part in rows[0])
            return Target(schema, table, engine, _columns(session, schema, table), _unique(session, schema, table))
    return None


def _readings(name: str, current: str | None) -> list[tuple[str, str]]:
    """A name with a dot is a table of that very name, or a schema and a table; the first that exists is taken."""
    readings = [(current, name)] if current else []
    schema, dot, table = name.partition(".")
    return [*readings, (schema, table)] if dot else readings


def _columns(session: Session, schema: str, table: str) -> tuple[TargetColumn, ...]:
    rows = session.execute(
        "SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, IS_NULLABLE, COLUMN_DEFAULT, EXTRA, GENERATION_EXPRESSION,"
        " COALESCE(NUMERIC_PRECISION, 0), COALESCE(NUMERIC_SCALE, 0), COALESCE(DATETIME_PRECISION, 0), COLLATION_NAME"
        " FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION",
        *(schema, table),
    )
    no_default = (None, "NULL") if session.dialect.is_mariadb else (None,)  # there a string has quotes, NULL has none
    return tuple(
        TargetColumn(
            name=str(column),
            type=str(kind).lower(),
            declared=str(declared).lower(),
            nullable=nullable == "YES",
            filled=default not in no_default or _is_automatic(extra),
            generated=bool(expression),
            automatic=_is_automatic(extra),
            collation=str(collation or "").lower(),
            precision=int(precision),
            scale=int(scale),
            fraction=int(fraction),
            members=_members(str(declared)) if str(kind).lower() in ("enum", "set") else (),
            latest=session.dialect.latest_timestamp,
        )
        for column, kind, declared, nullable, default, extra, expression, precision, scale, fraction, collation in rows
    )


def _members(declared: str) -> tuple[str, ...]:
    """Of `enum('a','b''c')`."""
    found = _MEMBER.findall(declared)
    return tuple(re.sub(r"''|\\.", lambda each: _ESCAPES.get(each[0], each[0]), member) for member in found)


def _is_automatic(extra: object) -> bool:
    return "auto_increment" in str(extra).lower()


def _unique(session: Session, schema: str, table: str) -> tuple[UniqueIndex, ...]:
    rows = session.execute(
        "SELECT INDEX_NAME, COLUMN_NAME, SUB_PART FROM information_schema.STATISTICS"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND NON_UNIQUE = 0"
        " ORDER BY INDEX_NAME <> 'PRIMARY', INDEX_NAME, SEQ_IN_INDEX",
        *(schema, table),
    )
    indexes: dict[str, list[KeyPart]] = {}
    for index, column, characters in rows:
        part = KeyPart(None if column is None else str(column), whole=characters is None)
        indexes.setdefault(str(index), []).append(part)
    return tuple(UniqueIndex(name, tuple(parts)) for name, parts in indexes.items())


def missing(session: Session, name: str, remedy: str) -> TargetError:
    """That there is no such table, with the nearest name."""
    current = session.execute("SELECT DATABASE()")[0][0]
    schema = name.partition(".")[0] if current is None else current
    if max(name, default="") > _LAST_CHARACTER:
        message = f"there is no table {name!r}: names hold no characters beyond U+FFFF on these servers"
        return TargetError(message, remedy="write the name as SHOW TABLES shows it")
    if current is None and "." not in name:
        return TargetError(_NO_DATABASE, remedy="end the url with /<database>, or write table: <database>.<table>")
    try:
        rows = session.execute("SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s", schema)
    except ServerError:
        rows = []
    near = difflib.get_close_matches(name.rpartition(".")[2] or name, [str(row[0]) for row in rows], n=3)
    hint = f"; nearest: {', '.join(near)}" if near else ""
    message = f"there is no table {name!r} in database {schema}{hint}"
    return TargetError(message, remedy=remedy)
