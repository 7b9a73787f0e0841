"""`commit: upsert`: which rows are of one key, and which of them is the newest; what cannot be told is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest
import sqlalchemy

from eos.errors import BadRowError, IncomparableRowsError, TargetError
from integration_tests.merging import EVERY, LONG, Make
from integration_tests.merging import make as make

TEXT = pa.string()
DOUBLE = pa.float64()
KV = [("k", LONG), ("v", LONG)]
TABLE = "k BIGINT PRIMARY KEY, v BIGINT"

# Two values that are one key of such a column, and that nobody but its database takes for equal.
INEXACT = [
    ("mysql", "VARCHAR(20) COLLATE utf8mb4_general_ci", TEXT, "a", "A"),
    ("mysql", "VARCHAR(20) COLLATE utf8mb4_bin", TEXT, "a", "a "),
    ("mysql", "CHAR(20) COLLATE utf8mb4_bin", TEXT, "a", "a "),
    ("mysql", "DOUBLE", DOUBLE, 0.0, -0.0),
    ("mysql", "DECIMAL(10,2)", TEXT, "1.0", "1.00"),
    ("mysql", "BINARY(4)", pa.binary(), b"a", b"a\0"),
    ("postgresql", "CHAR(5)", TEXT, "a", "a "),
    ("postgresql", "DOUBLE PRECISION", DOUBLE, 0.0, -0.0),
    ("postgresql", "JSONB", TEXT, '{"a":1}', '{"a": 1}'),
    ("postgresql", "INET", TEXT, "10.0.0.1", "10.0.0.1/32"),
    ("sqlite", "TEXT COLLATE NOCASE", TEXT, "a", "A"),
    ("sqlite", "TEXT COLLATE RTRIM", TEXT, "a", "a "),
    ("sqlite", "REAL", DOUBLE, 0.0, -0.0),
]


@pytest.mark.parametrize(("kind", "column", "of_rows", "one", "other"), INEXACT)
def test_keys_that_are_equal_for_the_database_alone(
    make: Make, column: str, of_rows: pa.DataType, one: object, other: object
) -> None:
    """A task would keep a row of each, and the database take one for the other: an older row would win over a newer
    one, and what is deleted would stay."""
    made = make(f"k {column} PRIMARY KEY, v BIGINT", [("k", of_rows), ("v", LONG)], "k")
    made.execute(f"INSERT INTO merged VALUES ({made.literal(one)}, 1)")
    with pytest.raises(sqlalchemy.exc.IntegrityError):
        made.execute(f"INSERT INTO merged VALUES ({made.literal(other)}, 1)")
    with pytest.raises(TargetError, match=r"key column k the database takes values for equal"):
        made.start()


EXACT = [
    ("mysql", "VARBINARY(20)", TEXT, ["a", "A", "a ", "", "a\0", "ü"]),
    ("mysql", "DECIMAL(10,2)", pa.decimal128(10, 2), [0, 1, -1]),
    ("mysql", "DATETIME(6)", pa.timestamp("us"), [0, 1, 1_000_000]),
    ("postgresql", "TEXT", TEXT, ["a", "A", "a ", "", "ü"]),
    ("postgresql", "NUMERIC", pa.decimal128(10, 2), [0, 1, -1]),
    ("postgresql", "NUMERIC(12,4)", pa.decimal128(10, 2), [0, 1, -1]),
    ("postgresql", "TIMESTAMPTZ", pa.timestamp("us", "UTC"), [0, 1, 1_000_000]),
    ("sqlite", "TEXT", TEXT, ["a", "A", "a ", "", "a\0", "ü"]),
    ("sqlite", "BLOB", pa.binary(), [b"a", b"A", b"a\0", b""]),
    ("sqlite", "DECIMAL(10,2)", pa.decimal128(10, 2), [0, 1, -1]),
]


@pytest.mark.parametrize(("kind", "column", "of_rows", "values"), EXACT)
def test_keys_that_differ_for_everybody(make: Make, column: str, of_rows: pa.DataType, values: list[object]) -> None:
    made = make(f"k {column} PRIMARY KEY, v BIGINT", [("k", of_rows), ("v", LONG)], "k").start()
    made.checkpoint(0, [(value, n, 0, n, False) for n, value in enumerate(values)])
    assert made.rows("v") == [(n,) for n in range(len(values))]
    made.checkpoint(1, [(value, n + 100, 0, n + 100, n == 0) for n, value in enumerate(values)])
    assert made.rows("v") == [(n + 100,) for n in range(1, len(values))]


@pytest.mark.parametrize("kind", ["postgresql"])
def test_a_uuid_is_one_key_however_it_is_written(make: Make) -> None:
    made = make("k UUID PRIMARY KEY, v BIGINT", [("k", TEXT), ("v", LONG)], "k").start()
    assert made.sink.partition_by == ()  # Spark would see several
    forms = ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"]
    forms += ["{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}", "a0eebc999c0b4ef8bb6d6bb9bd380a11"]
    made.checkpoint(0, [(form, n, 0, n, False) for n, form in enumerate(forms)])
    assert made.rows("v") == [(3,)]
    made.checkpoint(1, [(form, n, 0, 10 + n, n == 2) for n, form in enumerate(forms[:3])])
    assert made.rows() == []


@pytest.mark.parametrize("kind", ["sqlite"])
def test_a_key_is_deleted_as_its_index_compares_and_not_its_column(make: Make) -> None:
    made = make("k TEXT COLLATE NOCASE, v BIGINT", [("k", TEXT), ("v", LONG)], "k")
    made.execute("CREATE UNIQUE INDEX by_bytes ON merged (k COLLATE BINARY)")
    made.start()
    made.checkpoint(0, [("a", 1, 0, 1, False), ("A", 2, 0, 2, False)])
    made.checkpoint(1, [("a", 1, 0, 3, True)])
    assert made.rows() == [("A", 2)]


@EVERY
def test_h16_a_key_of_two_partitions_is_a_bad_row(make: Make) -> None:
    made = make(TABLE, KV, "k").start()
    with pytest.raises(IncomparableRowsError, match="key k 1 comes from partitions 0 and 5"):
        made.decide(0, [(2, 1, 1, 7, False), (1, 1, 0, 1000, False), (1, 2, 5, 3, False)])


@EVERY
@pytest.mark.parametrize("gone", [True, False])
def test_h16_a_key_of_two_topics_is_a_bad_row(make: Make, gone: bool) -> None:
    """Of the same partition's number, and the newer one says that the key goes, or what is new in it."""
    made = make(TABLE, [*KV, ("_topic", TEXT)], "k").start()
    made.checkpoint(0, [(1, 1, "v1", 3, 999_999, False), (2, 1, "v2", 3, 4, False)])
    assert made.rows() == [(1, 1), (2, 1)]
    with pytest.raises(IncomparableRowsError, match="key k 1 comes from topics v1 and v2"):
        made.decide(1, [(1, 1, "v1", 3, 1_000_000, False), (1, 2, "v2", 3, 5, gone)])


@EVERY
@pytest.mark.parametrize("place", ["_offset", "_partition"])
def test_a_row_without_a_place_is_neither_old_nor_new(make: Make, place: str) -> None:
    """As of the side that an outer join has not found."""
    made = make(TABLE, KV, "k").start()
    partition, offset = (None, 1) if place == "_partition" else (0, None)
    with pytest.raises(BadRowError, match=f"row 2, column '{place}': NULL"):
        made.decide(0, [(1, 2, 0, 5, False), (1, 1, partition, offset, False)])


@EVERY
def test_a_place_is_a_whole_number(make: Make) -> None:
    """As text, 9 would come after 10."""
    made = make(TABLE, KV, "k")
    made.schema = made.schema.set(made.schema.get_field_index("_offset"), pa.field("_offset", TEXT))
    with pytest.raises(TargetError, match="column _offset of the rows is STRING, not a whole number"):
        made.start()


@EVERY
def test_a_table_may_keep_the_place(make: Make) -> None:
    made = make("k BIGINT PRIMARY KEY, _partition BIGINT, _offset BIGINT", [("k", LONG)], "k").start()
    made.checkpoint(0, [(1, 3, 9, False), (1, 3, 10, False), (2, 3, 11, False), (2, 3, 12, True)])
    assert made.rows("k, _partition, _offset") == [(1, 3, 10)]


@EVERY
@pytest.mark.parametrize("gone_first", [True, False])
def test_of_one_record_a_row_counts_more_than_a_deletion(make: Make, gone_first: bool) -> None:
    """As where a change deletes the old key and writes the new one, and both are the same."""
    made = make(TABLE, KV, "k").start()
    made.checkpoint(0, [(1, 1, 0, 7, gone_first), (1, 1, 0, 7, not gone_first)])
    assert made.rows() == [(1, 1)]


NAMES = ("a b", "%s", "100%", 'q"uote', "b`tick", "UPPER", "sel'ect", "ü", "{x}", ":c", "a?b", "row", "s", "excluded")


@EVERY
def test_odd_names(make: Make) -> None:
    for number, name in enumerate(NAMES):
        made = make("", [(name, LONG), ("v " + name, LONG)], name, table=f"t {name}")
        made.name = f"sink {number}"
        key, value = made.quote(name), made.quote("v " + name)
        made.execute(f"CREATE TABLE {made.quoted} ({key} BIGINT PRIMARY KEY, {value} BIGINT)")
        made.start()
        made.checkpoint(0, [(n, n, 0, n, False) for n in range(3)])
        made.checkpoint(1, [(1, 9, 0, 11, False), (2, 2, 0, 12, True)])
        assert made.rows() == [(0, 0), (1, 9)], name


@EVERY
def test_a_name_that_merging_needs_itself(make: Make) -> None:
    made = make("k BIGINT PRIMARY KEY, __gone BIGINT", [("k", LONG), ("__gone", LONG)], "k")
    with pytest.raises(TargetError, match="the rows have a column __gone, which merging needs"):
        made.start()
