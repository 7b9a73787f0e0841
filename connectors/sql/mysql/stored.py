"""Rows in the log on their way to MySQL: each column as the text that a statement carries, not yet escaped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from connectors.sql.limits import check_utf8
from connectors.sql.mysql.encode import texts
from connectors.sql.mysql.fit import ColumnPlan, Form

_FORM: Final = b"form"


@dataclass(frozen=True, slots=True)
class Stored:
    """See connectors.log.writer.Form: columns are named as the table's are, and each says how it is to be quoted."""

    plans: tuple[ColumnPlan, ...]

    @property
    def schema(self) -> pa.Schema:
        """See Form."""
        return pa.schema([pa.field(plan.column, pa.string(), metadata={_FORM: plan.form.value}) for plan in self.plans])

    def convert(self, batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
        """See Form."""
        columns = [texts(plan, batch.column(plan.name), first_row) for plan in self.plans]
        for plan, column in zip(self.plans, columns, strict=True):
            if plan.form in (Form.TEXT, Form.JSON):  # what is nested is copied as it is
                check_utf8(plan.name, column, first_row)
            plan.range.check(plan.name, column, first_row, in_hex=plan.form is Form.BYTES)
        return pa.record_batch(columns, schema=self.schema)

    def only(self, names: Sequence[str]) -> Stored:
        """See KeyedForm."""
        return Stored(tuple(plan for plan in self.plans if plan.name in names))

    def stored(self, names: Sequence[str]) -> tuple[str, ...]:
        """See KeyedForm."""
        columns = {plan.name: plan.column for plan in self.plans}
        return tuple(columns[name] for name in names)


def plans_of(schema: pa.Schema) -> tuple[ColumnPlan, ...]:
    """How the columns of a segment are quoted."""
    return tuple(ColumnPlan(field.name, field.name, Form(field.metadata[_FORM].decode())) for field in schema)
