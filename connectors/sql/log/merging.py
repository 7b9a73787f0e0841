"""What merging asks of every database: rows apart from deletions, and what becomes of a row that is there already."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from connectors.log.merge import GONE, Merge


def split(batch: pa.RecordBatch, merge: Merge) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Return the deletions, with the columns that they write or find a row by, and the rows that stay."""
    gone = batch.column(GONE)
    names = [name for name in batch.schema.names if name != GONE]
    return batch.filter(gone).select(list(merge.marked)), batch.filter(pc.invert(gone)).select(names)


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


def tombstone_problems(merge: Merge, required: Collection[str]) -> list[str]:
    """Return why a deletion of a key that the table lacks cannot be stored, which an order needs.

    `required`: columns of the table that are NOT NULL, and that nothing fills in.
    """
    if merge.order_by is None or merge.deleted_at is None or not (left := sorted({*required} - {*merge.marked})):
        return []
    return [
        f"a deletion of a key that the table lacks gives {', '.join(left)} no value: let these columns be nullable, or "
        "have a default"
    ]


def on_conflict(quote: Callable[[str], str], merge: Merge, names: Sequence[str], bytewise: str) -> str:
    """Return the end of an INSERT INTO a table AS t in PostgreSQL and SQLite. `bytewise`: see `is_newer`."""
    target = f"ON CONFLICT ({', '.join(quote(name) for name in merge.key)}) DO"
    if merge.keep:
        return f"{target} NOTHING"
    rest = [name for name in names if name not in merge.key] or list(merge.key)
    sets = ", ".join(f"{quote(name)} = excluded.{quote(name)}" for name in rest)
    condition = "" if merge.order_by is None else f" WHERE {is_newer(quote, merge, 'excluded', bytewise)}"
    return f"{target} UPDATE SET {sets}{condition}"


def is_newer(quote: Callable[[str], str], merge: Merge, staged: str, bytewise: str) -> str:
    """Return the condition for a row of `staged` to take the place of the stored row t, by the order.

    `bytewise`: the collation that compares text byte by byte.
    """
    assert merge.order_by is not None
    name, collation = quote(merge.order_by), f" COLLATE {bytewise}" if merge.text_order else ""
    return f"(t.{name} IS NULL OR {staged}.{name}{collation} >= t.{name}{collation})"
