"""Types of columns in messages, as Spark names them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from connectors.formats.ddl import parse_ddl
from connectors.spark_types import spark_type, spark_type_of_name

_DDL = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "BINARY", "DATE"),
    *("TIMESTAMP", "TIMESTAMP_NTZ", "DECIMAL(38,7)", "ARRAY<INT>", "STRUCT<a: BIGINT, b: ARRAY<STRUCT<c: DATE>>>"),
)


@pytest.mark.parametrize("ddl", _DDL)
def test_a_type_is_named_as_a_schema_writes_it(ddl: str) -> None:
    assert spark_type(parse_ddl(f"a {ddl}").field("a").type) == ddl


def test_what_spark_keeps_in_another_form() -> None:
    assert spark_type(pa.large_string()) == "STRING"
    assert spark_type(pa.dictionary(pa.int32(), pa.string())) == "STRING"
    assert spark_type(pa.map_(pa.string(), pa.int64())) == "MAP<STRING, BIGINT>"
    assert spark_type(pa.duration("s")) == "duration[s]", "Spark has no such type"


def test_names_in_messages_of_arrow() -> None:
    assert [spark_type_of_name(each) for each in ("int64", "timestamp", "odd")] == ["BIGINT", "TIMESTAMP", "odd"]
