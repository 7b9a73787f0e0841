"""Values of columns, in each type that Debezium and Connect write them in."""

from __future__ import annotations

import base64
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from connectors.formats.ddl import parse_ddl
from connectors.formats.debezium.entry import DebeziumEntry
from connectors.formats.debezium.readings import check_written
from eos.errors import SpecError
from tests.connectors.formats.debezium.registered import avro_format
from tests.connectors.formats.debezium.written import (
    column,
    connect_field,
    decode,
    event,
    json_format,
    reasons,
    wrapped,
    wrapped_key,
)
from tests.searches import examples

TIME: Final = "io.debezium.time."
CONNECT: Final = "org.apache.kafka.connect.data."
DATA: Final = "io.debezium.data."
EPOCH: Final = datetime(1970, 1, 1)


def unscaled(number: int) -> str:
    """As BigInteger.toByteArray gives it, in base64."""
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return base64.b64encode(number.to_bytes(size, signed=True)).decode()


CASES: Final[list[tuple[str, str, Any, Any, dict[str, Any]]]] = [
    # type of the column, type as written, JSON value, value of the column, further parts of the schema
    ("DATE", TIME + "Date", 19_782, date(2024, 2, 29), {}),
    ("DATE", CONNECT + "Date", -719_162, date(1, 1, 1), {}),
    ("TIMESTAMP_NTZ", TIME + "Timestamp", 1_709_208_000_001, datetime(2024, 2, 29, 12, 0, 0, 1_000), {}),
    ("TIMESTAMP_NTZ", CONNECT + "Timestamp", -1, datetime(1969, 12, 31, 23, 59, 59, 999_000), {}),
    ("TIMESTAMP_NTZ", TIME + "MicroTimestamp", -1, datetime(1969, 12, 31, 23, 59, 59, 999_999), {}),
    ("TIMESTAMP_NTZ", TIME + "NanoTimestamp", -1_000, datetime(1969, 12, 31, 23, 59, 59, 999_999), {}),
    ("TIMESTAMP_NTZ", TIME + "IsoTimestamp", "2024-02-29T12:00:00Z", datetime(2024, 2, 29, 12), {}),
    ("TIMESTAMP", TIME + "MicroTimestamp", 1, datetime(1970, 1, 1, 0, 0, 0, 1, UTC), {}),
    ("TIMESTAMP", TIME + "ZonedTimestamp", "2024-02-29T12:00:00+01:00", datetime(2024, 2, 29, 11, tzinfo=UTC), {}),
    ("STRING", TIME + "Time", 3_600_001, "01:00:00.001000", {}),
    ("STRING", TIME + "MicroTime", 47_100_250_000, "13:05:00.250000", {}),
    ("STRING", TIME + "MicroTime", -108_001_000_000, "-30:00:01.000000", {}),
    ("STRING", TIME + "MicroTime", 86_400_000_000, "24:00:00.000000", {}),
    ("STRING", TIME + "MicroTime", 3_020_399_000_000, "838:59:59.000000", {}),
    ("STRING", TIME + "NanoTime", 1_000, "00:00:00.000001", {}),
    ("STRING", TIME + "ZonedTime", "12:00:00Z", "12:00:00Z", {}),
    ("BIGINT", TIME + "MicroTimestamp", 7, 7, {}),
    ("BIGINT", TIME + "MicroDuration", -7, -7, {}),
    ("INT", TIME + "Year", 2024, 2024, {}),
    ("DECIMAL(10,2)", CONNECT + "Decimal", unscaled(-125), Decimal("-1.25"), {"scale": 2}),
    ("DECIMAL(10,2)", CONNECT + "Decimal", unscaled(5), Decimal("5.00"), {"scale": 0}),
    ("DECIMAL(10,2)", CONNECT + "Decimal", unscaled(1_250_000), Decimal("1.25"), {"scale": 6}),
    ("DECIMAL(38,0)", CONNECT + "Decimal", unscaled(-(10**38) + 1), Decimal(-(10**38) + 1), {"scale": 0}),
    ("DECIMAL(10,2)", DATA + "VariableScaleDecimal", {"scale": 1, "value": unscaled(125)}, Decimal("12.50"), {}),
    ("DECIMAL(10,2)", "", "-1.25", Decimal("-1.25"), {"kind": "string"}),
    ("DECIMAL(10,2)", "", -1.25, Decimal("-1.25"), {"kind": "double"}),
    ("BINARY", "", "YWJj", b"abc", {"kind": "bytes"}),
    ("BINARY", DATA + "Bits", "AQE=", b"\1\1", {"kind": "bytes"}),
    ("STRING", DATA + "Json", '{"a": 1}', '{"a": 1}', {"kind": "string"}),
    ("STRING", DATA + "Enum", "b", "b", {"kind": "string"}),
    ("STRING", DATA + "EnumSet", "x,y", "x,y", {"kind": "string"}),
    ("STRING", DATA + "Uuid", "0c5e", "0c5e", {"kind": "string"}),
    ("STRUCT<wkb: BINARY, srid: INT>", DATA + "geometry.Point", {"x": 1.0, "wkb": "AQ==", "srid": None},
     {"wkb": b"\1", "srid": None}, {"kind": "struct"}),
    ("BOOLEAN", "", True, True, {"kind": "boolean"}),
    ("SMALLINT", "", -300, -300, {"kind": "int16"}),
    ("DOUBLE", "", 2.25, 2.25, {"kind": "double"}),
    ("ARRAY<STRING>", "", ["a", None], ["a", None], {"kind": "array"}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "written", "value", "expected", "more"), CASES)
def test_by_the_schema_of_the_record(kind: str, written: str, value: Any, expected: Any, more: dict[str, Any]) -> None:
    field = connect_field("v", more.get("kind", "int64"), written or None, more.get("scale"))
    values = [wrapped([field], event("c", None, {"v": each})) for each in (value, None)]
    assert column(json_format(f"v {kind}"), "v", values) == [expected, None]


@pytest.mark.parametrize(("kind", "written", "value", "expected", "more"), CASES)
def test_by_the_types_of_the_spec(kind: str, written: str, value: Any, expected: Any, more: dict[str, Any]) -> None:
    name = written.rpartition(".")[2] or more["kind"]
    try:
        check_written("v", parse_ddl(f"v {kind}").field(0).type, name)
    except SpecError:
        types = {}  # read as it is written
    else:
        types = {"v": name}
    if more.get("scale", 2) == 2 or "38" in kind:
        assert column(json_format(f"v {kind}", types), "v", [event("d", {"v": value})]) == [expected]


def test_without_a_schema_debeziums_defaults_count() -> None:
    decoder = json_format("price DECIMAL(10,2), day DATE, at TIMESTAMP")
    row = {"price": unscaled(125), "day": 1, "at": "1970-01-01T00:00:00Z"}
    (found,) = decode(decoder, [event("c", None, row)]).rows.to_pylist()
    assert [found["price"], found["day"], found["at"]] == [Decimal("1.25"), date(1970, 1, 2), EPOCH.replace(tzinfo=UTC)]


def test_a_number_without_a_unit_is_bad() -> None:
    """Milliseconds and microseconds look alike."""
    decoded = decode(json_format("at TIMESTAMP_NTZ"), [event("c", None, {"at": 1}), event("c", None, {})])
    assert [each.index for each in decoded.bad] == [0]
    assert decoded.bad[0].reason.startswith("at: a number, and neither the record nor `types` states its unit")


def test_types_of_the_spec_count_before_the_schema_of_the_record() -> None:
    """`decimal.format: NUMERIC` writes numbers, and its schema has bytes."""
    field = connect_field("v", "bytes", CONNECT + "Decimal", 2)
    value = wrapped([field], event("c", None, {"v": 1.25}))
    assert column(json_format("v DECIMAL(10,2)", {"v": "double"}), "v", [value]) == [Decimal("1.25")]
    assert reasons(decode(json_format("v DECIMAL(10,2)"), [value])) == ["field after/v: expected string, found number"]


def test_types_count_for_keys_too() -> None:
    decoder = json_format("at TIMESTAMP_NTZ, name STRING")
    key = wrapped_key([connect_field("at", "int64", TIME + "Timestamp")], b'{"at":1000}')
    (found,) = decode(decoder, [event("d")], [key]).rows.to_pylist()
    assert found["at"] == EPOCH + timedelta(seconds=1)


@pytest.mark.parametrize(
    ("kind", "written", "value", "reason"),
    [
        ("DATE", TIME + "Date", 2_932_897, "v: not a day of the years 1 to 9999"),
        ("DATE", TIME + "Date", 2**62, "v: not a day of the years 1 to 9999"),
        ("DATE", TIME + "Date", "2024-02-29", "field after/v: expected number, found string"),
        ("TIMESTAMP_NTZ", TIME + "Timestamp", 2**62, "v: is not in the years 1 to 9999"),
        ("TIMESTAMP_NTZ", TIME + "Timestamp", -(2**63), "v: is not in the years 1 to 9999"),
        ("TIMESTAMP_NTZ", TIME + "MicroTimestamp", 9_223_372_036_825_200_000, "v: is not in the years 1 to 9999"),
        ("TIMESTAMP_NTZ", TIME + "NanoTimestamp", 1, "v: has nanoseconds, or is not in the years 1 to 9999"),
        ("TIMESTAMP_NTZ", TIME + "IsoTimestamp", "yesterday", "v: not a time in ISO 8601"),
        ("TIMESTAMP", TIME + "ZonedTimestamp", "infinity", "field after/v: 'infinity' does not fit TIMESTAMP"),
        ("STRING", TIME + "MicroTime", 3_600_000_000_000, "v: is more than 999 hours"),
        ("STRING", TIME + "MicroTime", -(2**63), "v: is more than 999 hours"),
        ("DECIMAL(4,2)", CONNECT + "Decimal", unscaled(10_000), "v: not a number of DECIMAL(4,2)"),
        ("DECIMAL(4,2)", CONNECT + "Decimal", unscaled(2**200), "v: not a number of DECIMAL(4,2)"),
        ("DECIMAL(4,2)", CONNECT + "Decimal", "", "v: not a number of DECIMAL(4,2)"),
        ("DECIMAL(4,2)", CONNECT + "Decimal", "1.25", "field after/v: Only base64 data is allowed"),
        ("DECIMAL(4,2)", CONNECT + "Decimal", 7, "field after/v: expected string, found number"),
        (
            "DECIMAL(4,2)",
            DATA + "VariableScaleDecimal",
            {"scale": 3, "value": unscaled(1)},
            "v: not a number",
        ),
        (
            "DECIMAL(4,2)",
            DATA + "VariableScaleDecimal",
            {"scale": 40, "value": unscaled(1)},
            "v: not a number",
        ),
        ("DECIMAL(4,2)", DATA + "VariableScaleDecimal", {"value": unscaled(1)}, "v: not a number"),
        ("BINARY", "", "YQ", "field after/v: not base64"),
        ("DOUBLE", "", "NaN", "field after/v: expected number, found string"),
        ("INT", "", True, "field after/v: expected number, found boolean"),
        ("STRING", "", 1, "field after/v: expected string, found number"),
    ],
)
def test_a_value_that_does_not_fit_is_bad(kind: str, written: str, value: Any, reason: str) -> None:
    values = [
        wrapped([connect_field("v", "int64", written or None)], event("c", None, {"v": each})) for each in (None, value)
    ]
    decoded = decode(json_format(f"v {kind}"), values)
    assert [each.index for each in decoded.bad] == [1]
    assert decoded.bad[0].reason.startswith(reason), decoded.bad[0].reason


def test_a_scale_of_the_record_is_not_that_of_the_column() -> None:
    field = connect_field("v", "bytes", CONNECT + "Decimal", 39)
    assert reasons(decode(json_format("v DECIMAL(38,2)"), [wrapped([field], event("c", None, {"v": "AQ=="}))])) == [
        "v: not a number of DECIMAL(38,2)"
    ]


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.integers(-(2**130), 2**130), st.integers(-(10**6), 10**6)), min_size=1),
    st.integers(0, 40),
    st.integers(1, 38),
    st.integers(0, 38),
)
@example([10**37, -(10**37), 0], 0, 38, 0)
@example([9_999, -9_999, 10_000], 2, 4, 2)
def test_decimals_are_exact_or_bad(numbers: list[int | None], written_scale: int, precision: int, scale: int) -> None:
    scale = min(scale, precision)
    field = connect_field("v", "bytes", CONNECT + "Decimal", written_scale)
    of_each = connect_field("v", "struct", DATA + "VariableScaleDecimal")
    texts = [None if each is None else unscaled(each) for each in numbers]
    decoder = json_format(f"v DECIMAL({precision},{scale})")
    fixed = decode(decoder, [wrapped([field], event("c", None, {"v": each})) for each in texts])
    structs = [None if each is None else {"scale": written_scale, "value": each} for each in texts]
    variable = decode(decoder, [wrapped([of_each], event("c", None, {"v": each})) for each in structs])
    expected = [_decimal(each, written_scale, precision, scale) for each in numbers]
    for decoded in (fixed, variable):
        assert [each.index for each in decoded.bad] == [at for at, each in enumerate(expected) if each == "bad"]
        found = decoded.rows.column("v").to_pylist()
        assert found == [each for each in expected if each != "bad"]


def _decimal(number: int | None, written_scale: int, precision: int, scale: int) -> Decimal | str | None:
    if number is None:
        return None
    whole, rest = divmod(number * 10**scale, 10**written_scale)
    if rest or abs(whole) >= 10**precision or abs(number) >= 10**38 or written_scale > 38:
        return "bad"
    return Decimal(whole).scaleb(-scale) if whole else Decimal(0)


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), min_size=1), st.sampled_from([1_000, 1, -1_000])
)
def test_moments_are_exact_or_bad(numbers: list[int | None], unit: int) -> None:
    name = {1_000: "Timestamp", 1: "MicroTimestamp", -1_000: "NanoTimestamp"}[unit]
    decoded = decode(json_format("v TIMESTAMP_NTZ", {"v": name}), [event("c", None, {"v": each}) for each in numbers])
    found = iter(decoded.rows.column("v").to_pylist())
    bad = {each.index for each in decoded.bad}
    for at, number in enumerate(numbers):
        exact = None if number is None else _moment(number, unit)
        assert (at in bad) == (exact == "bad")
        if at not in bad:
            assert next(found) == exact


def _moment(number: int, unit: int) -> datetime | str:
    micros, rest = (number * unit, 0) if unit > 0 else divmod(number, -unit)
    try:
        return "bad" if rest else EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return "bad"


@pytest.mark.parametrize(
    ("keys", "mistake"),
    [
        ({"types": {"x": "Date"}}, "column 'x' is not in the schema"),
        ({"types": {"at": "Date"}}, "types: column at is TIMESTAMP_NTZ, which is not read from 'Date'"),
        ({"types": {"id": "Date"}}, "types: column id is BIGINT, which is read as it is written"),
        ({"types": {"at": "Timestamp"}, "documents": True}, "documents state their types"),
        ({"schema": "id BIGINT, _Op STRING"}, "column _Op is one that each event has"),
        ({"schema": "m MAP<DATE, INT>"}, "the names of a JSON object are text"),
        ({"truncate": "fail"}, "truncate"),
        ({"encoding": "confluent"}, "confluent without a registry"),
        ({"registry": {"url": "https://h:1"}}, "a registry with json"),
    ],
)
def test_mistakes_of_a_spec(keys: dict[str, Any], mistake: str) -> None:
    with pytest.raises(ValueError, match=mistake):
        DebeziumEntry.model_validate({"type": "debezium", "schema": "id BIGINT, at TIMESTAMP_NTZ", **keys})


def test_a_spec_builds_the_format() -> None:
    keys = {"schema": "id BIGINT NOT NULL, at TIMESTAMP_NTZ", "types": {"at": "Timestamp"}, "truncate": "skip"}
    entry = DebeziumEntry.model_validate({"type": "debezium", **keys})
    assert entry.build() == json_format("id BIGINT NOT NULL, at TIMESTAMP_NTZ", {"at": "Timestamp"}, truncate="skip")
    assert (entry.schema_text, entry.extras) == (keys["schema"], frozenset())
    registry = {"encoding": "confluent", "registry": {"url": "http://127.0.0.1:1"}}
    entry = DebeziumEntry.model_validate({"type": "debezium", **keys, **registry})
    expected = avro_format("id BIGINT NOT NULL, at TIMESTAMP_NTZ", {"at": "Timestamp"}, truncate="skip")
    assert entry.build() == expected
    assert entry.extras == {"avro", "registry"}
