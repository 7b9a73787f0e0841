"""The rows of a small store: columns as they come, each value checked in the task. Picklable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from connectors.api.contracts import METADATA, Finding
from eos.errors import BadRowError, TargetError


@dataclass(frozen=True, slots=True)
class RowForm:
    """See Form. The log and the store have the columns of the rows, with the same types."""

    schema: pa.Schema

    def convert(self, batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
        """See Form. Raises BadRowError for a value that Arrow calls invalid, such as text that is not UTF-8."""
        for name, column in zip(self.schema.names, batch.columns, strict=True):
            try:
                column.validate(full=True)
            except pa.ArrowInvalid as error:
                row = first_row + _first_invalid(column)
                raise BadRowError(f"row {row}, column {name!r}: {error}", remedy="change the value in a step") from None
        return pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns that a store is given: all of the rows, except metadata columns under their own names."""
    return pa.schema([field for field in schema if field.name not in METADATA])


def require(sink: str, findings: Sequence[Finding]) -> None:
    """Refuse a start for the fatal findings of a store. Raises TargetError that names all of them."""
    wrong = [each for each in findings if each.fatal and not each.ok]
    if wrong:
        message = f"sink {sink}: " + "; ".join(f"{each.check}: {each.detail}" for each in wrong)
        raise TargetError(message, remedy="; ".join(dict.fromkeys(each.remedy for each in wrong if each.remedy)))


def _first_invalid(column: pa.Array) -> int:
    for row in range(len(column)):
        try:
            column.slice(row, 1).validate(full=True)
        except pa.ArrowInvalid:
            return row
    return 0
