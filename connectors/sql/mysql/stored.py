"""Rows in the log on their way to MySQL: see connectors.sql.stored."""

from __future__ import annotations

import pyarrow as pa

from connectors.sql.limits import check_utf8
from connectors.sql.mysql.encode import texts
from connectors.sql.mysql.fit import ColumnPlan, Form
from connectors.sql.stored import FORM, StoredRows


class Stored(StoredRows[ColumnPlan]):
    """Rows in a log for MySQL or MariaDB, as the texts that the server gets."""

    __slots__ = ()

    def _texts(self, plan: ColumnPlan, values: pa.Array, first_row: int) -> pa.Array:
        return texts(plan, values, first_row)

    def _check(self, plan: ColumnPlan, texts: pa.Array, first_row: int) -> None:
        if plan.form in (Form.TEXT, Form.JSON):  # what is nested is copied as it is
            check_utf8(plan.name, texts, first_row)
        plan.range.check(plan.name, texts, first_row, in_hex=plan.form is Form.BYTES)


def plans_of(schema: pa.Schema) -> tuple[ColumnPlan, ...]:
    """Return how the columns of a segment are quoted."""
    return tuple(ColumnPlan(field.name, field.name, Form(field.metadata[FORM].decode())) for field in schema)
