"""Whether MySQL or MariaDB can merge rows into a table: ON DUPLICATE KEY names no index, and takes any for the key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from connectors.sql.log.merging import check_key
from connectors.sql.mysql.partitioning import EXACT_TYPES, is_exact
from connectors.sql.mysql.target import Target


def problems(target: Target, key: Sequence[str], kinds: Mapping[str, pa.DataType] | None = None) -> list[str]:
    """What keeps rows from being merged.

    Args:
        target: the table.
        key: columns of it.
        kinds: types of what is written, by column of the table; None: they fit exactly, or have been looked at before.
    """
    unique = {
        index.name: [part.column.lower() if part.column and part.whole else None for part in index.parts]
        for index in target.unique
    }
    exact = {
        column.name.lower()
        for column in target.columns
        if is_exact(column, None if kinds is None else kinds.get(column.name, pa.null()))
    }
    return check_key([name.lower() for name in key], unique, exact, EXACT_TYPES)
