"""Rows in bulk: a batch of Arrow columns as one statement's payload, sent and checked.

LOAD DATA LOCAL INFILE where the server allows it, else multi-row INSERT. With LOCAL the server skips a duplicate and
stores 0 for `abc`, with no more than a warning: so the count and the warnings of every statement are checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.json_text import escape
from connectors.sql.column_text import slices
from connectors.sql.mysql.encode import texts
from connectors.sql.mysql.engine import Session, quote
from connectors.sql.mysql.errors import ServerError, is_row_fault
from connectors.sql.mysql.fit import ColumnPlan, Form
from eos.errors import BadRowError

_INSERT_BYTES: Final = 4 * 1024 * 1024  # of one INSERT; less if max_allowed_packet says so
_LOAD_ESCAPES: Final = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"))
_INSERT_ESCAPES: Final = (("\\", "\\\\"), ("'", "\\'"))
_ESCAPED: Final = frozenset({Form.TEXT, Form.JSON, Form.PLAIN})
_AT_ROW: Final = re.compile(r" at row (\d+)$")
_HARMLESS: Final = frozenset({1287, 1681, 3719, 3778})  # deprecation notes about the statement, never about a row


@dataclass(frozen=True, slots=True)
class Payload:
    """A statement ready to be sent."""

    statement: str | bytes
    file: memoryview | None  # what the server will ask for; None: the rows are in the statement
    rows: int
    first_row: int  # number in this attempt, from 1
    bytes: int


class Bulk:
    """How one writer's rows reach one table. `encode` touches no connection; `send` touches nothing else."""

    def __init__(
        self,
        target: str,
        plans: Sequence[ColumnPlan],
        *,
        local: bool,
        max_packet_bytes: int,
        replace: bool = False,
    ) -> None:
        """`target` is the quoted name, for a format string. `replace`: rows take the places of those of their keys."""
        self._plans = plans
        self._load = _load_statement(target, plans, "REPLACE" if replace else "") if local else None
        self._insert = _insert_prefix(target, plans, "REPLACE" if replace else "INSERT").encode()
        self._most = 2 if replace else 1  # rows changed for each that is sent: one that goes counts as well
        self._insert_bytes = min(_INSERT_BYTES, max_packet_bytes // 2)
        self._max_row_bytes = max_packet_bytes - len(self._insert) - 1024

    def encode(self, batch: pa.RecordBatch, first_row: int) -> Iterator[Payload]:
        """Payloads of bounded size. Raises BadRowError for a value that does not fit its column."""
        for part in slices(batch):
            columns = [texts(plan, part.column(plan.name), first_row) for plan in self._plans]
            yield from self._payloads(columns, first_row)
            first_row += part.num_rows

    def encode_stored(self, batch: pa.RecordBatch, first_row: int) -> Iterator[Payload]:
        """The same of what `texts` has made already: rows of the log."""
        for part in slices(batch):
            yield from self._payloads(part.columns, first_row)
            first_row += part.num_rows

    def send(self, session: Session, payload: Payload) -> None:
        """Blocks until the server has taken the rows. Raises BadRowError if it altered or left out one, ServerError."""
        try:
            stored = session.send(payload.statement, payload.file)
        except ServerError as error:
            if is_row_fault(error.number):
                raise _refused(error.number, error.text, payload) from error
            raise
        if faults := refusals(session.warnings()):
            raise _refused(*faults[0], payload)
        if not payload.rows <= stored <= self._most * payload.rows:
            message = f"the server stored {stored} of {payload.rows} rows and gave no reason"
            raise BadRowError(message, remedy="look for triggers on the table")

    def _payloads(self, columns: Sequence[pa.Array], first_row: int) -> Iterator[Payload]:
        if self._load is None:
            yield from self._inserts(columns, first_row)
        else:
            data = _data(_load_rows(self._plans, columns))[0]
            yield Payload(self._load, data, len(columns[0]), first_row, len(data))

    def _inserts(self, columns: Sequence[pa.Array], first_row: int) -> Iterator[Payload]:
        data, ends = _data(_insert_rows(self._plans, columns))
        longest = int(np.diff(ends).max())
        if longest > self._max_row_bytes:
            row = first_row + int(np.diff(ends).argmax())
            message = f"row {row} is {longest} bytes long, more than the server's max_allowed_packet"
            raise BadRowError(message, remedy="raise max_allowed_packet, or allow local_infile on the server")
        start = 0
        while start < len(ends) - 1:
            stop = int(np.searchsorted(ends, ends[start] + self._insert_bytes, side="right")) - 1
            stop = max(stop, start + 1)
            rows = data[ends[start] : ends[stop] - 1]  # without the comma at the end
            statement = self._insert + rows
            yield Payload(statement, None, stop - start, first_row + start, len(statement))
            start = stop


def refusals(warnings: Sequence[tuple[int, str]]) -> Sequence[tuple[int, str]]:
    """Those warnings after which a row is not in the table as it was sent."""
    return [each for each in warnings if each[0] not in _HARMLESS]


def _load_rows(plans: Sequence[ColumnPlan], columns: Sequence[pa.Array]) -> pa.Array:
    """One line for each row."""
    fields = []
    for plan, column in zip(plans, columns, strict=True):
        text = escape(column, _LOAD_ESCAPES) if plan.form in _ESCAPED else column
        fields.append(pc.fill_null(text, "\\N") if text.null_count else text)
    fields[-1] = pc.binary_join_element_wise(fields[-1], "", "\n")
    return pc.binary_join_element_wise(*fields, "\t") if len(fields) > 1 else fields[0]


def _insert_rows(plans: Sequence[ColumnPlan], columns: Sequence[pa.Array]) -> pa.Array:
    """`(…),` for each row."""
    fields = []
    for plan, column in zip(plans, columns, strict=True):
        text = escape(column, _INSERT_ESCAPES) if plan.form in _ESCAPED else column
        if plan.form is not Form.BITS:
            before = "X'" if plan.form is Form.BYTES else "'"
            text = pc.binary_join_element_wise(before, text, "'", "")
        fields.append(pc.fill_null(text, "NULL") if text.null_count else text)
    fields[0] = pc.binary_join_element_wise("(", fields[0], "")
    fields[-1] = pc.binary_join_element_wise(fields[-1], "),", "")
    return pc.binary_join_element_wise(*fields, ",") if len(fields) > 1 else fields[0]


def _data(rows: pa.Array) -> tuple[memoryview, np.ndarray]:
    """The bytes of all values behind each other, which is the payload itself, and where each one begins."""
    _, offsets, data = rows.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[rows.offset : rows.offset + len(rows) + 1].astype(np.int64)
    return memoryview(data)[ends[0] : ends[-1]], ends - ends[0]


def _load_statement(target: str, plans: Sequence[ColumnPlan], verb: str) -> str:
    names, sets = [], []
    for at, plan in enumerate(plans):
        convert = {Form.BYTES: "UNHEX(@v{})", Form.BITS: "CAST(@v{} AS UNSIGNED)"}.get(plan.form)
        names.append(f"@v{at}" if convert else quote(plan.column))
        if convert:
            sets.append(f"{quote(plan.column)} = {convert.format(at)}")
    text = (
        f"LOAD DATA LOCAL INFILE 'rows' {verb} INTO TABLE {target} CHARACTER SET utf8mb4"
        " FIELDS TERMINATED BY '\\t' ENCLOSED BY '' ESCAPED BY '\\\\' LINES TERMINATED BY '\\n'"
        f" ({', '.join(names)})" + (f" SET {', '.join(sets)}" if sets else "")
    )
    return text % ()


def _insert_prefix(target: str, plans: Sequence[ColumnPlan], verb: str) -> str:
    return f"{verb} INTO {target} ({', '.join(quote(plan.column) for plan in plans)}) VALUES " % ()


def _refused(number: int, text: str, payload: Payload) -> BadRowError:
    at = _AT_ROW.search(text)
    row = f"row {payload.first_row + int(at[1]) - 1}" if at else f"one of {payload.rows} rows"
    reason = text[: at.start()] if at else text
    message = f"the server refused {row}: {reason} (error {number})"
    return BadRowError(message, remedy="correct the row in a transform, or change the column")
