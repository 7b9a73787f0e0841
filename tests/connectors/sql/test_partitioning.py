"""H15: which rows of a checkpoint must come to one writer, from the table's unique indexes and the rows' types."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from connectors.sql.mysql.partitioning import partitioning, partitioning_of_table
from connectors.sql.mysql.target import KeyPart, Target, TargetColumn, UniqueIndex
from connectors.sql.partitioning import Partitioning


def column(name: str, kind: str = "bigint", collation: str = "", **facts: bool) -> TargetColumn:
    column = TargetColumn(name, kind, kind, nullable=False, filled=False, generated=False, collation=collation)
    return replace(column, **facts)  # type: ignore[arg-type]


COLUMNS = (
    column("id"),
    column("a", "int"),
    column("b", "int"),
    column("name", "varchar", "utf8mb4_0900_ai_ci"),
    column("exact", "varchar", "utf8mb4_0900_bin"),
    column("counter", automatic=True, filled=True),
    column("lower_name", "varchar", "utf8mb4_0900_ai_ci", nullable=True, generated=True),
    column("note", "varchar", "utf8mb4_0900_ai_ci", nullable=True),
    column("region", "int", filled=True),
)
ROWS = {"id": pa.int64(), "a": pa.int32(), "b": pa.int32(), "name": pa.string(), "exact": pa.string()}


def index(text: str) -> UniqueIndex:
    """`b name(3) ()`: a column, the beginning of one, an expression."""
    words = text.split()
    parts = (KeyPart(None if word == "()" else word.partition("(")[0], whole="(" not in word) for word in words)
    return UniqueIndex(text, tuple(parts))


def decided(*indexes: str, rows: dict[str, pa.DataType] | None = None) -> Partitioning:
    target = Target("shop", "orders", "InnoDB", COLUMNS, tuple(index(text) for text in indexes))
    return partitioning(target, {name: (name, kind) for name, kind in (ROWS if rows is None else rows).items()})


@pytest.mark.parametrize(
    ("indexes", "expected"),
    [
        ((), None),
        (("id",), ("id",)),
        (("ID",), ("id",)),
        (("b a",), ("b", "a")),
        (("exact",), ("exact",)),
        # What is common to all: rows that are equal in an index are equal there.
        (("b a", "a id"), ("a",)),
        (("a b id", "b id", "id b"), ("b", "id")),
        (("id", "a"), ()),
        (("id a", "a b", "b id"), ()),
        # Outcome in which Spark may see a difference where the server sees none are left out; the others still bind.
        (("name",), ()),
        (("name id",), ("id",)),
        (("id name",), ("id",)),
        (("id", "name"), ()),
        (("name(3)",), ()),
        (("exact(3)",), ()),
        (("exact(3) a",), ("a",)),
        (("()",), ()),
        (("() a",), ("a",)),
        (("lower_name",), ()),
        (("id", "lower_name"), ()),
        # The rows do not give it: nobody repeats a counter, and NULL is not compared; a default is always the same.
        (("counter",), None),
        (("counter a",), None),
        (("counter", "a"), ("a",)),
        (("note",), None),
        (("note(5)",), None),
        (("note name",), None),
        (("region",), ()),
        (("region a",), ("a",)),
        (("nowhere",), ()),
    ],
)
def test_by_the_exact_columns_that_all_indexes_share(indexes: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert decided(*indexes).columns == expected


def test_a_counter_or_a_nullable_column_that_the_rows_do_give_counts() -> None:
    rows = {**ROWS, "counter": pa.int64(), "note": pa.string()}
    assert decided("counter", rows=rows).columns == ("counter",)
    assert decided("note", rows=rows).columns == ()


def test_names_are_those_of_the_rows() -> None:
    assert decided("a", rows={"A": pa.int32()}).columns == ("A",)


EXACT = [
    ("int", "", pa.int64()),
    ("tinyint", "", pa.bool_()),
    ("bigint", "", pa.decimal128(20, 0)),
    ("decimal", "", pa.decimal128(20, 2)),
    ("decimal", "", pa.int32()),
    ("varchar", "utf8mb4_0900_bin", pa.string()),
    ("varchar", "utf8mb4_nopad_bin", pa.binary()),
    ("varbinary", "", pa.binary()),
    ("varbinary", "", pa.string()),
    ("date", "", pa.date32()),
    ("datetime", "", pa.timestamp("us")),
    ("timestamp", "", pa.timestamp("us", "UTC")),
]
INEXACT = [
    ("int", "", pa.string()),  # 1 and 01
    ("decimal", "", pa.string()),  # 1.0 and 1.00
    ("double", "", pa.float64()),  # 0.0 and -0.0
    ("float", "", pa.float32()),
    ("varchar", "utf8mb4_general_ci", pa.string()),  # a and A
    ("varchar", "utf8mb4_0900_as_cs", pa.string()),  # characters without weight
    ("varchar", "utf8mb4_bin", pa.string()),  # PAD SPACE
    ("varchar", "latin1_nopad_bin", pa.string()),  # converted on the way
    ("varchar", "utf8mb4_0900_bin", pa.int64()),
    ("char", "utf8mb4_0900_bin", pa.string()),  # drops spaces at the end
    ("text", "utf8mb4_0900_bin", pa.string()),
    ("binary", "", pa.binary()),  # adds zeros at the end
    ("enum", "utf8mb4_0900_bin", pa.string()),
    ("time", "", pa.time64("us")),
    ("bit", "", pa.int64()),
]


@pytest.mark.parametrize(("kind", "collation", "given"), EXACT)
def test_types_whose_equality_spark_shares(kind: str, collation: str, given: pa.DataType) -> None:
    assert of_one_column(kind, collation, given).columns == ("v",)


@pytest.mark.parametrize(("kind", "collation", "given"), INEXACT)
def test_types_whose_equality_spark_may_not_share(kind: str, collation: str, given: pa.DataType) -> None:
    found = of_one_column(kind, collation, given)
    assert found.one_writer
    assert kind in found.reason
    assert str(given) in found.reason
    assert collation in found.reason


def of_one_column(kind: str, collation: str, given: pa.DataType) -> Partitioning:
    target = Target("shop", "orders", "InnoDB", (column("v", kind, collation),), (index("v"),))
    return partitioning(target, {"v": ("v", given)})


def test_the_reason_names_the_index_and_the_column() -> None:
    assert "the unique indexes id (id), a (a) have no column in common" in str(decided("id", "a"))
    assert "index name(3) (the beginning of name)" in str(decided("id", "name(3)"))
    assert "(an expression)" in str(decided("()"))
    assert "(region, which the rows do not give)" in str(decided("region"))
    assert str(decided("name")).startswith("one writer: ")
    assert not str(decided("id")).startswith("one writer")


def test_without_the_rows_the_table_decides_as_far_as_it_can() -> None:
    def of(*indexes: str) -> Partitioning:
        return partitioning_of_table(Target("shop", "orders", "InnoDB", COLUMNS, tuple(map(index, indexes))))

    assert of("counter", "id").columns == ("id",)
    assert of("exact").columns == ("exact",)
    assert of("name").one_writer
    assert of("lower_name").one_writer
    assert of("note").one_writer
    assert of("id", "a").one_writer
