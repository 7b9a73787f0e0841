"""Rows in the log on their way to PostgreSQL: see connectors.sql.stored."""

from __future__ import annotations

import pyarrow as pa

from connectors.sql.limits import (
    check_decimals,
    check_integers,
    check_members,
    check_pattern,
    check_utf8,
    check_years,
    integer_range,
)
from connectors.sql.postgres.encode import texts
from connectors.sql.postgres.fit import ColumnPlan, Form
from connectors.sql.stored import FORM, StoredRows


class Stored(StoredRows[ColumnPlan]):
    """Rows in a log for PostgreSQL, as the texts that the server gets."""

    __slots__ = ()

    def _texts(self, plan: ColumnPlan, values: pa.Array, first_row: int) -> pa.Array:
        return texts(plan, values, first_row)

    def _check(self, plan: ColumnPlan, texts: pa.Array, first_row: int) -> None:
        if plan.form in (Form.TEXT, Form.JSON):  # what is nested is copied as it is
            check_utf8(plan.name, texts, first_row)
        if plan.bits is not None:
            check_integers(plan.name, texts, *integer_range(plan.bits), first_row)
        if plan.digits is not None:
            check_decimals(plan.name, texts, *plan.digits, first_row)
        if plan.dated:
            check_years(plan.name, texts, first_row)
        if plan.members:
            check_members(plan.name, texts, plan.members, first_row)
        if plan.form is Form.UUID:
            check_pattern(plan.name, texts, "^[0-9a-f]{32}$", first_row, "no UUID")


def plans_of(schema: pa.Schema) -> tuple[ColumnPlan, ...]:
    """Return how the columns of a segment are escaped."""
    return tuple(ColumnPlan(field.name, field.name, Form(field.metadata[FORM].decode())) for field in schema)
