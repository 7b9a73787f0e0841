"""What a partitioned table is made of: COPY into it writes to its leaves, each of which has a nature of its own."""

from __future__ import annotations

from typing import Final

from connectors.sql.postgres.engine import Session, quote
from eos.errors import TargetError

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
