"""Events that Debezium 3.5 has written for a table of MariaDB with every type, and its other records."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest

from tests.connectors.formats.debezium.written import decode, json_format, packed

_GOLDEN: Final = Path(__file__).parents[3] / "golden" / "debezium_mariadb.jsonl"
_RECORDS: Final = [json.loads(line) for line in _GOLDEN.read_text().splitlines()]
_DDL: Final = (
    "id BIGINT NOT NULL, name STRING NOT NULL, price DECIMAL(10,2), big DECIMAL(38,10), day DATE, dt TIMESTAMP_NTZ, "
    "dt6 TIMESTAMP_NTZ, ts TIMESTAMP, tm STRING, tm6 STRING, yr INT, f FLOAT, d DOUBLE, bl BINARY, txt STRING, "
    "js STRING, en STRING, st STRING, b1 BOOLEAN, b9 BINARY, ti TINYINT, bo SMALLINT, sm SMALLINT, ui BIGINT, "
    "g STRUCT<wkb: BINARY, srid: INT>"
)
_TYPES: Final = {"dt": "Timestamp", "dt6": "MicroTimestamp", "tm": "MicroTime", "tm6": "MicroTime"}
_ROW: Final[dict[str, Any]] = {
    "name": "m",
    "price": Decimal("-1.25"),
    "big": Decimal("12345678901234567890.0123456789"),
    "day": date(2024, 2, 29),
    "dt": datetime(2024, 2, 29, 12, 0, 1),
    "dt6": datetime(2024, 2, 29, 12, 0, 1, 123_456),
    "ts": datetime(2024, 2, 29, 6, 15, 1, 123_456, UTC),
    "tm": "-30:00:01.000000",
    "tm6": "13:05:00.250000",
    "yr": 2024,
    "f": 1.5,
    "d": 2.25,
    "bl": b"abc",
    "txt": "tüxt",
    "js": '{"a":1}',
    "en": "b",
    "st": "x,y",
    "b1": True,
    "b9": b"\1\1",
    "ti": -5,
    "bo": 1,
    "sm": -300,
    "ui": -1,  # 2**64 - 1, by Debezium's default
}


@pytest.mark.parametrize("has_schemas", [True, False])
def test_rows_of_the_table_and_nothing_else(has_schemas: bool) -> None:
    decoder = json_format(_DDL, {} if has_schemas else _TYPES)
    texts = [(each["key"], each["value"]) for each in _RECORDS]
    if has_schemas:
        records = [(key.encode(), value.encode()) for key, value in texts]
    else:
        records = [tuple(packed(json.loads(text)["payload"]) for text in pair) for pair in texts]  # type: ignore[misc]
    decoded = decode(decoder, [value for _, value in records], [key for key, _ in records])
    assert decoded.bad == ()
    others = [at for at, each in enumerate(_RECORDS) if each["of"] != "table"]
    assert list(decoded.omitted) == others
    assert {_RECORDS[at]["of"] for at in others} == {"heartbeat", "transaction", "schema"}
    rows = {each["_op"]: each for each in decoded.rows.to_pylist()}
    assert sorted(rows) == ["c", "d", "r", "u"]
    assert {name: rows["u"][name] for name in _ROW} == _ROW
    assert rows["d"]["_deleted"]
    assert rows["r"]["_position"] < rows["u"]["_position"] < rows["d"]["_position"]


def test_a_deletion_by_the_key() -> None:
    """As a database without the image of the deleted row has it."""
    (found,) = [each for each in _RECORDS if each["of"] == "table" and '"op":"d"' in each["value"]]
    value = json.loads(found["value"])
    value["payload"]["before"] = None
    decoded = decode(json_format(_DDL), [packed(value)], [found["key"].encode()])
    assert decoded.rows.column("id").to_pylist() == [json.loads(found["key"])["payload"]["id"]]
