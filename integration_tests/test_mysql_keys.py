"""Unique keys: one of them never lies in two tasks of a checkpoint (H15), and one that repeats is a clear error."""

from __future__ import annotations

import pyarrow as pa
import pytest

from connectors.sql.mysql.sink import MySqlSink
from integration_tests.harness.pipeline import Pipeline
from integration_tests.mysql_support import EXACT, bench
from integration_tests.mysql_support import clean_up as clean_up
from integration_tests.services import Services
from twophase.values import CommitOutcome

SCHEMA = pa.schema([("id", pa.int64()), ("a", pa.int32()), ("b", pa.int32()), ("name", pa.string())])

# What the columns `id, a, b, name` are followed by, and what rows are partitioned by.
TABLES: list[tuple[str, tuple[str, ...] | None]] = [
    ("KEY (a)", None),
    ("PRIMARY KEY (id)", ("id",)),
    ("UNIQUE (b, a)", ("b", "a")),
    ("UNIQUE (b, a), UNIQUE (A, id)", ("a",)),
    ("PRIMARY KEY (id), UNIQUE (a)", ()),
    ("UNIQUE (name)", ()),
    ("UNIQUE (name, a)", ("a",)),
    ("UNIQUE (name(3))", ()),
    ("exact VARCHAR(9), UNIQUE (exact)", None),  # nobody writes it, so that it is NULL
    ("exact VARCHAR(9) DEFAULT 'NULL', UNIQUE (exact)", ()),
    ("n INT AUTO_INCREMENT PRIMARY KEY", None),
    ("n INT AUTO_INCREMENT PRIMARY KEY, UNIQUE (A)", ("a",)),
    ("low VARCHAR(20) GENERATED ALWAYS AS (LOWER(name)) STORED UNIQUE", ()),
]


@pytest.mark.parametrize(("definitions", "expected"), TABLES)
def test_h15_rows_are_partitioned_by_what_servers_and_spark_compare_alike(
    database: str, definitions: str, expected: tuple[str, ...] | None
) -> None:
    made = bench(database, f"id BIGINT, a INT, b INT, name VARCHAR(20), {definitions}", SCHEMA)
    assert made.sink.partition_by == expected


@pytest.mark.only_on("MySQL", "an expression in an index is a generated column elsewhere")
def test_h15_an_expression_in_an_index_binds_the_other_columns(database: str) -> None:
    made = bench(database, "id BIGINT, a INT, b INT, name VARCHAR(20), UNIQUE ((LOWER(name)), b)", SCHEMA)
    assert made.sink.partition_by == ("b",)
    made.query("ALTER TABLE rows_in ADD UNIQUE ((a + b))")
    assert MySqlSink("warehouse", database, "rows_in").open(SCHEMA).partition_by == ()


def test_the_collation_without_padding_makes_text_a_key_for_several_writers(database: str, services: Services) -> None:
    """And the server agrees: of these keys it takes no two for one."""
    name = f"name VARCHAR(20) CHARACTER SET utf8mb4 COLLATE {EXACT[services.database.name]}"
    made = bench(database, f"id BIGINT, a INT, b INT, {name}, UNIQUE (name)", SCHEMA)
    assert made.sink.partition_by == ("name",)
    keys = ["a", "A", "a ", "á", "a\u0301", "a\u200b", "a\0", "ß", "ss", "", " "]
    numbers = [pa.nulls(len(keys), field.type) for field in SCHEMA][:3]
    rows = pa.record_batch([*numbers, pa.array(keys)], schema=SCHEMA)
    committable = made.prepare(made.permitted(), 0, rows)
    while made.committer.commit(0, [committable])[0] is CommitOutcome.RETRY_LATER:
        pass
    assert made.count() == len(keys)


def test_doctor_warns_of_a_single_writer_and_says_what_to_do(database: str) -> None:
    made = bench(database, "id BIGINT, a INT, b INT, name VARCHAR(20) UNIQUE", SCHEMA)
    for schema in (SCHEMA, None):
        (found,) = [each for each in made.sink.check(schema) if each.check == "warehouse: writers"]
        assert (found.ok, found.fatal) == (False, False)
        assert found.detail.startswith("one writer: ")
        assert "name varchar(20)" in found.detail
        assert "VARBINARY" in found.remedy
    made.query("ALTER TABLE rows_in DROP INDEX name")
    (found,) = [each for each in made.sink.check(None) if each.check == "warehouse: writers"]
    assert found.ok


# Unique keys of the table (id, word, payload), and two words that are one key there and not in Spark's eyes.
KEYS = {
    "a collation": ("ADD UNIQUE (word)", "key", "KEY"),
    "the beginning of a column": ("ADD UNIQUE (word(3))", "key 1", "key 2"),
    "a second key": ("ADD PRIMARY KEY (id), ADD UNIQUE (word)", "key", "key"),
}


@pytest.mark.parametrize("case", KEYS)
def test_h15_a_key_that_repeats_in_another_partition_is_a_bad_row_not_a_lock_wait(
    pipeline: Pipeline, case: str
) -> None:
    """Partitioned by the words or the ids, these two would come to two tasks, and one would wait for the other."""
    key, *words = KEYS[case]
    pipeline.table.execute(f"ALTER TABLE {pipeline.table.name} {key}")
    apart = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "7"}
    pipeline.spec["spark"]["conf"] = apart  # small tasks are not merged, and hashes modulo 7 are apart
    pipeline.workload.produce_words(*words)
    process = pipeline.start()
    process.fail("error: sink warehouse", f"Duplicate entry '{words[1][:3]}", "one writer: ", "  remedy: ")
    assert "Lock wait" not in process.output()
    assert (pipeline.table.count(), pipeline.prepared()) == (0, [])


def test_one_writer_takes_the_rows_of_all_partitions(pipeline: Pipeline) -> None:
    pipeline.table.execute(f"ALTER TABLE {pipeline.table.name} ADD PRIMARY KEY (id), ADD UNIQUE (word)")
    pipeline.workload.produce_words(*(f"word {number}" for number in range(700)))
    pipeline.catch_up()
    pipeline.assert_exact(at_least=700)
