"""Spark's DDL read into Arrow."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.formats.ddl import parse_ddl
from eos.errors import SpecError

TYPES = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "BYTE": pa.int8(),
    "SMALLINT": pa.int16(),
    "SHORT": pa.int16(),
    "INT": pa.int32(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "LONG": pa.int64(),
    "FLOAT": pa.float32(),
    "REAL": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "TIMESTAMP_LTZ": pa.timestamp("us", "UTC"),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
    "DECIMAL": pa.decimal128(10, 0),
    "DEC(5)": pa.decimal128(5, 0),
    "NUMERIC(10,2)": pa.decimal128(10, 2),
    "DECIMAL( 38 , 38 )": pa.decimal128(38, 38),
    "ARRAY<INT>": pa.list_(pa.int32()),
    "ARRAY<ARRAY<STRING>>": pa.list_(pa.list_(pa.string())),
    "MAP<STRING, ARRAY<INT>>": pa.map_(pa.string(), pa.list_(pa.int32())),
    "STRUCT<a: INT, b STRING NOT NULL>": pa.struct(
        [pa.field("a", pa.int32()), pa.field("b", pa.string(), nullable=False)]
    ),
    "STRUCT<a:STRUCT<b:INT>>": pa.struct([("a", pa.struct([("b", pa.int32())]))]),
}


@pytest.mark.parametrize("ddl", TYPES)
def test_types(ddl: str) -> None:
    assert parse_ddl(f"c {ddl}") == pa.schema([("c", TYPES[ddl])])
    assert parse_ddl(f" c\n:\t{ddl.lower()} ") == pa.schema([("c", TYPES[ddl])])


def test_columns() -> None:
    schema = parse_ddl(
        "id BIGINT NOT NULL, `a b``c` STRING COMMENT 'it''s, \\' (x)', _x DATE comment \"y\" , größe INT"
    )
    assert schema.names == ["id", "a b`c", "_x", "größe"]
    assert [field.nullable for field in schema] == [False, True, True, True]


@pytest.mark.parametrize("name", ["date", "timestamp", "not", "comment", "array", "1st"])
def test_words_of_the_language_may_be_names(name: str) -> None:
    assert parse_ddl(f"{name} INT, b DATE").names == [name, "b"]


@pytest.mark.parametrize(
    ("ddl", "position", "found", "complaint"),
    [
        ("", 1, "the schema ends", "expected a column name"),
        ("   ", 4, "the schema ends", "expected a column name"),
        ("id", 3, "the schema ends", "expected a type"),
        ("id BIGNT", 4, "found 'BIGNT'", "did you mean BIGINT?"),
        ("id INT, b TIMESTMP", 11, "found 'TIMESTMP'", "did you mean TIMESTAMP?"),
        ("id VARCHAR(10)", 4, "found 'VARCHAR'", "did you mean STRING?"),
        ("id `INT`", 4, "found 'INT'", "expected a type"),
        ("id XYZZY", 4, "found 'XYZZY'", "types are BOOLEAN, "),
        ("id INT,", 8, "the schema ends", "expected a column name"),
        ("id INT b INT", 8, "found 'b'", "expected ',' or the end"),
        ("a-b INT", 2, "found '-'", "no meaning here"),
        ("a INT, A STRING", 8, "found 'A'", "used twice"),
        ("a STRUCT<b INT, B INT>", 17, "found 'B'", "used twice"),
        ("a DECIMAL(39,1)", 11, "found '39'", "precision of 1 to 38"),
        ("a DECIMAL(0)", 11, "found '0'", "precision of 1 to 38"),
        ("a DECIMAL(2,3)", 11, "found '2'", "scale up to it"),
        ("a DECIMAL(x)", 11, "found 'x'", "expected a number"),
        ("a DECIMAL(1", 12, "the schema ends", "expected ')'"),
        ("a ARRAY", 8, "the schema ends", "expected '<' after ARRAY"),
        ("a ARRAY<INT", 12, "the schema ends", "expected '>' that ends ARRAY"),
        ("a MAP<INT>", 10, "found '>'", "expected ',' between"),
        ("a STRUCT<>", 10, "found '>'", "expected a column name"),
        ("a INT NOT", 10, "the schema ends", "expected NULL after NOT"),
        ("a INT COMMENT b", 15, "found 'b'", "expected the comment's text"),
        ("a INT COMMENT 'b", 15, 'found "\'"', "not closed"),
        ("`a INT", 1, "found '`'", "not closed"),
    ],
)
def test_mistakes_are_pointed_at(ddl: str, position: int, found: str, complaint: str) -> None:
    with pytest.raises(SpecError) as refused:
        parse_ddl(ddl)
    message = refused.value.message
    assert message.startswith(f"schema, position {position}: {found}"), message
    assert complaint in message
    assert refused.value.remedy


@given(st.text(alphabet=st.sampled_from("ab `,<>():'\"\\09INTSRUCAYDEML-\n"), max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        names = parse_ddl(text).names
    except SpecError:  # nothing else may come out
        return
    assert names


@given(st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=4, unique_by=str.lower))
def test_any_name_can_be_quoted(names: list[str]) -> None:
    quoted = ", ".join(f"`{name.replace('`', '``')}` INT" for name in names)
    assert parse_ddl(quoted).names == names
