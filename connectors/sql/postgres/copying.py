"""COPY: encoded columns as its data, sent and checked.

Text format (manual, COPY): columns divided by tabs, rows by newlines, `\\N` for NULL, a backslash before what would
mean something else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.json_text import escape
from connectors.sql.column_text import slices
from connectors.sql.postgres.encode import texts
from connectors.sql.postgres.engine import Session, quote
from connectors.sql.postgres.errors import ServerError
from connectors.sql.postgres.fit import ColumnPlan, Form
from eos.errors import BadRowError

_ESCAPES: Final = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))
_ESCAPED: Final = frozenset({Form.TEXT, Form.UUID, Form.JSON})
_LINE: Final = re.compile(r"^COPY .+?, line (\d+)(, column [^:\n]+)?")


def copy_statement(target: str, plans: Sequence[ColumnPlan]) -> str:
    """`target` is quoted for a format string; the statement is none."""
    return f"COPY {target} ({', '.join(quote(plan.column) for plan in plans)}) FROM STDIN".replace("%%", "%")


def copy_data(plans: Sequence[ColumnPlan], batch: pa.RecordBatch, first_row: int) -> Iterator[memoryview]:
    """The data in parts of bounded size. Raises BadRowError for a value that does not fit its column.

    `first_row`: number of the first row in this attempt, from 1; for messages.
    """
    for part in slices(batch):
        yield lines(plans, [texts(plan, part.column(plan.name), first_row) for plan in plans])
        first_row += part.num_rows


def lines(plans: Sequence[ColumnPlan], columns: Sequence[pa.Array]) -> memoryview:
    """One line for each row, of what `texts` gave."""
    fields = []
    for plan, column in zip(plans, columns, strict=True):
        text = escape(column, _ESCAPES) if plan.form in _ESCAPED else column
        fields.append(pc.fill_null(text, "\\N") if text.null_count else text)
    fields[-1] = pc.binary_join_element_wise(fields[-1], "", "\n")
    joined = pc.binary_join_element_wise(*fields, "\t") if len(fields) > 1 else fields[0]
    _, offsets, data = joined.buffers()
    ends = memoryview(offsets).cast("i")[joined.offset : joined.offset + len(joined) + 1]
    return memoryview(data)[ends[0] : ends[-1]]


def copy(session: Session, statement: str, parts: Sequence[memoryview], rows: int, first_row: int) -> None:
    """Blocks until the server has taken the rows. Raises BadRowError if it refuses or leaves out one, ServerError."""
    try:
        stored = session.copy(statement, parts)
    except ServerError as error:
        if error.row_fault:
            raise _refused(error, first_row) from error
        raise
    if stored != rows:
        message = f"the server stored {stored} of {rows} rows and gave no reason"
        raise BadRowError(message, remedy="look for triggers on the table")


def _refused(error: ServerError, first_row: int) -> BadRowError:
    at = _LINE.match(error.context)
    where = f"row {first_row + int(at[1]) - 1}{at[2] or ''}" if at else "a row"
    message = f"the server refused {where}: {error.text} (SQLSTATE {error.code})"
    return BadRowError(message, remedy="correct the row in a transform, or change the column")
