"""An Arrow column as the text that PostgreSQL reads, checked so that nothing is altered. No Python per row."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from connectors.bad_values import convert_checked
from connectors.formats.json_loss import check_names, check_no_nul
from connectors.formats.json_text import json_text
from connectors.sql.column_text import hex_text, whole_fraction
from connectors.sql.postgres.fit import ColumnPlan, Form


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
