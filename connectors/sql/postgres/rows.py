"""A batch of Arrow columns as the data of COPY, checked so that nothing is altered on the way. No Python per row.

Text format (manual, COPY): columns divided by tabs, rows by newlines, `\\N` for NULL, a backslash before what would
mean something else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from connectors.sql.column_text import first_bad, hex_text, whole_fraction
from connectors.sql.json_text import escaped, json_text
from connectors.sql.postgres.engine import quote
from connectors.sql.postgres.fit import ColumnPlan, Form
from twophase.errors import BadRowError

_SLICE_BYTES: Final = 16 * 1024 * 1024  # of Arrow memory at once
_ESCAPES: Final = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))
_ESCAPED: Final = frozenset({Form.TEXT, Form.JSON})


def copy_statement(target: str, plans: Sequence[ColumnPlan]) -> str:
    """`target` is quoted for a format string; the statement is none."""
    return f"COPY {target} ({', '.join(quote(plan.column) for plan in plans)}) FROM STDIN".replace("%%", "%")


def copy_data(plans: Sequence[ColumnPlan], batch: pa.RecordBatch, first_row: int) -> Iterator[memoryview]:
    """The data in parts of bounded size. Raises BadRowError for a value that does not fit its column.

    `first_row`: number of the first row in this attempt, from 1; for messages.
    """
    parts = max(1, -(-batch.nbytes // _SLICE_BYTES))
    size = max(1, -(-batch.num_rows // parts))
    for start in range(0, batch.num_rows, size):
        part = batch.slice(start, size)
        yield _lines(plans, [_checked(plan, part.column(plan.name), first_row + start) for plan in plans])


def _lines(plans: Sequence[ColumnPlan], columns: Sequence[pa.Array]) -> memoryview:
    fields = []
    for plan, column in zip(plans, columns, strict=True):
        text = escaped(column, _ESCAPES) if plan.form in _ESCAPED else column
        fields.append(pc.fill_null(text, "\\N") if text.null_count else text)
    fields[-1] = pc.binary_join_element_wise(fields[-1], "", "\n")
    lines = pc.binary_join_element_wise(*fields, "\t") if len(fields) > 1 else fields[0]
    _, offsets, data = lines.buffers()
    ends = memoryview(offsets).cast("i")[lines.offset : lines.offset + len(lines) + 1]
    return memoryview(data)[ends[0] : ends[-1]]


def _checked(plan: ColumnPlan, values: pa.Array, first_row: int) -> pa.Array:
    if types.is_dictionary(values.type):
        values = values.dictionary_decode()
    try:
        return _text(plan, values)
    except pa.ArrowInvalid as error:
        row, reason = first_bad(lambda part: _text(plan, part), values, str(error))
        message = f"row {first_row + row}, column {plan.name!r}: {reason}"
        raise BadRowError(message, remedy="correct the row in a transform, or change the column") from error


def _text(plan: ColumnPlan, values: pa.Array) -> pa.Array:
    match plan.form:
        case Form.PLAIN | Form.DECIMAL:
            return values.cast(pa.string())
        case Form.DOUBLE:
            return values.cast(pa.float64()).cast(pa.string())
        case Form.TEXT:
            return _within(values.cast(pa.string()), plan.length)
        case Form.JSON:
            return json_text(values)
        case Form.BYTES:
            return pc.binary_join_element_wise("\\\\x", hex_text(values.cast(pa.binary())), "")
        case Form.MOMENT:
            plain = values.cast(pa.timestamp(values.type.unit)).cast(pa.timestamp("us"))
            text = whole_fraction(plain, plan.fraction).cast(pa.string())
            return text if values.type.tz is None else pc.binary_join_element_wise(text, "Z", "")
        case Form.TIME:
            return whole_fraction(values.cast(pa.time64("us")), plan.fraction).cast(pa.string())


def _within(text: pa.Array, length: int | None) -> pa.Array:
    """The server cuts spaces off the end of what is too long, in silence."""
    if length is not None and text.null_count < len(text) and pc.max(pc.utf8_length(text)).as_py() > length:
        raise pa.ArrowInvalid(f"longer than {length} characters")
    return text
