"""An Arrow column as the text that PostgreSQL reads, checked so that nothing is altered. No Python per row.

Texts are escaped where a statement is written. In a log they wait as they are: see connectors.sql.stored.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from connectors.bad_values import convert_checked
from connectors.formats.json_loss import check_names, check_no_nul
from connectors.formats.json_text import json_text
from connectors.sql.column_text import hex_text, whole_fraction
from connectors.sql.limits import (
    check_decimals,
    check_integers,
    check_members,
    check_pattern,
    check_utf8,
    check_years,
    integer_range,
)
from connectors.sql.postgres.fit import ColumnPlan, Form
from connectors.sql.stored import FORM, StoredRows


def texts(plan: ColumnPlan, values: pa.Array, first_row: int) -> pa.Array:
    """Unescaped text of a column, NULL where it is NULL.

    Args:
        plan: how the column is written.
        values: the column.
        first_row: number of the first row in this attempt, from 1; for messages.

    Raises:
        BadRowError: a value does not fit; names the column and the row.
    """
    return convert_checked(lambda part: _unaltered(plan, _text(plan, part)), plan.name, values, first_row)


def _text(plan: ColumnPlan, values: pa.Array) -> pa.Array:
    match plan.form:
        case Form.PLAIN | Form.DECIMAL:
            return values.cast(pa.string())
        case Form.DOUBLE:
            return values.cast(pa.float64()).cast(pa.string())
        case Form.TEXT:
            return _storable(values.cast(pa.string()), plan.length)
        case Form.UUID:
            return pc.replace_substring_regex(pc.utf8_lower(_storable(values.cast(pa.string()), None)), "[-{}]", "")
        case Form.JSON:
            return _storable(json_text(values), plan.length)
        case Form.BYTES:
            return pc.binary_join_element_wise("\\\\x", hex_text(values.cast(pa.binary())), "")
        case Form.MOMENT:
            plain = values.cast(pa.timestamp(values.type.unit)).cast(pa.timestamp("us"))
            text = whole_fraction(plain, plan.fraction).cast(pa.string())
            return text if values.type.tz is None else pc.binary_join_element_wise(text, "Z", "")
        case Form.TIME:
            return whole_fraction(values.cast(pa.time64("us")), plan.fraction).cast(pa.string())


def _unaltered(plan: ColumnPlan, texts: pa.Array) -> pa.Array:
    """The texts. Raises ArrowInvalid for what the server would alter without a warning."""
    match plan.type:
        case "bpchar" if pc.any(pc.ends_with(texts, " ")).as_py():
            raise pa.ArrowInvalid("ends in a space, which a CHAR does not keep: VARCHAR does")
        case "jsonb":
            check_no_nul(texts)  # the server says so itself, but behind a log it would be too late
            if plan.form is Form.TEXT:  # names in a text of our own are distinct
                check_names(texts)
    return texts


def _storable(text: pa.Array, length: int | None) -> pa.Array:
    """The server cuts spaces off the end of what is too long, in silence; NUL it takes in no text at all."""
    if pc.any(pc.match_substring(text, "\0")).as_py():
        raise pa.ArrowInvalid("NUL, which PostgreSQL cannot store in a text")
    if length is not None and text.null_count < len(text) and pc.max(pc.utf8_length(text)).as_py() > length:
        raise pa.ArrowInvalid(f"longer than {length} characters")
    return text


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
