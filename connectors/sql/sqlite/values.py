"""Rows in the form in which SQLite stores them: Arrow columns of int64, double, string or binary. Called in tasks.

Everything about a value that can be wrong is found here, before anything is prepared: after the decision it would be
too late.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from connectors.formats.json_text import check_dates, json_text
from connectors.sql.sqlite.columns import Binding, Form
from eos.errors import BadRowError

_STORED: Final = {
    Form.INTEGER: pa.int64(),
    Form.REAL: pa.float64(),
    Form.TEXT: pa.large_string(),
    Form.LEXICAL: pa.large_string(),
    Form.JSON: pa.large_string(),
    Form.BLOB: pa.large_binary(),
}

_PLAIN_SCALE: Final = 6
"""Up to this scale Arrow writes a decimal with all its digits; beyond, zero would become `0E-10`."""


@dataclass(frozen=True, slots=True)
class Stored:
    """See connectors.log.writer.Form: columns named and typed as the table's are."""

    table: str
    bindings: tuple[Binding, ...]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(each.column, _STORED[each.form], nullable=each.nullable) for each in self.bindings])

    def convert(self, batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
        arrays = [_column(f"table {self.table}", each, batch.column(each.name), first_row) for each in self.bindings]
        return pa.record_batch(arrays, schema=self.schema)

    def only(self, names: Sequence[str]) -> Stored:
        return Stored(self.table, tuple(each for each in self.bindings if each.name in names))

    def stored(self, names: Sequence[str]) -> tuple[str, ...]:
        columns = {each.name: each.column for each in self.bindings}
        return tuple(columns[name] for name in names)


def _column(table: str, binding: Binding, array: pa.Array, first_row: int) -> pa.Array:
    try:
        if array.type != binding.type:
            array = array.cast(binding.type)
        if types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if not binding.nullable and array.null_count:
            reason = "NULL in a column that is NOT NULL, or whose NULL SQLite replaces by the next number"
            raise _bad(table, binding, reason, first_row + _first(pc.is_null(array)))
        stored = _convert(binding.form, array)
        stored.validate(full=True)  # SQLite's driver decodes text: bytes that are not UTF-8 would stop the commit
    except (pa.ArrowException, ValueError) as error:
        raise _bad(table, binding, str(error), None) from error
    if binding.form is Form.REAL and pc.any(pc.is_nan(stored)).as_py():
        # SQLite would store NULL in silence.
        raise _bad(table, binding, "NaN, which SQLite cannot store", first_row + _first(pc.is_nan(stored)))
    return stored


def _convert(form: Form, array: pa.Array) -> pa.Array:
    if form is Form.JSON:
        return json_text(array).cast(pa.large_string())
    if form is Form.LEXICAL and (types.is_date(array.type) or types.is_timestamp(array.type)):
        check_dates(array)  # texts of others are in another order, and SQLite's functions take them for NULL
    if form is Form.LEXICAL and types.is_timestamp(array.type) and array.type.tz is not None:
        array = array.cast(pa.timestamp(array.type.unit, "UTC"))  # its text ends in Z
    if form is Form.LEXICAL and types.is_decimal(array.type) and not 0 <= array.type.scale <= _PLAIN_SCALE:
        array = pa.array([None if value is None else format(value, "f") for value in array.to_pylist()], pa.string())
    if form is Form.LEXICAL and not types.is_integer(array.type):
        array = array.cast(pa.string())
    return array.cast(_STORED[form])  # checked: an unsigned number above 2**63-1 is an error, not a negative number


def _first(mask: pa.Array) -> int:
    return int(pc.index(mask, True).as_py())


def _bad(table: str, binding: Binding, reason: str, row: int | None) -> BadRowError:
    where = f"row {row}, " if row is not None else ""
    message = f"{table}, {where}column {binding.name}: {reason}"
    return BadRowError(message, remedy="filter or convert such rows in a transform, or change the column")
