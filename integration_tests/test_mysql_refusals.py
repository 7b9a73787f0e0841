"""What the MySQL and MariaDB sink refuses, and that nothing is left of it: bad rows, tables that do not fit."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from sqlalchemy.engine import make_url

from connectors.api.contracts import Writer
from connectors.log.committer import LogCommitter
from connectors.log.place import LogPlace
from connectors.row_bisector import RowBisector, decode_dead_letters
from connectors.sql.mysql import writer as writer_module
from connectors.sql.mysql.bulk import Bulk
from connectors.sql.mysql.engine import Session
from connectors.sql.mysql.sink import MySqlSink
from connectors.testing.rows import as_spark_has
from eos.errors import BadRowError, SinkUnavailableError, TargetError
from integration_tests.mysql_support import Bench, bench
from integration_tests.mysql_support import clean_up as clean_up
from integration_tests.services import Services
from twophase.ids import Scope, TransactionId, sink_key
from twophase.values import CommitOutcome

GOOD = 500


@pytest.fixture(params=["load", "insert"])
def variant(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How the rows travel; `insert` is what a server without local_infile gets."""
    if request.param == "insert":

        def insert(target: str, plans: Any, *, local: bool, max_packet_bytes: int) -> Bulk:
            return Bulk(target, plans, local=False, max_packet_bytes=max_packet_bytes)

        monkeypatch.setattr(writer_module, "Bulk", insert)
    return str(request.param)


def attempt(made: Bench, *batches: pa.RecordBatch) -> None:
    """Write as a task does, with an abort after an error."""
    writer = made.writer(made.scope())
    try:
        for batch in batches:
            writer.write(batch)
        writer.prepare()
    except BadRowError:
        writer.abort()
        raise


YEAR_10000 = 253_402_300_800_000_000  # microseconds

# column definition, type of the rows, good values, the bad one, what the message says
Good = Callable[[int], Any]
BAD_ROWS: dict[str, tuple[str, pa.DataType, Good, Any, str]] = {
    "duplicate": ("INT PRIMARY KEY", pa.int64(), lambda n: n, 7, "Duplicate entry '7'"),
    "text in a number": ("INT", pa.string(), str, "abc", "row 501, column 'v'.*'abc'"),
    "a fraction in a whole number": ("INT", pa.string(), str, "1.5", "row 501, column 'v'.*'1.5'"),
    "out of range": ("TINYINT", pa.int64(), lambda n: n % 100, 300, "row 501: Out of range value for column"),
    "negative": ("INT UNSIGNED", pa.int64(), lambda n: n, -1, "row 501: Out of range value for column"),
    "too long": ("VARCHAR(5)", pa.string(), str, "123456", "row 501: Data too long|row 501: Data truncated"),
    "too long by a space": ("VARCHAR(5)", pa.string(), str, "12345 ", "row 501: Data truncated"),
    "NULL": ("INT NOT NULL", pa.int64(), lambda n: n, None, "[Cc]olumn 'v'"),
    "a digit too many": ("DECIMAL(5,2)", pa.decimal128(10, 3), lambda n: Decimal(n), Decimal("1.005"), "truncated"),
    "too large": ("DECIMAL(5,2)", pa.decimal128(10, 3), lambda n: Decimal(n), Decimal(1000), "Out of range"),
    "NaN": ("DOUBLE", pa.float64(), float, float("nan"), "row 501, column 'v'.*NaN"),
    "infinity": ("DOUBLE", pa.float32(), float, float("inf"), "row 501, column 'v'.*infinity"),
    "a float too large": ("FLOAT", pa.float32(), float, float("-inf"), "row 501, column 'v'"),
    "more than a double holds": ("DOUBLE", pa.int64(), lambda n: n, 2**53 + 1, "row 501, column 'v'"),
    "a choice that there is not": ("ENUM('a','b')", pa.string(), lambda n: "ab"[n % 2], "c",
                                 "row 501, column 'v': no member"),
    "not JSON": ("JSON", pa.string(), lambda n: "[]", "{oops", "JSON|CONSTRAINT"),
    "NaN in JSON": ("JSON", pa.list_(pa.float64()), lambda n: [n], [float("nan")], "row 501, column 'v'.*NaN"),
    "not of the character set": ("VARCHAR(9) CHARACTER SET latin1", pa.string(), str, "中", "Incorrect string value"),
    "bytes that are no text": ("VARCHAR(9)", pa.binary(), lambda n: str(n).encode(), b"\xff", "row 501, column 'v'"),
    "a CHECK": ("INT CHECK (v >= 0)", pa.int64(), lambda n: n, -1, "onstraint|CONSTRAINT"),
    "too early": ("TIMESTAMP NULL", pa.timestamp("us"), lambda n: dt.datetime(2024, 1, 1, 0, 0, n % 60),
                  dt.datetime(1960, 1, 1), "row 501: (Out of range|Incorrect datetime|Data truncated)"),
    "a fraction of a second": ("DATETIME", pa.timestamp("us"), lambda n: dt.datetime(2024, 1, 1, 0, 0, n % 60),
                               dt.datetime(2024, 1, 1, 0, 0, 0, 500_000), "row 501, column 'v'.*0 digits"),
    "too many bits": ("BIT(3)", pa.int64(), lambda n: n % 8, 8, "row 501: (Out of range|Data too long)"),
    "after the last year": ("DATETIME(6)", pa.timestamp("us"), lambda n: n * 1_000_000, YEAR_10000,
                            "row 501: (Incorrect datetime|Data truncated|Out of range)"),
}  # fmt: skip
SILENT: dict[str, tuple[str, pa.DataType, Good, Any, str]] = {
    "the number of a choice": ("ENUM('new','paid')", pa.string(), lambda n: ["new", "paid"][n % 2], "1", "no member"),
    "a choice in other letters": ("ENUM('new','paid')", pa.string(), lambda n: "new", "New", "no member"),
    "no choice": ("ENUM('new','paid')", pa.string(), lambda n: "new", "0", "no member"),
    "bits of a set": ("SET('p','q')", pa.string(), lambda n: ["p", "q", "p,q", ""][n % 4], "3", "no member"),
    "an empty member": ("SET('p','q')", pa.string(), lambda n: "p", "p,", "no member"),
    "a space at the end": ("CHAR(5)", pa.string(), str, "a ", "ends in a space"),
    "too few bytes": ("BINARY(4)", pa.binary(), lambda n: b"%4d" % n, b"abc", "not 4 bytes"),
    "NULL for a counter": ("INT NOT NULL AUTO_INCREMENT, KEY (v)", pa.int64(), lambda n: n, None, "NULL"),
    "NULL for a moment": ("TIMESTAMP NOT NULL", pa.timestamp("us"), lambda n: (n + 1) * 1_000_000, None, "NULL"),
    "a number in hex": ("BIGINT", pa.string(), str, "0XFFFFFFFFFFFFFFFF", "row 501, column 'v': no whole number"),
    "the bits of a negative number": ("BIT(64)", pa.int64(), lambda n: n, -1, "row 501, column 'v'"),
}
"""What the server would alter without a word."""
BAD_ROWS |= SILENT


@pytest.mark.parametrize("case", BAD_ROWS)
def test_a_bad_row_is_one_clear_error_and_leaves_nothing(database: str, variant: str, case: str) -> None:
    column, arrow, good, bad, expected = BAD_ROWS[case]
    schema = pa.schema([("v", arrow)])
    made = bench(database, f"v {column}", schema)
    made.permitted()
    unique = "PRIMARY" in column
    values = [good(n) for n in range(GOOD)]
    first = pa.record_batch([pa.array(values, arrow)], schema)
    second = pa.record_batch([pa.array([bad, good(GOOD + 1 if unique else 1)], arrow)], schema)
    with pytest.raises(BadRowError, match=expected) as failure:
        attempt(made, first, second)
    assert "sink warehouse" in failure.value.message
    assert failure.value.remedy
    assert (made.count(), made.witnesses(), made.prepared()) == (0, 0, [])

    committable = made.prepare(made.scope(), 0, first)  # and what was good still is
    made.commit(committable)
    assert made.count() == GOOD


@pytest.mark.parametrize("case", BAD_ROWS)
def test_a_bad_row_is_put_aside_and_its_neighbours_are_written(database: str, variant: str, case: str) -> None:
    column, arrow, good, bad, expected = BAD_ROWS[case]
    schema = pa.schema([("v", arrow)])
    made = bench(database, f"v {column}", schema)
    made.permitted()
    first, more = [good(n) for n in range(GOOD)], [good(n) for n in range(GOOD, GOOD + 8)]
    if "PRIMARY" not in column:
        more = first[:8]
    bisector, writer = RowBisector(3), made.writer(made.scope())
    for values in (first, [*more[:5], bad, *more[5:]], [bad]):
        bisector.write(writer, "warehouse", pa.record_batch([pa.array(values, arrow)], schema))
    committable = writer.prepare()
    letters = decode_dead_letters(bisector.encode() or b"").to_pylist()
    assert [(each["sink"], each["value"] is not None) for each in letters] == [("warehouse", True)] * 2
    assert all(re.search(expected.replace("row 501", r"row \d+"), each["error"]) for each in letters)
    assert committable.rows == GOOD + len(more)
    while made.committer.commit(0, [committable])[0] is CommitOutcome.RETRY_LATER:
        pass
    assert made.count() == GOOD + len(more)


def test_a_connection_that_is_lost_is_no_bad_row(database: str, variant: str) -> None:
    """Not even where the batch that was under way has a bad row, too."""
    schema = pa.schema([("v", pa.int64())])
    made = bench(database, "v TINYINT", schema)
    made.permitted()
    bisector, writer = RowBisector(3), made.writer(made.scope())
    bisector.write(writer, "warehouse", pa.record_batch([pa.array([1, 2], pa.int64())], schema))
    ((connection,),) = cast(Any, writer)._session.execute("SELECT CONNECTION_ID()")
    with Session(database) as other:
        other.execute(f"KILL {connection}")
    with pytest.raises(SinkUnavailableError):
        bisector.write(writer, "warehouse", pa.record_batch([pa.array([1, 300], pa.int64())], schema))
    writer.abort()
    assert bisector.letters == []
    assert (made.count(), made.prepared()) == (0, [])


def test_a_foreign_key_that_points_nowhere(database: str, variant: str) -> None:
    with Session(database) as session:
        session.execute("CREATE TABLE parent (id INT PRIMARY KEY) ENGINE = InnoDB")
        session.execute("INSERT INTO parent VALUES (1)")
    schema = pa.schema([("v", pa.int32())])
    made = bench(database, "v INT, FOREIGN KEY (v) REFERENCES parent(id)", schema)
    made.permitted()
    with pytest.raises(BadRowError, match="foreign key"):
        attempt(made, pa.record_batch([pa.array([1, 2], pa.int32())], schema))
    assert (made.count(), made.prepared()) == (0, [])


def test_a_trigger_that_refuses(services: Services, database: str, variant: str) -> None:
    schema = pa.schema([("v", pa.int32())])
    made = bench(database, "v INT", schema)
    admin = make_url(services.admin_database_url).set(database=make_url(database).database)
    with Session(admin.render_as_string(hide_password=False)) as session:  # with a binary log, triggers want SUPER
        session.execute(
            "CREATE TRIGGER no_sevens BEFORE INSERT ON rows_in FOR EACH ROW"
            " IF NEW.v = 7 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no sevens here'; END IF"
        )
    made.permitted()
    with pytest.raises(BadRowError, match="no sevens here"):
        attempt(made, pa.record_batch([pa.array([1, 7], pa.int32())], schema))
    assert (made.count(), made.prepared()) == (0, [])


def test_every_column_that_does_not_fit_is_named_at_once(database: str) -> None:
    with Session(database) as session:
        session.execute(
            "CREATE TABLE picky (id INT NOT NULL, needed INT NOT NULL, filled INT NOT NULL DEFAULT 1, number FLOAT,"
            " day DATE, sum_of INT GENERATED ALWAYS AS (id + 1) STORED, shape GEOMETRY, year_of YEAR, raw JSON)"
            " ENGINE = MyISAM"
        )
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("number", pa.float64()),
            ("day", pa.timestamp("us")),
            ("sum_of", pa.int32()),
            ("shape", pa.binary()),
            ("year_of", pa.int32()),
            ("raw", pa.list_(pa.duration("us"))),
            ("nowhere", pa.int32()),
            ("_offset", pa.int64()),
        ]
    )
    with pytest.raises(TargetError) as failure:
        MySqlSink("warehouse", database, "picky").open(schema)
    text = failure.value.message
    for part in ("MyISAM", "'needed'", "'number'", "'day'", "'sum_of'", "'shape'", "'year_of'", "'raw'", "'nowhere'"):
        assert part in text, part
    for part in ("'id'", "'filled'", "_offset"):
        assert part not in text, part
    assert "needed int" in failure.value.remedy


def test_a_missing_table_is_answered_with_the_nearest_names(database: str) -> None:
    with Session(database) as session:
        session.execute("CREATE TABLE orders (id INT) ENGINE = InnoDB")
    with pytest.raises(TargetError, match=r"'order'.*nearest: orders"):
        MySqlSink("warehouse", database, "order").open(pa.schema([("id", pa.int64())]))
    with pytest.raises(TargetError, match=r"no table 'nowhere\.orders'"):
        MySqlSink("warehouse", database, "nowhere.orders").open(pa.schema([("id", pa.int64())]))


def test_metadata_columns_are_written_where_the_table_has_them(database: str) -> None:
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("_key", pa.binary()),
            ("_topic", pa.string()),
            ("_partition", pa.int32()),
            ("_offset", pa.int64()),
            ("_timestamp", pa.timestamp("ms", "UTC")),
            ("_headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ]
    )
    made = bench(database, "_offset BIGINT, ID BIGINT, _key VARBINARY(20)", schema)
    assert made.sink.columns == ("id", "_key", "_offset")


def test_a_server_without_local_infile_gets_inserts(database: str) -> None:
    """The choice is made before anything is written, by what the server says of itself."""
    plans = bench(database, "v INT", pa.schema([("v", pa.int32())])).sink.plans
    rows = pa.record_batch({"v": pa.array([1, 2], pa.int32())})
    (insert,) = Bulk("`t`", plans, local=False, max_packet_bytes=1 << 20).encode(rows, 1)
    (load,) = Bulk("`t`", plans, local=True, max_packet_bytes=1 << 20).encode(rows, 1)
    assert (insert.statement, insert.file) == (b"INSERT INTO `t` (`v`) VALUES ('1'),('2')", None)
    assert load.file is not None
    assert bytes(load.file) == b"1\n2\n"


def test_a_row_larger_than_the_servers_packet_is_a_bad_row(database: str) -> None:
    made = bench(database, "v MEDIUMTEXT", pa.schema([("v", pa.string())]))
    bulk = Bulk("`t`", made.sink.plans, local=False, max_packet_bytes=1 << 16)
    with pytest.raises(BadRowError, match=r"row 12 .*max_allowed_packet"):
        list(bulk.encode(pa.record_batch({"v": ["a", "b" * (1 << 16)]}), 11))


TIMESTAMPS = pa.timestamp("us", "UTC")
MONEY = pa.decimal128(20, 3)
LATE: list[tuple[str, pa.DataType, list[Any], str]] = [
    ("SMALLINT", pa.decimal128(20, 0), [1, 2**15], "out of range: -32768 to 32767"),
    ("TINYINT UNSIGNED", pa.decimal128(20, 0), [1, 300], "out of range: 0 to 255"),
    ("BIGINT UNSIGNED", pa.decimal128(20, 0), [2**63, -1], "Integer value out of bounds"),
    ("VARCHAR(2)", pa.string(), ["ab", "abc"], "longer than 2 characters"),
    ("VARCHAR(9)", pa.string(), [b"a", b"a\xff"], "not UTF-8"),
    ("JSON", pa.list_(pa.string()), [[b"a"], [b"a\xff"]], "not UTF-8"),
    ("DECIMAL(5,2)", MONEY, [Decimal("999.990"), 1000], "no number of 5 digits, 2 behind the point"),
    ("DECIMAL(6,2)", MONEY, [Decimal("1000.010"), Decimal("1000.005")], "no number of 6 digits, 2 behind the point"),
    ("DECIMAL(5,2)", pa.int64(), [-999, 1000], "no number of 5 digits"),
    ("DECIMAL(5,2)", pa.string(), [" 1.5", "1.505"], "no number of 5 digits"),
    ("DECIMAL(5,2) NOT NULL", pa.string(), ["1.5 \n", "1.5 x"], "no number of 5 digits"),
    ("DECIMAL(5,2)", pa.string(), ["-1e2", "abc"], "no number of 5 digits"),
    ("DECIMAL(5,2) UNSIGNED", MONEY, [Decimal("-0.0"), Decimal("-0.01")], "negative"),
    ("DOUBLE UNSIGNED", pa.float64(), [-0.0, -1e-5], "negative"),
    ("TIMESTAMP NULL", TIMESTAMPS, [1_000_000, 0], "out of range: 1970"),
    ("TIMESTAMP(6) NULL", TIMESTAMPS, [(2**31 - 1) * 1_000_000 + 999_999, 2**32 * 1_000_000], "out of range: 1970"),
    ("TIMESTAMP NULL", pa.date32(), [1, 0], "out of range: 1970"),
    ("DATETIME(6)", TIMESTAMPS, [YEAR_10000 - 1, YEAR_10000], "out of range: 0000"),
    ("DATE", pa.date32(), [2_932_896, 2_932_897], "out of range: 0000"),
    ("DATE", pa.date32(), [-719_528, -719_529], "out of range: 0000"),
    ("BIT(3)", pa.int64(), [7, 8], "out of range: 0 to 7"),
    ("TINYTEXT", pa.string(), ["ü" * 127 + "u", "ü" * 128], "longer than 255 bytes"),
    ("TEXT", pa.string(), ["a" * 65535, "a" * 65536], "longer than 65535 bytes"),
    ("MEDIUMTEXT", pa.string(), ["a", "a" * 2**24], "longer than 16777215 bytes"),
    ("TINYTEXT CHARACTER SET latin1", pa.string(), ["ü" * 255, "ü" * 256], "longer than 255 characters"),
    ("TINYBLOB", pa.binary(), [b"a" * 255, b"a" * 256], "longer than 255 bytes"),
    ("BLOB", pa.binary(), [b"a" * 65535, b"a" * 65536], "longer than 65535 bytes"),
    ("ENUM('a','b')", pa.string(), ["a", "c"], "no member"),
    ("BINARY(2)", pa.binary(), [b"ab", b"abc"], "not 2 bytes"),
]


def logged(database: str, tmp_path: Path, arrow: pa.DataType) -> tuple[Writer, LogCommitter]:
    """Into the table t with its column v, through a log, in the first checkpoint."""
    sink = MySqlSink("s", database, "t", LogPlace(tmp_path / "log")).open(pa.schema([("v", arrow)]))
    committer, scope = sink.committer("p"), Scope("i" * 20, 1, 0)
    assert isinstance(committer, LogCommitter)
    committer.inspect(scope.incarnation, ())
    committer.claim(scope.incarnation, 1)
    committer.permit(scope)
    return sink.writer(TransactionId(scope, sink_key("s"), 0, 1)), committer


@pytest.mark.parametrize(("declared", "arrow", "values", "said"), LATE, ids=[f"{c[0]} {c[1]}" for c in LATE])
def test_what_a_log_would_find_too_late_is_refused_by_the_task(
    database: str, tmp_path: Path, declared: str, arrow: pa.DataType, values: list[Any], said: str
) -> None:
    with Session(database) as session:
        session.execute(f"CREATE TABLE t (v {declared}) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4")
    writer, committer = logged(database, tmp_path, arrow)
    with closing(committer):
        with pytest.raises(BadRowError, match=f"row 2, column 'v': {said}"):
            writer.write(pa.record_batch([as_spark_has(values, arrow)], names=["v"]))
        writer.write(pa.record_batch([as_spark_has(values[:1], arrow)], names=["v"]))  # the last that the server takes
        assert committer.commit(0, [writer.prepare()]) == [CommitOutcome.COMMITTED]
    with Session(database) as session:
        assert session.execute("SELECT COUNT(*) FROM t") == [(1,)]


@pytest.mark.only_on("MariaDB", "MySQL compresses no single columns")
def test_a_compressed_column_is_as_long_as_it_says(database: str, tmp_path: Path) -> None:
    with Session(database) as session:
        session.execute("CREATE TABLE t (v VARBINARY(5) COMPRESSED) ENGINE = InnoDB")
    writer, committer = logged(database, tmp_path, pa.binary())
    with closing(committer), pytest.raises(BadRowError, match="row 2, column 'v': longer than 5 bytes"):
        writer.write(pa.record_batch([pa.array([b"12345", b"123456"], pa.binary())], names=["v"]))


@pytest.mark.parametrize("case", SILENT)
def test_a_bad_row_is_put_aside_before_it_is_in_a_log(database: str, tmp_path: Path, case: str) -> None:
    column, arrow, good, bad, expected = SILENT[case]
    with Session(database) as session:
        session.execute(f"CREATE TABLE t (v {column}) ENGINE = InnoDB")
    writer, committer = logged(database, tmp_path, arrow)
    bisector = RowBisector(3)
    for values in ([good(1), good(2), bad, good(3)], [bad]):
        bisector.write(writer, "s", pa.record_batch([pa.array(values, arrow)], names=["v"]))
    with closing(committer):
        assert committer.commit(0, [writer.prepare()]) == [CommitOutcome.COMMITTED]
    letters = decode_dead_letters(bisector.encode() or b"").to_pylist()
    assert len(letters) == 2
    assert all(re.search(expected.replace("row 501", r"row \d+"), each["error"]) for each in letters)
    with Session(database) as session:
        assert session.execute("SELECT COUNT(*) FROM t") == [(3,)]


@pytest.mark.parametrize("declared", ["DOUBLE(10,2)", "FLOAT(7,4)"])
def test_a_column_that_rounds_in_silence_is_refused_at_the_start(database: str, declared: str) -> None:
    with Session(database) as session:
        session.execute(f"CREATE TABLE t (v {declared}) ENGINE = InnoDB")
    with pytest.raises(TargetError, match=r"rounds silently, or change the table: ALTER TABLE .* `v` DOUBLE"):
        MySqlSink("s", database, "t").open(pa.schema([("v", pa.float32())]))
