"""Columns of the rows find those of the table, also where the spec's `columns` calls them otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pytest

from connectors.log.keyed import Upsert
from connectors.sql.schema_match import RowColumn, SchemaMatch, match_columns, row_columns
from eos.errors import TargetError

SCHEMA = pa.schema([("id", pa.int64()), ("amount", pa.string()), ("gone", pa.bool_()), ("_offset", pa.int64())])


@dataclass(frozen=True)
class Column:
    name: str
    required: bool = False


def rows(renamed: dict[str, str] | None = None, upsert: Upsert | None = None) -> tuple[RowColumn, ...]:
    return row_columns("warehouse", SCHEMA, renamed or {}, upsert)


class Written(NamedTuple):
    name: str
    column: str


def plan(row: RowColumn, column: Column) -> Written:
    return Written(row.name, column.name)


def fitted(
    columns: Sequence[str], renamed: dict[str, str] | None = None, upsert: Upsert | None = None
) -> SchemaMatch[Written]:
    return match_columns(rows(renamed, upsert), [Column(name) for name in columns], plan)


def written(columns: Sequence[str], renamed: dict[str, str] | None = None, upsert: Upsert | None = None) -> list[str]:
    """What goes where."""
    found = fitted(columns, renamed, upsert)
    assert not found.problems
    return [" -> ".join(each) for each in found.plans]


def test_names_find_each_other_whatever_their_case() -> None:
    assert written(["AMOUNT", "Id", "gone"]) == ["id -> Id", "amount -> AMOUNT", "gone -> gone"]
    assert written(["ID", "id", "amount", "gone"])[0] == "id -> id"


def test_a_column_that_is_named_goes_where_the_spec_says_and_others_stay() -> None:
    renamed = {"order_id": "id", "offset": "_offset"}
    assert written(["amount", "Order_ID", "gone", "offset"], renamed) == [
        "id -> Order_ID",
        "amount -> amount",
        "gone -> gone",
        "_offset -> offset",
    ]


def test_two_columns_may_change_places() -> None:
    assert written(["id", "amount", "gone"], {"id": "amount", "amount": "id"})[:2] == ["id -> amount", "amount -> id"]


def test_metadata_and_the_mark_of_a_deletion_may_be_left_out_unless_they_are_named() -> None:
    upsert = Upsert(("id",), deleted="gone")
    assert written(["id", "amount"], None, upsert) == ["id -> id", "amount -> amount"]
    assert [row.name for row in fitted(["id", "amount"]).lacking] == ["gone"]
    lacking = fitted(["id", "amount"], {"removed": "gone", "at": "_offset"}, upsert)
    assert [(row.name, row.column) for row in lacking.lacking] == [("gone", "removed"), ("_offset", "at")]


def test_what_merged_rows_are_stored_with_may_not_be_left_out() -> None:
    upsert = Upsert(("id",), deleted_at="gone", order_by="_offset")
    assert [row.name for row in fitted(["id", "amount"], None, upsert).lacking] == ["gone", "_offset"]


def test_what_is_missing_is_said_with_both_names_and_the_nearest() -> None:
    complaints = fitted(["ident", "Amounts", "gone"], {"amuont": "amount", "ident": "id"}).problems
    assert complaints[-1] == (
        "column 'amuont' is missing in the table, which takes 'amount' of the rows; did you mean 'Amounts'?"
    )


@pytest.mark.parametrize(
    ("renamed", "said"),
    [
        ({"n": "idd"}, "the rows have no column idd for the table's n; did you mean id?"),
        ({"amount": "id"}, "id and amount of the rows both go to the table's column amount"),
        ({"AMOUNT": "id"}, "id and amount of the rows both go to the table's column amount"),
    ],
)
def test_a_rename_that_does_not_fit_the_rows(renamed: dict[str, str], said: str) -> None:
    with pytest.raises(TargetError, match="sink warehouse: `columns` does not fit the rows: ") as caught:
        rows(renamed)
    assert said in caught.value.message


def test_a_column_that_nobody_fills() -> None:
    found = match_columns(rows(), [Column("id"), Column("amount"), Column("gone"), Column("must", required=True)], plan)
    assert found.problems == ["column 'must' of the table is NOT NULL without a default, and the rows do not give it"]
    assert found.plans == (("id", "id"), ("amount", "amount"), ("gone", "gone"))


def test_of_very_many_missing_columns_the_first_are_named() -> None:
    """Records that bring their own schema may have any number of columns, and each name is compared with all."""
    schema = pa.schema([(f"column_{number}", pa.int64()) for number in range(5_000)])
    fit = match_columns(row_columns("warehouse", schema, {}, None), [Column("id"), Column("column_7")], plan)
    assert len(fit.lacking) == 4_999
    assert len(fit.problems) == 21
    assert fit.problems[0].startswith("column 'column_0' is missing in the table")
    assert fit.problems[-1] == "4979 further columns are missing in the table"
