"""Every sink encodes a nested value as the same JSON text. Servers: integration_tests/test_values_unaltered.py."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
import pytest

from connectors.kafka.settings import Connection
from connectors.kafka.sink.layout import Layout
from connectors.kafka.sink.messages import Messages
from connectors.kafka.sink.target import Facts, Topics
from connectors.sql.mysql import encode as mysql
from connectors.sql.mysql import fit as mysql_fit
from connectors.sql.postgres import encode as postgres
from connectors.sql.postgres import fit as postgres_fit
from connectors.sql.sqlite.columns import Binding, Form
from connectors.sql.sqlite.values import Stored
from eos.errors import BadRowError

WIDE = 8981674328653005637  # no double has this value
NESTED = pa.struct(
    [
        ("map", pa.map_(pa.string(), pa.decimal128(6, 2))),
        ("long", pa.decimal128(38, 4)),
        ("moments", pa.list_(pa.timestamp("us", "UTC"))),
        ("bytes", pa.binary()),
        ("whole", pa.list_(pa.int64())),
        ("unsigned", pa.uint64()),
        ("by_number", pa.map_(pa.int64(), pa.bool_())),
        ("small", pa.decimal128(15, 10)),
        ("local", pa.timestamp("us")),
        ("abroad", pa.timestamp("us", "Asia/Tokyo")),
    ]
)
VALUE = {
    "map": [("a", Decimal("1.50")), ("b", None)],
    "long": Decimal("12345678901234567.2500"),
    "moments": [dt.datetime(2026, 2, 28, 23, 59, 59, 123000, dt.UTC), None],
    "bytes": b"\xff\x00",
    "whole": [WIDE, -WIDE, None],
    "unsigned": 2**64 - 1,
    "by_number": [(WIDE, True)],
    "small": Decimal("0.0000000001"),
    "local": dt.datetime(2026, 2, 28, 23, 59, 59),
    "abroad": dt.datetime(2026, 2, 28, 23, 59, 59, tzinfo=dt.UTC),
}
TEXT = (
    '{"map":{"a":1.50,"b":null},"long":"12345678901234567.2500",'
    '"moments":["2026-02-28T23:59:59.123000Z",null],"bytes":"/wA=",'
    '"whole":[8981674328653005637,-8981674328653005637,null],"unsigned":18446744073709551615,'
    '"by_number":{"8981674328653005637":true},"small":1E-10,'
    '"local":"2026-02-28T23:59:59.000000","abroad":"2026-02-28T23:59:59.000000Z"}'
)


def _mysql(values: pa.Array) -> pa.Array:
    return mysql.texts(mysql_fit.ColumnPlan("v", "v", mysql_fit.Form.JSON), values, 1)


def _postgres(values: pa.Array) -> pa.Array:
    return postgres.texts(postgres_fit.ColumnPlan("v", "v", postgres_fit.Form.JSON, type="jsonb"), values, 1)


def _sqlite(values: pa.Array) -> pa.Array:
    stored = Stored("t", (Binding("v", "v", values.type, Form.JSON, nullable=True),))
    return stored.convert(pa.record_batch([values], names=["v"]), 1)["v"]


def _kafka(values: pa.Array) -> pa.Array:
    facts = Facts(partitions=1, max_bytes=1_000_000, replication=1)
    batch = pa.record_batch([values], names=["v"])
    messages = Messages(Layout("t"), batch.schema, Topics(Connection("k:1", "g"), facts, "eos-markers"))
    written = [each.decode() for each in messages.convert(batch, 1)["value"].to_pylist()]
    fields = [text.removeprefix('{"v":').removesuffix("}") for text in written]
    return pa.array([None if field == "null" else field for field in fields], pa.string())


EVERY_SINK = pytest.mark.parametrize("encode", [_mysql, _postgres, _sqlite, _kafka])
Encode = Callable[[pa.Array], pa.Array]


@EVERY_SINK
def test_the_text_is_the_same(encode: Encode) -> None:
    assert encode(pa.array([VALUE, None], NESTED)).to_pylist() == [TEXT, None]


@EVERY_SINK
def test_equal_keys_of_a_map_are_a_bad_row(encode: Encode) -> None:
    maps = pa.MapArray.from_arrays([0, 1, 3], pa.array(["a", "a", "a"]), pa.array([1, 2, 3]))
    with pytest.raises(BadRowError, match="two equal keys"):
        encode(maps)
    assert encode(maps.slice(0, 1)).to_pylist() == ['{"a":1}']
