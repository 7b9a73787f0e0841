"""The outcome of a format whose records bring their own schemas."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from connectors.api.decoding import DecodedTables, SelfDescribingFormat, TableRows


def decode_tables(
    decoder: SelfDescribingFormat, values: Sequence[bytes | None], keys: Sequence[bytes | None] = ()
) -> DecodedTables:
    """Decode records. Each is in exactly one part of the outcome, and each table in one `TableRows`."""
    column = pa.array(keys or [None] * len(values), pa.binary())
    decoded = decoder.decode_tables(column, pa.array(values, pa.binary()))
    places: list[int] = []
    for table in decoded.tables:
        table.rows.validate(full=True)
        own = table.places.tolist()
        assert own == sorted(set(own))
        assert len(own) == table.rows.num_rows > 0
        assert set(table.key) <= set(table.rows.schema.names)
        places += own
    kinds = [(table.name, table.key, str(table.rows.schema)) for table in decoded.tables]
    assert len(set(kinds)) == len(kinds)
    assert [each.index for each in decoded.bad] == sorted(each.index for each in decoded.bad)
    assert list(decoded.omitted) == sorted(decoded.omitted)
    assert sorted([*places, *(each.index for each in decoded.bad), *decoded.omitted]) == list(range(len(values)))
    return decoded


def table(decoded: DecodedTables, name: str) -> TableRows:
    """Return the only rows of the table."""
    (found,) = [each for each in decoded.tables if each.name == name]
    return found


def bad(decoded: DecodedTables) -> list[tuple[int, str]]:
    """Return why records are bad."""
    return [(each.index, each.reason) for each in decoded.bad]
