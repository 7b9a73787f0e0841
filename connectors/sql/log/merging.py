"""What merging asks of every database: rows apart from deletions, and what becomes of a row that is there already."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from connectors.log.keyed import GONE


def split(batch: pa.RecordBatch, key: Sequence[str]) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The keys that go, and the rows that stay."""
    gone = batch.column(GONE)
    names = [name for name in batch.schema.names if name != GONE]
    return batch.filter(gone).select(list(key)), batch.filter(pc.invert(gone)).select(names)


def check_key(
    key: Sequence[str], unique: Mapping[str, Sequence[str | None]], exact: Collection[str], exact_types: str
) -> list[str]:
    """What keeps a table from being merged into by this key.

    Args:
        key: columns of the table.
        unique: the columns of each unique index that could refuse a row; None for an expression, a part of a column, or
            what else keeps rows from being merged by it.
        exact: columns in which two values are one key only if they are the same in the log, digit by digit or byte by
            byte. In others a task could not tell which row of a key is the newest, and a slot would find two.
        exact_types: what such a column can be, for the message.
    """
    wanted = sorted(key)
    fits = {name for name, columns in unique.items() if sorted(c or "" for c in columns) == wanted}
    others = ", ".join(sorted(unique.keys() - fits))
    problems = [
        f"in key column {name} the database takes values for equal that are not the same, and which row is newer could "
        f"not be told: let it be {exact_types}"
        for name in key
        if name not in exact
    ]
    if not fits:
        problems.append(f"no unique index is on {', '.join(key)} and nothing else: CREATE UNIQUE INDEX … is needed")
    if others:
        problems.append(f"unique index {others} is on other columns: a row could be another key's there")
    return problems


def on_conflict(quote: Callable[[str], str], key: Sequence[str], names: Sequence[str]) -> str:
    """The end of an INSERT in PostgreSQL and SQLite."""
    rest = [name for name in names if name not in key] or list(key)
    sets = ", ".join(f"{quote(name)} = excluded.{quote(name)}" for name in rest)
    return f"ON CONFLICT ({', '.join(quote(name) for name in key)}) DO UPDATE SET {sets}"
