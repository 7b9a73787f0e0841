"""Target tables, read from the server's catalog. COPY into a partitioned table writes to each of its leaves."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from typing import Final

from connectors.sql.postgres.engine import Session, quote
from eos.errors import TargetError

LONGEST_NAME: Final = 63
"""Bytes of a name, of a server as it is built."""
_SYSTEM_PREFIX: Final = "pg_"  # no other schema may begin with it
_KINDS: Final = {"r": "a table", "p": "a partitioned table"}


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """One column as the server declares it."""

    name: str
    type: str  # of pg_type: `int4`, `varchar`; `enum` for any of those
    declared: str  # `numeric(10,2)`
    nullable: bool
    filled: bool  # by a default or an identity, where the rows do not give it
    generated: bool  # cannot be written
    automatic: bool  # by a counter
    length: int | None = None  # characters of char and varchar; None: any
    precision: int | None = None  # decimal digits of numeric; None: any
    scale: int = 0
    fraction: int = 6  # digits of a second's fraction
    members: tuple[str, ...] = ()  # of an enum

    @property
    def required(self) -> bool:
        """NOT NULL, and nothing fills it in where the rows do not give it."""
        return not (self.nullable or self.filled or self.generated)


@dataclass(frozen=True, slots=True)
class UniqueIndex:
    """A unique index, the primary key or an exclusion constraint; its columns, None for an expression."""

    name: str
    columns: tuple[str | None, ...]
    exact: bool  # values that are one key are equal in every digit and byte, and NULL is none
    arbiter: bool = True  # ON CONFLICT finds it by its columns: it holds for every row of the table, at once


@dataclass(frozen=True, slots=True)
class Target:
    """A table that exists."""

    schema: str
    table: str
    persistence: str  # `p`: written to the log of the server; `u`: unlogged, `t`: temporary
    columns: tuple[TargetColumn, ...]
    unique: tuple[UniqueIndex, ...]

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

    Raises TargetError for a name of something else and for partitions that cannot be written to, ServerError.
    """
    for schema, table in _readings(name):
        rows = session.execute(
            "SELECT c.oid, n.nspname, c.relname, c.relkind::text, c.relpersistence::text FROM pg_class c"
            " JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE c.relname = %s AND (n.nspname = %s OR (%s IS NULL AND pg_table_is_visible(c.oid)))",
            *(table, schema, schema),
        )
        if rows:
            oid, schema, table, kind, persistence = rows[0]
            if schema.startswith(_SYSTEM_PREFIX) or schema == "information_schema":
                raise TargetError(f"{schema}.{table} is a table of the server's own", remedy="write to another table")
            if kind not in _KINDS:
                message = f"{schema}.{table} is no table that rows can be copied into (relkind {kind})"
                raise TargetError(message, remedy="write to a table")
            if kind == "p":
                check_leaves(session, oid, f"{schema}.{table}")
                persistence = "p"  # it holds no row of its own; UNLOGGED says nothing of it, and cannot be taken back
            return Target(str(schema), str(table), persistence, _columns(session, oid), _unique(session, oid))
    return None


def _readings(name: str) -> list[tuple[str | None, str]]:
    """A name with a dot is a table of that very name, or a schema and a table; the first that exists is taken.

    A name that is too long is left out: the server would cut it off, and find another table.
    """
    schema, dot, table = name.partition(".")
    readings = [(None, name), (schema, table)] if dot else [(None, name)]
    return [each for each in readings if all(len((part or "").encode()) <= LONGEST_NAME for part in each)]


def _columns(session: Session, oid: int) -> tuple[TargetColumn, ...]:
    rows = session.execute(
        "SELECT a.attname, CASE WHEN b.typtype = 'e' THEN 'enum' ELSE b.typname END,"
        " format_type(a.atttypid, a.atttypmod), NOT (a.attnotnull OR t.typnotnull), a.atthasdef OR a.attidentity <> ''"
        " OR t.typdefault IS NOT NULL, a.attgenerated <> '' OR a.attidentity = 'a',"
        " a.attidentity <> '' OR COALESCE(pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%%', false),"
        " CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END,"
        " ARRAY(SELECT e.enumlabel::text FROM pg_enum e WHERE e.enumtypid = b.oid ORDER BY e.enumsortorder)"
        " FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid"
        " JOIN pg_type b ON b.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END"
        " LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum"
        " WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
        oid,
    )
    return tuple(replace(_column(*row), members=tuple(members)) for *row, members in rows)


def _column(
    name: str, kind: str, declared: str, nullable: bool, filled: bool, generated: bool, automatic: bool, modifier: int
) -> TargetColumn:
    """The modifier holds the length plus 4, or precision and scale (src/backend/utils/adt/numeric.c)."""
    length = precision = None
    scale, fraction = 0, 6
    if modifier >= 0 and kind in ("varchar", "bpchar"):
        length = modifier - 4
    elif modifier >= 0 and kind == "numeric":
        precision, scale = (modifier - 4) >> 16, (((modifier - 4) & 0x7FF) ^ 1024) - 1024
    elif modifier >= 0 and kind in ("timestamp", "timestamptz", "time", "timetz"):
        fraction = modifier
    return TargetColumn(
        name, kind, declared, nullable, filled, generated, automatic, length, precision, scale, fraction
    )


def _unique(session: Session, oid: int) -> tuple[UniqueIndex, ...]:
    """Those of the table, and those that a partition has to itself: rows of the table meet them, too (H15)."""
    rows = session.execute(
        f"{TREE} SELECT c.relname,"
        " ARRAY(SELECT a.attname FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k(number, place)"
        " LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number AND k.number > 0"
        " WHERE k.place <= i.indnkeyatts ORDER BY k.place),"
        # NULLS NOT DISTINCT came with PostgreSQL 15, and the column that tells of it.
        " i.indisunique AND NOT COALESCE((to_jsonb(i) ->> 'indnullsnotdistinct')::bool, false)"
        " AND NOT EXISTS (SELECT 1 FROM unnest(i.indcollation::oid[]) AS o(oid) JOIN pg_collation l ON l.oid = o.oid"
        " WHERE NOT l.collisdeterministic), i.indimmediate AND i.indisvalid AND i.indpred IS NULL"
        " AND i.indrelid = %s FROM tree JOIN pg_index i ON i.indrelid = part JOIN pg_class c ON c.oid = i.indexrelid"
        " WHERE (i.indisunique OR i.indisexclusion) AND (i.indrelid = %s"
        " OR NOT EXISTS (SELECT 1 FROM pg_inherits h WHERE h.inhrelid = i.indexrelid))"
        " ORDER BY i.indrelid <> %s, i.indisprimary DESC, c.relname",
        *(oid, oid, oid, oid),
    )
    return tuple(UniqueIndex(str(name), tuple(columns), exact, arbiter) for name, columns, exact, arbiter in rows)


def missing(session: Session, name: str, remedy: str) -> TargetError:
    """That there is no such table, with the nearest name; or that this user may look nowhere for it."""
    if session.execute("SELECT current_schema()")[0][0] is None:
        message = f"table {name} is not found: this user may use no schema of its search_path"
        return TargetError(message, remedy="grant USAGE on the table's schema (docs/how-to/security.md)")
    rows = session.execute(
        "SELECT c.relname FROM pg_class c WHERE c.relkind IN ('r', 'p') AND pg_table_is_visible(c.oid)"
        " AND c.relname NOT LIKE 'pg\\_%%' AND c.relname NOT LIKE 'eos\\_%%'"
    )
    near = difflib.get_close_matches(name, [str(table) for (table,) in rows], 3)
    message = f"table {name} does not exist" + (f"; nearest: {', '.join(near)}" if near else "")
    return TargetError(message, remedy=remedy)


TREE: Final = (
    "WITH RECURSIVE tree AS (SELECT %s::oid AS part UNION ALL SELECT h.inhrelid FROM pg_inherits h"
    " JOIN tree t ON t.part = h.inhparent JOIN pg_class c ON c.oid = h.inhparent AND c.relkind = 'p')"
)
"""The start of a statement: a table and its partitions, at every level. Takes no lock on them, as pg_partition_tree
does, so that one that somebody rewrites stops nobody. Children by plain inheritance get no rows of their parent's."""

_CROSSING: Final = (
    "it is a foreign table, whose rows another server commits by itself",
    "detach <partition>, and keep its rows in a table of this server",
)
_FLEETING: Final = (
    "it is unlogged or temporary: a crash of the server would empty it",
    "ALTER TABLE <partition> SET LOGGED",
)


def check_leaves(session: Session, oid: int, table: str) -> None:
    """Raises TargetError for a partition that does not share the fate of a transaction that writes to it, ServerError.

    Args:
        session: asks the server.
        oid: of the partitioned table.
        table: its name, for people.
    """
    rows = session.execute(
        f"{TREE} SELECT n.nspname, c.relname, c.relkind::text FROM tree JOIN pg_class c ON c.oid = part"
        " JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE c.relkind <> 'p' AND (c.relkind <> 'r' OR c.relpersistence <> 'p') ORDER BY n.nspname, c.relname",
        oid,
    )
    if not rows:
        return
    (schema, name, kind), *others = rows
    more = f" ({len(others)} more are such)" if others else ""
    reason, remedy = _FLEETING if kind == "r" else _CROSSING
    quoted = f"{quote(schema)}.{quote(name)}".replace("%%", "%")
    message = f"partition {schema}.{name} of {table} is no target: {reason}{more}"
    raise TargetError(message, remedy=remedy.replace("<partition>", quoted))
