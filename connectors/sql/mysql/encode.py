"""An Arrow column as the text that MySQL reads, checked so that nothing is altered on the way. No Python per row.

Texts are escaped where a statement is written. In a log they wait as they are: see connectors.sql.stored.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from connectors.bad_values import convert_checked
from connectors.formats.json_loss import check_names_and_doubles
from connectors.formats.json_text import check_finite, has_repeats, json_text
from connectors.sql.column_text import hex_text, whole_fraction
from connectors.sql.kinds import is_nested, is_text
from connectors.sql.limits import check_utf8, no_members
from connectors.sql.mysql.fit import ColumnPlan, Form
from connectors.sql.stored import FORM, StoredRows


def texts(plan: ColumnPlan, values: pa.Array, first_row: int) -> pa.Array:
    """Unescaped text (hex for bytes) of a column, NULL where it is NULL.

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
        case Form.TEXT:
            return values.cast(pa.string())
        case Form.PLAIN:
            if plan.type == "decimal" and is_text(values.type):  # spaces behind a number only MySQL passes over
                return pc.ascii_trim_whitespace(values.cast(pa.string()))
            whole = values.cast(pa.int8()) if types.is_boolean(values.type) else values
            return whole.cast(pa.string())
        case Form.BITS:
            return values.cast(pa.uint64()).cast(pa.string())  # of a number below zero the server takes the bits
        case Form.INTEGER:
            if is_text(values.type):
                values = _without_hex(values.cast(pa.string()))
            return values.cast(pa.uint64() if plan.unsigned else pa.int64()).cast(pa.string())
        case Form.FLOAT:
            numbers = values.cast(pa.int8()) if types.is_boolean(values.type) else values
            # The double's digits also for a FLOAT column: they name its value exactly, whichever column reads them.
            return check_finite(numbers.cast(pa.float64())).cast(pa.string())
        case Form.DATE:
            return values.cast(pa.date32()).cast(pa.string())
        case Form.MOMENT:
            return _moment(values, plan.fraction).cast(pa.string())
        case Form.TIME:
            return whole_fraction(values.cast(pa.time64("us")), plan.fraction).cast(pa.string())
        case Form.JSON:
            return json_text(values) if is_nested(values.type) else values.cast(pa.string())
        case Form.BYTES:
            return hex_text(values.cast(pa.binary()))


def _without_hex(text: pa.Array) -> pa.Array:
    """Arrow would take `0x10` for a number, and one of sixteen such digits for one below zero; no server does."""
    found = text.filter(pc.match_substring(text, "x", ignore_case=True))
    if len(found):
        raise pa.ArrowInvalid(f"no whole number: {found[0].as_py()!r}")
    return text


def _moment(values: pa.Array, fraction: int) -> pa.Array:
    """Without a zone; an Arrow timestamp with a zone holds UTC, and so does our session."""
    plain = values.cast(pa.timestamp(values.type.unit)).cast(pa.timestamp("us"))
    return whole_fraction(plain, fraction)


def _unaltered(plan: ColumnPlan, texts: pa.Array) -> pa.Array:
    """The texts. Raises ArrowInvalid for what the server would alter without a warning."""
    if plan.fills_null and texts.null_count:
        raise pa.ArrowInvalid("NULL, for which the server would put a value of its own")
    match plan.type:
        case "enum":
            _only_members(texts, plan.members)
        case "set":
            filled = texts.filter(pc.not_equal(texts, ""))
            chosen = pc.split_pattern(filled, ",")
            _only_members(chosen.flatten(), plan.members)
            if has_repeats(chosen, chosen.values):
                raise pa.ArrowInvalid("a member twice, of which a SET keeps one")
        case "json" if plan.form is Form.TEXT:  # of MySQL: MariaDB's is a LONGTEXT, and keeps every byte
            check_names_and_doubles(texts)
        case "char" if pc.any(pc.ends_with(texts, " ")).as_py():
            raise pa.ArrowInvalid("ends in a space, which a CHAR does not keep: VARCHAR does")
        case "binary" if pc.any(pc.not_equal(pc.binary_length(texts), 2 * (plan.range.length or 0))).as_py():
            raise pa.ArrowInvalid(f"not {plan.range.length} bytes, to which a BINARY is filled up: VARBINARY is not")
    return texts


def _only_members(texts: pa.Array, members: tuple[str, ...]) -> None:
    """Others the server takes for numbers of members, or for those that its collation calls equal."""
    if pc.any(no_members(texts, members)).as_py():
        raise pa.ArrowInvalid("no member of the column's, letter by letter")


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
