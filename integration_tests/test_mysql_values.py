"""Values of every type through the real writer and back, by LOAD DATA and by INSERT, on a real server."""

from __future__ import annotations

import datetime as dt
import json
import struct
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connectors.sql.mysql import writer as writer_module
from connectors.sql.mysql.bulk import Bulk
from connectors.sql.mysql.engine import Session
from integration_tests.mysql_support import Bench, bench
from integration_tests.mysql_support import clean_up as clean_up
from twophase.values import CommitOutcome

UTC = dt.UTC

# name: (column, Arrow type, how it is read back, values)
_INT = st.integers
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
_MOMENTS = st.datetimes(dt.datetime(1970, 1, 2), dt.datetime(2037, 12, 31), timezones=st.just(UTC))
_PLAIN_MOMENTS = st.datetimes(dt.datetime(1000, 1, 1), dt.datetime(9999, 12, 31))
_JSON_LEAVES = st.one_of(st.none(), _TEXT)
_STRUCT = pa.struct(
    [
        ('quoted "name"', pa.string()),
        ("list", pa.list_(pa.int64())),
        ("deep", pa.list_(pa.struct([("x", pa.float64()), ("y", pa.bool_())]))),
        ("map", pa.map_(pa.string(), pa.int32())),
    ]
)
_STRUCTS = st.fixed_dictionaries(
    {
        'quoted "name"': _JSON_LEAVES,
        "list": st.none() | st.lists(st.none() | _INT(-(2**63), 2**63 - 1), max_size=4),
        "deep": st.none()
        | st.lists(
            st.none()
            | st.fixed_dictionaries(
                {"x": st.none() | st.floats(allow_nan=False, allow_infinity=False, width=32), "y": st.booleans()}
            ),
            max_size=3,
        ),
        "map": st.none() | st.dictionaries(_TEXT, st.none() | _INT(-(2**31), 2**31 - 1), max_size=3),
    }
)


def _single(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


def _finite(width: int) -> st.SearchStrategy[float]:
    return st.floats(allow_nan=False, allow_infinity=False, width=width)  # type: ignore[arg-type]


Kind = tuple[str, pa.DataType, str, st.SearchStrategy[Any]]
KINDS: dict[str, Kind] = {
    "tiny": ("TINYINT", pa.int8(), "{}", _INT(-128, 127)),
    "small": ("SMALLINT UNSIGNED", pa.int32(), "{}", _INT(0, 65535)),
    "medium": ("MEDIUMINT", pa.int32(), "{}", _INT(-(2**23), 2**23 - 1)),
    "big": ("BIGINT", pa.int64(), "{}", _INT(-(2**63), 2**63 - 1)),
    "huge": ("BIGINT UNSIGNED", pa.uint64(), "{}", _INT(0, 2**64 - 1)),
    "flag": ("BOOLEAN", pa.bool_(), "{}", st.booleans()),
    "bit": ("BIT(1)", pa.bool_(), "{} + 0", st.booleans()),
    "bits": ("BIT(64)", pa.uint64(), "{} + 0", _INT(0, 2**64 - 1)),
    "single": ("FLOAT", pa.float32(), "{} + 0e0", _finite(32)),
    "double": ("DOUBLE", pa.float64(), "{}", _finite(64)),
    "wide": ("DOUBLE", pa.float32(), "{}", _finite(32)),
    "money": ("DECIMAL(38,10)", pa.decimal128(38, 10), "{}", st.decimals(-(10**27), 10**27, places=10)),
    "words": ("LONGTEXT", pa.string(), "{}", _TEXT),
    "short": ("VARCHAR(100)", pa.large_string(), "{}", _TEXT),
    "raw": ("VARBINARY(300)", pa.binary(), "{}", st.binary(max_size=300)),
    "blob": ("LONGBLOB", pa.large_binary(), "{}", st.binary(max_size=100)),
    "choice": (
        r"ENUM('a','b''c','ü','d\\e','f, g\nh','1')",
        pa.string(),
        "{}",
        st.sampled_from(["a", "b'c", "ü", "d\\e", "f, g\nh", "1"]),
    ),
    "set_of": ("SET('p','q')", pa.string(), "{}", st.sampled_from(["", "p", "q", "p,q"])),
    "fixed": ("CHAR(9)", pa.string(), "{}", _TEXT.map(lambda text: text[:9].rstrip(" "))),
    "exact": ("BINARY(3)", pa.binary(), "{}", st.binary(min_size=3, max_size=3)),
    "day": ("DATE", pa.date32(), "{}", st.dates(dt.date(1000, 1, 1), dt.date(9999, 12, 31))),
    "plain": ("DATETIME(6)", pa.timestamp("us"), "{}", _PLAIN_MOMENTS),
    "zoned": ("DATETIME(6)", pa.timestamp("us", "Europe/Berlin"), "{}", _MOMENTS),
    "stamp": ("TIMESTAMP(6) NULL", pa.timestamp("us", "UTC"), "{}", _MOMENTS),
    "clock": ("TIME(6)", pa.time64("us"), "{}", st.times()),
    "document": ("JSON", _STRUCT, "{}", _STRUCTS),
    "items": ("JSON", pa.list_(pa.string()), "{}", st.lists(_JSON_LEAVES, max_size=4)),
}


def _back(name: str, value: Any) -> Any:
    """What the driver shows for a value that was written."""
    if value is None:
        return None
    if name in ("flag", "bit"):
        return int(value)
    if name in ("zoned", "stamp"):
        return value.replace(tzinfo=None)
    if name == "clock":
        return dt.timedelta(
            hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond
        )
    if name == "single":
        return _single(value)
    return value


def _read(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name in ("document", "items"):
        return json.loads(value)
    if name in ("bit", "bits"):
        return int(value)
    return value


SCHEMA = pa.schema([("n", pa.int64()), *((name, kind[1]) for name, kind in KINDS.items())])
COLUMNS = ", ".join(["n BIGINT NOT NULL", *(f"`{name}` {kind[0]}" for name, kind in KINDS.items())])
ROW = st.fixed_dictionaries({name: st.none() | kind[3] for name, kind in KINDS.items()})
SELECT = "SELECT " + ", ".join(["n", *(kind[2].format(f"`{name}`") for name, kind in KINDS.items())])


@pytest.fixture(scope="module")
def module_database(services: Any) -> Iterator[str]:
    import secrets

    from integration_tests import databases

    name = f"eos_{secrets.token_hex(5)}"
    databases.create(services, name)
    yield f"{services.database_url.rstrip('/')}/{name}"
    databases.drop(services, name)


@pytest.fixture(scope="module")
def wide(module_database: str) -> Bench:
    return bench(module_database, COLUMNS, SCHEMA)


@pytest.fixture(params=["load", "insert"])
def variant(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How the rows travel; `insert` is what a server without local_infile gets."""
    if request.param == "insert":

        def insert(target: str, plans: Any, *, local: bool, max_packet_bytes: int) -> Bulk:
            return Bulk(target, plans, local=False, max_packet_bytes=max_packet_bytes)

        monkeypatch.setattr(writer_module, "Bulk", insert)
    return str(request.param)


def write_and_read(made: Bench, rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """By a checkpoint of their own: of one that is visible nothing is written any more (H33)."""
    table = pa.Table.from_pylist([{"n": n, **row} for n, row in enumerate(rows)], schema=SCHEMA)
    scope = made.permitted(checkpoint_id=made.attempts)
    committable = made.prepare(scope, 0, *table.to_batches())
    with Session(made.url) as session:
        while made.committer.commit(scope.checkpoint_id, [committable])[0] is CommitOutcome.RETRY_LATER:
            pass
        found = session.execute(f"{SELECT} FROM {made.sink.target} ORDER BY n")
        session.execute(f"TRUNCATE {made.sink.target}")
    assert committable.rows == len(rows)
    return found


def assert_same(rows: list[dict[str, Any]], found: list[tuple[Any, ...]]) -> None:
    assert len(found) == len(rows)
    for (_, *values), row in zip(found, rows, strict=True):
        for name, value in zip(KINDS, values, strict=True):
            assert _read(name, value) == _back(name, row[name]), name


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(rows=st.lists(ROW, min_size=1, max_size=8))
def test_any_values_come_back_as_they_were(wide: Bench, variant: str, rows: list[dict[str, Any]]) -> None:
    assert_same(rows, write_and_read(wide, rows))


HOSTILE = [
    "", "N", "\\N", "\\", "\\\\", "'", '"', "`", "\t", "\n", "\r\n", "\\n", "\0", "\x1a", "%", "%s", "%(x)s", ",",
    "NULL", "null", "😀", "é", "\u2028", "a\tb\nc\\d'e\"f\0g", "); DROP TABLE rows_in; --", " lead", "trail ",
    "\\", "x\\",
]  # fmt: skip
ALL_BYTES = bytes(range(256))


def test_the_values_that_break_naive_writers(wide: Bench, variant: str) -> None:
    empty = dict.fromkeys(KINDS)
    rows = [empty | {"words": text, "short": text, "items": [text, None]} for text in HOSTILE]
    rows += [empty | {"raw": value, "blob": value} for value in (b"", b"\0", ALL_BYTES, ALL_BYTES[::-1], b"\\N", b"'")]
    rows += [empty | {"double": value} for value in (0.1, 5e-324, 1.7976931348623157e308, -2.5, 1e16, 2**53 + 2.0)]
    rows += [empty | {"money": Decimal("-0.0000000001")}, empty | {"huge": 2**64 - 1}, empty | {"bits": 2**64 - 1}]
    found = write_and_read(wide, rows)
    assert_same(rows, found)
    assert len(found) == len(HOSTILE) + 15


@pytest.mark.parametrize(
    ("column", "arrow", "write", "read"),
    [
        ("DATETIME(0)", pa.timestamp("us"), lambda n: dt.datetime(2024, 1, 1, 0, 0, n), lambda v: v),
        ("DATETIME(3)", pa.timestamp("ms"), lambda n: dt.datetime(2024, 1, 1, 0, 0, n, 5000), lambda v: v),
        ("DATETIME(6)", pa.timestamp("ns", "UTC"), lambda n: dt.datetime(2024, 1, 1, 0, 0, n, 5, tzinfo=UTC),
         lambda v: v.replace(tzinfo=UTC)),
        ("DATETIME", pa.date32(), lambda n: dt.date(2024, 1, n + 1), lambda v: v.date()),
        ("TIME(6)", pa.time64("ns"), lambda n: dt.time(1, 2, n, 7), lambda v: (dt.datetime.min + v).time()),
        ("VARCHAR(20)", pa.int64(), lambda n: n - 3, int),
        ("VARCHAR(50)", pa.decimal128(20, 3), lambda n: Decimal(n) / 8, Decimal),
        ("VARCHAR(20)", pa.binary(), lambda n: f"é{n}".encode(), lambda v: v.encode()),
        ("INT", pa.string(), str, str),
        ("INT", pa.decimal128(10, 2), lambda n: Decimal(n), lambda v: Decimal(v)),
        ("DECIMAL(10,2)", pa.string(), lambda n: f"{n}.25", str),
        ("DECIMAL(10,2)", pa.int64(), lambda n: n, int),
        ("DECIMAL(65,30)", pa.decimal256(65, 30), lambda n: Decimal(n) + Decimal("1e-30"), lambda v: v),
        ("DOUBLE", pa.int64(), lambda n: n + 2**40, int),
        ("FLOAT", pa.int16(), lambda n: n - 5, int),
        ("BLOB", pa.string(), lambda n: f"ü{n}", lambda v: v.decode()),
        ("BINARY(2)", pa.binary(2), lambda n: bytes([n, 255]), lambda v: v),
        ("VARCHAR(20)", pa.dictionary(pa.int32(), pa.string()), lambda n: f"w{n % 2}", lambda v: v),
        ("VARCHAR(200)", pa.map_(pa.string(), pa.int64()), lambda n: [("k", n)], lambda v: list(json.loads(v).items())),
        ("JSON", pa.string(), lambda n: json.dumps({"a": [n, "ü\t"]}), lambda v: json.dumps(json.loads(v))),
        ("JSON", pa.list_(pa.decimal128(38, 18)), lambda n: [Decimal(n)],
         lambda v: [Decimal(x) for x in json.loads(v)]),
    ],
)  # fmt: skip
def test_pairs_of_types_that_hold(
    database: str,
    variant: str,
    column: str,
    arrow: pa.DataType,
    write: Callable[[int], Any],
    read: Callable[[Any], Any],
) -> None:
    schema = pa.schema([("v", arrow)])
    made = bench(database, f"n INT AUTO_INCREMENT PRIMARY KEY, v {column}", schema)
    values = [write(n) for n in range(1, 20)] + [None]
    committable = made.prepare(made.permitted(), 0, pa.record_batch([pa.array(values, arrow)], schema))
    while made.committer.commit(0, [committable])[0] is CommitOutcome.RETRY_LATER:
        pass
    found = [row[0] for row in made.query("SELECT v FROM rows_in ORDER BY n")]
    assert [None if value is None else read(value) for value in found] == values


def test_a_slice_of_a_batch_writes_its_own_rows_only(database: str, variant: str) -> None:
    schema = pa.schema([("a", pa.binary()), ("b", pa.string()), ("c", pa.list_(pa.int64()))])
    made = bench(database, "a VARBINARY(9), b VARCHAR(9), c JSON", schema)
    whole = pa.record_batch(
        [
            pa.array([b"0", None, b"22", b"3", None, b"5"], pa.binary()),
            pa.array(["0", "1", None, "333", "4", "5"]),
            pa.array([[0], [1, 1], None, [], [4, None], [5]], pa.list_(pa.int64())),
        ],
        schema,
    )
    committable = made.prepare(made.permitted(), 0, whole.slice(1, 2), whole.slice(3, 2))
    while made.committer.commit(0, [committable])[0] is CommitOutcome.RETRY_LATER:
        pass
    found = [(a, b, c and json.loads(c)) for a, b, c in made.query("SELECT a, b, c FROM rows_in")]
    assert sorted(found, key=repr) == sorted(
        [(None, "1", [1, 1]), (b"22", None, None), (b"3", "333", []), (None, "4", [4, None])], key=repr
    )


def test_a_zone_does_not_move_the_moment(database: str) -> None:
    schema = pa.schema([("t", pa.timestamp("us", "America/New_York"))])
    made = bench(database, "t TIMESTAMP(6) NULL", schema)
    moment = dt.datetime(2024, 3, 10, 7, 30, tzinfo=UTC)  # within an hour of a change of clocks
    committable = made.prepare(made.permitted(), 0, pa.record_batch([pa.array([moment], schema[0].type)], schema))
    while made.committer.commit(0, [committable])[0] is CommitOutcome.RETRY_LATER:
        pass
    assert made.query("SELECT UNIX_TIMESTAMP(t) FROM rows_in") == [(Decimal(f"{moment.timestamp():.6f}"),)]


def test_a_large_batch_goes_in_several_statements(database: str, variant: str) -> None:
    schema = pa.schema([("v", pa.string())])
    made = bench(database, "v MEDIUMTEXT", schema)
    texts = [f"{n}-" + "x" * 20_000 for n in range(2_000)]  # 40 MB: more than a slice, and than one INSERT
    committable = made.prepare(made.permitted(), 0, pa.record_batch([pa.array(texts)], schema))
    while made.committer.commit(0, [committable])[0] is CommitOutcome.RETRY_LATER:
        pass
    assert committable.rows == 2_000
    assert committable.bytes > 40_000_000
    digest = made.query("SELECT COUNT(DISTINCT v), SUM(LENGTH(v)) FROM rows_in")[0]
    assert (int(digest[0]), int(digest[1])) == (2_000, sum(map(len, texts)))
