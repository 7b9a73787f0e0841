"""Values on their way to databases, keys that tasks share out, and tables that a start makes (docs/reference/sinks.md, H15)."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_MYSQL: Final = "connectors/sql/mysql/encode.py"
_BULK: Final = "connectors/sql/mysql/bulk.py"
_POSTGRES: Final = "connectors/sql/postgres/encode.py"
_LIMITS: Final = "connectors/sql/limits.py"
_RULE: Final = "docs/reference/sinks.md, Values"
_TESTS: Final = "tests/connectors/sql/test_values.py::"
_MYSQL_TEXT: Final = (f"{_TESTS}test_the_text_that_mysql_reads",)
_MYSQL_ALTERS: Final = (f"{_TESTS}test_what_mysql_would_alter_is_a_bad_row",)
_POSTGRES_TEXT: Final = (f"{_TESTS}test_the_text_that_postgresql_reads",)
_POSTGRES_ALTERS: Final = (f"{_TESTS}test_what_postgresql_would_alter_is_a_bad_row",)
_EDGES: Final = (f"{_TESTS}test_limits_at_their_edges",)
_KEYS: Final = (f"{_TESTS}test_h15_rows_of_one_key_of_postgresql_come_to_one_task",)
_MAKING: Final = "tests/connectors/sql/test_schema_migration.py::"

MUTANTS: Final = (
    Mutant(
        name="a moment goes to MySQL in the zone of its rows",
        rule=_RULE,
        path=_MYSQL,
        before='    plain = values.cast(pa.timestamp(values.type.unit)).cast(pa.timestamp("us"))',
        after="    plain = pc.local_timestamp(values) if values.type.tz else values",
        caught_by=_MYSQL_TEXT,
    ),
    Mutant(
        name="a moment with a zone goes to PostgreSQL without one",
        rule=_RULE,
        path=_POSTGRES,
        before='            return text if values.type.tz is None else pc.binary_join_element_wise(text, "Z", "")',
        after="            return text",
        caught_by=_POSTGRES_TEXT,
    ),
    Mutant(
        name="digits of a second's fraction are rounded in silence",
        rule=_RULE,
        path="connectors/sql/column_text.py",
        before="        if pc.all(pc.equal(ticks, rounded)).as_py() is False:",
        after="        if False:",
        caught_by=(*_MYSQL_ALTERS, *_POSTGRES_ALTERS),
    ),
    Mutant(
        name="MySQL takes a value for the member of an ENUM that it calls equal",
        rule=_RULE,
        path=_MYSQL,
        before='            _only_members(texts, plan.members)\n        case "set"',
        after='            pass\n        case "set"',
        caught_by=_MYSQL_ALTERS,
    ),
    Mutant(
        name="a member that is twice in a SET of MySQL becomes one",
        rule=_RULE,
        path=_MYSQL,
        before="            if has_repeats(chosen, chosen.values):",
        after="            if False:",
        caught_by=_MYSQL_ALTERS,
    ),
    Mutant(
        name="spaces at the end of a CHAR of MySQL are lost",
        rule=_RULE,
        path=_MYSQL,
        before='        case "char" if pc.any(',
        after='        case "char" if False and pc.any(',
        caught_by=_MYSQL_ALTERS,
    ),
    Mutant(
        name="MySQL fills a BINARY up",
        rule=_RULE,
        path=_MYSQL,
        before='        case "binary" if pc.any(',
        after='        case "binary" if False and pc.any(',
        caught_by=_MYSQL_ALTERS,
    ),
    Mutant(
        name="MySQL puts a value of its own for NULL",
        rule=_RULE,
        path=_MYSQL,
        before="    if plan.fills_null and texts.null_count:",
        after="    if False:",
        caught_by=_MYSQL_ALTERS,
    ),
    Mutant(
        name="a text in hex passes for a whole number",
        rule=_RULE,
        path=_MYSQL,
        before="                values = _without_hex(values.cast(pa.string()))",
        after="                values = values.cast(pa.string())",
        caught_by=_MYSQL_ALTERS,
    ),
    Mutant(
        name="a number that is none goes to MySQL",
        rule=_RULE,
        path=_MYSQL,
        before="            return check_finite(numbers.cast(pa.float64())).cast(pa.string())",
        after="            return numbers.cast(pa.float64()).cast(pa.string())",
        caught_by=_MYSQL_ALTERS,
    ),
    Mutant(
        name="a single float goes to MySQL with the digits of a single",
        rule=_RULE,
        path=_MYSQL,
        before="            return check_finite(numbers.cast(pa.float64())).cast(pa.string())",
        after="            return check_finite(numbers).cast(pa.string())",
        caught_by=_MYSQL_TEXT,
    ),
    Mutant(
        name="a backslash in a text for LOAD DATA escapes what follows",
        rule=_RULE,
        path=_BULK,
        before='_LOAD_ESCAPES: Final = (("\\\\", "\\\\\\\\"), ',
        after="_LOAD_ESCAPES: Final = (",
        caught_by=("tests/connectors/sql/test_encode.py::test_text_survives_load_data",),
    ),
    Mutant(
        name="a quote in a text for INSERT ends it",
        rule=_RULE,
        path=_BULK,
        before='(("\\\\", "\\\\\\\\"), ("\'", "\\\\\'"))',
        after='(("\\\\", "\\\\\\\\"),)',
        caught_by=(f"{_TESTS}test_text_survives_an_insert",),
    ),
    Mutant(
        name="NULL goes to MySQL as an empty text",
        rule=_RULE,
        path=_BULK,
        before='        fields.append(pc.fill_null(text, "\\\\N") if text.null_count else text)',
        after='        fields.append(pc.fill_null(text, "") if text.null_count else text)',
        caught_by=("tests/connectors/sql/test_encode.py::test_text_survives_load_data",),
    ),
    Mutant(
        name="a line's end in a text for COPY ends the row",
        rule=_RULE,
        path="connectors/sql/postgres/copying.py",
        before='("\\n", "\\\\n"), ("\\r", "\\\\r"))',
        after='("\\r", "\\\\r"))',
        caught_by=(f"{_TESTS}test_text_survives_copy",),
    ),
    Mutant(
        name="NULL goes to PostgreSQL as an empty text",
        rule=_RULE,
        path="connectors/sql/postgres/copying.py",
        before='        fields.append(pc.fill_null(text, "\\\\N") if text.null_count else text)',
        after='        fields.append(pc.fill_null(text, "") if text.null_count else text)',
        caught_by=(f"{_TESTS}test_text_survives_copy",),
    ),
    Mutant(
        name="PostgreSQL cuts spaces off the end of a text that is too long",
        rule=_RULE,
        path=_POSTGRES,
        before="    if length is not None and text.null_count < len(text) and ",
        after="    if False and ",
        caught_by=_POSTGRES_ALTERS,
    ),
    Mutant(
        name="spaces at the end of a CHAR of PostgreSQL are lost",
        rule=_RULE,
        path=_POSTGRES,
        before='        case "bpchar" if pc.any(',
        after='        case "bpchar" if False and pc.any(',
        caught_by=_POSTGRES_ALTERS,
    ),
    Mutant(
        name="JSONB keeps one of two equal names",
        rule=_RULE,
        path=_POSTGRES,
        before="                check_names(texts)\n",
        after="                pass\n",
        caught_by=_POSTGRES_ALTERS,
    ),
    Mutant(
        name="a UUID has several forms in a log",
        rule="H16",
        path=_POSTGRES,
        before='"[-{}]", "")',
        after='"[{}]", "")',
        caught_by=_POSTGRES_TEXT,
    ),
    Mutant(
        name="a whole number out of range gets into a log",
        rule=_RULE,
        path=_LIMITS,
        before="    _refuse(name, pc.or_(outside, pc.less(found, low)) if low < 0 else outside, first_row, reason)",
        after="    _refuse(name, pc.less(found, low) if low < 0 else outside, first_row, reason)",
        caught_by=(
            f"{_TESTS}test_before_a_log_what_mysql_refuses_is_a_bad_row",
            f"{_TESTS}test_before_a_log_what_postgresql_refuses_is_a_bad_row",
        ),
    ),
    Mutant(
        name="text that is not UTF-8 gets into a log for PostgreSQL",
        rule=_RULE,
        path="connectors/sql/postgres/encode.py",
        before="        check_utf8(plan.name, texts, first_row)\n",
        after="        pass\n",
        caught_by=(f"{_TESTS}test_before_a_log_text_is_utf8",),
    ),
    Mutant(
        name="what MySQL refuses gets into a log",
        rule=_RULE,
        path="connectors/sql/mysql/encode.py",
        before="        plan.range.check(plan.name, texts, first_row, in_hex=plan.form is Form.BYTES)\n",
        after="",
        caught_by=(f"{_TESTS}test_before_a_log_what_mysql_refuses_is_a_bad_row",),
    ),
    Mutant(
        name="a small number below zero gets into a log for an unsigned column",
        rule=_RULE,
        path=_LIMITS,
        before='r"^\\s*-[0.]*[1-9]"',
        after='r"^\\s*-0*[1-9]"',
        caught_by=_EDGES,
    ),
    Mutant(
        name="a year of five digits is compared as a text",
        rule=_RULE,
        path=_LIMITS,
        before="pc.invert(pc.and_(four_digits, between))",
        after="pc.invert(between)",
        caught_by=_EDGES,
    ),
    Mutant(
        name="the year 0 gets into a log for PostgreSQL",
        rule=_RULE,
        path=_LIMITS,
        before="|00[1-9][0-9]|000[1-9])-",
        after="|00[1-9][0-9]|000[0-9])-",
        caught_by=_EDGES,
    ),
    Mutant(
        name="keys that MySQL pads are shared out as if they were exact",
        rule="H15",
        path="connectors/sql/mysql/partitioning.py",
        before='frozenset({"utf8mb4_0900_bin", "utf8mb4_nopad_bin"})',
        after='frozenset({"utf8mb4_0900_bin", "utf8mb4_nopad_bin", "utf8mb4_bin"})',
        caught_by=("tests/connectors/sql/test_partitioning.py::test_types_whose_equality_spark_may_not_share",),
    ),
    Mutant(
        name="rows are shared out by the columns of one of several unique indexes of MySQL",
        rule="H15",
        path="connectors/sql/mysql/partitioning.py",
        before="    common = tuple(name for name in first if all(name in other for other in others))",
        after="    common = tuple(first)",
        caught_by=("tests/connectors/sql/test_partitioning.py::test_by_the_exact_columns_that_all_indexes_share",),
    ),
    Mutant(
        name="the beginning of a column is shared out as if it were the whole",
        rule="H15",
        path="connectors/sql/mysql/partitioning.py",
        before="self.name is not None and self.whole and is_exact",
        after="self.name is not None and is_exact",
        caught_by=("tests/connectors/sql/test_partitioning.py::test_by_the_exact_columns_that_all_indexes_share",),
    ),
    Mutant(
        name="rows are shared out by the columns of one of several unique indexes of PostgreSQL",
        rule="H15",
        path="connectors/sql/postgres/partitioning.py",
        before="    return tuple(rows[name][0] for name in first if all(name in other for other in others))",
        after="    return tuple(rows[name][0] for name in first)",
        caught_by=_KEYS,
    ),
    Mutant(
        name="values that a collation of PostgreSQL takes for equal are shared out as different",
        rule="H15",
        path="connectors/sql/postgres/partitioning.py",
        before="    return index.exact and column.name in rows and is_exact(",
        after="    return column.name in rows and is_exact(",
        caught_by=_KEYS,
    ),
    Mutant(
        name="a column with a default is never met twice",
        rule="H15",
        path="connectors/sql/postgres/partitioning.py",
        before="(index.exact and column.nullable and not column.filled) for column",
        after="(index.exact and column.nullable) for column",
        caught_by=_KEYS,
    ),
    Mutant(
        name="a column that is added to a table cannot be NULL in the rows before it",
        rule="docs/reference/sinks.md",
        path="connectors/sql/schema_migration.py",
        before='        return [f"ALTER TABLE {table.quoted} ADD COLUMN {self._column(row)}" for row in added]',
        after='        return [f"ALTER TABLE {table.quoted} ADD COLUMN {self._column(row)}{self._not_null(row)}" for row in added]',
        caught_by=(
            f"{_MAKING}test_columns_that_are_lacking_may_be_null_and_nothing_is_added_where_that_is_not_enough",
        ),
    ),
    Mutant(
        name="a table that somebody else made at the same moment stops a start",
        rule="docs/reference/sinks.md",
        path="connectors/sql/schema_migration.py",
        before="                if statement in self.plan():\n                    raise",
        after="                if statement:\n                    raise",
        caught_by=(f"{_MAKING}test_who_fails_has_failed_only_if_it_is_not_done",),
    ),
    Mutant(
        name="PostgreSQL cuts off the rest of a long name",
        rule="docs/reference/sinks.md",
        path="connectors/sql/schema_migration.py",
        before="        if longest is not None and len(name.encode()) > longest:",
        after="        if longest is not None and len(name) > longest:",
        caught_by=(f"{_MAKING}test_what_else_is_refused",),
    ),
)
