"""The plain way to find what is bad in a column: halve it until each bad value stands alone, and parse that per field.

So every version up to 0.1 has done it. It takes hundreds of times as long as the product's way, and says the same.
"""

from __future__ import annotations

import pyarrow as pa

from connectors.formats.json_values import _fault, _parse, _placed, _reason
from connectors.formats.plain import utf8_reason

_EXPLAINED = 100


def rows_of(batch: pa.RecordBatch) -> list[dict[str, str]]:
    """Its rows in Arrow's words: an instant of the year 0 is none of Python's."""
    at = range(batch.num_rows)
    named = zip(batch.schema.names, batch.columns, strict=True)
    texts = {name: [column.slice(row, 1).to_string() for row in at] for name, column in named}
    return [{name: column[row] for name, column in texts.items()} for row in at]


def halved(values: pa.Array, schema: pa.Schema) -> tuple[list[dict[str, str]], list[tuple[int, str]]]:
    """The rows of a column of JSON values, and index and reason of what is bad in it."""
    rows: list[dict[str, str]] = []
    bad: list[tuple[int, str]] = []

    def sift(part: pa.Array, first: int) -> None:
        if len(part) == 0:
            return
        try:
            rows.extend(rows_of(_parse(part, schema)))
        except ValueError as error:
            if len(part) == 1:
                reason = _explained(part, schema, error) if len(bad) < _EXPLAINED else _UNEXPLAINED
                bad.append((first, reason))
                return
            half = len(part) // 2
            sift(part.slice(0, half), first)
            sift(part.slice(half), first + half)

    sift(values, 0)
    return rows, bad


_UNEXPLAINED = "does not decode, as others of this batch"
_NO_FIELDS = pa.schema([])


def _explained(value: pa.Array, schema: pa.Schema, error: ValueError) -> str:
    if "Invalid UTF8" in str(error):
        return utf8_reason(value[0].as_py())
    if _fault(value, _NO_FIELDS) is None:
        for field in schema:
            if (fault := _fault(value, pa.schema([field]))) is not None:
                return _reason(fault, field.name)
    return _placed(_reason(error, None), value)
