"""Several roots as one query: each row returns to its root as it was, once, from partitions of its own."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession, functions

from spark_jobs.query import roots as module
from spark_jobs.query.plan import state_operators, streaming_leaves
from spark_jobs.query.roots import rows_of, union_of
from spark_jobs.session.settings import DEFAULTS, LOOPBACK, REQUIRED

_ORDERS = (
    "id BIGINT, amount DECIMAL(38,18), at TIMESTAMP, day DATE, tags ARRAY<STRING>, "
    "place STRUCT<x: DOUBLE, y: STRUCT<z: BINARY>>, labels MAP<STRING, INT>"
)
_USERS = "name STRING, id INT, seen TIMESTAMP"

Collect = Callable[[DataFrame], None]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    own = {"spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "UTC"}
    session = SparkSession.builder.master("local[2]").config(map={**REQUIRED, **DEFAULTS, **LOOPBACK, **own})
    found = session.getOrCreate()
    yield found
    found.stop()


class _Topics:
    """Two folders that a query reads, and the batches that it gives."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.files: Counter[str] = Counter()
        for name, schema in (("orders", _ORDERS), ("users", _USERS)):
            (folder / name).mkdir()
            frame = spark.readStream.schema(schema).json(f"file://{folder / name}")
            frame.createOrReplaceTempView(name)

    def add(self, name: str, *rows: Mapping[str, Any]) -> None:
        """A file becomes a partition."""
        self.files[name] += 1
        path = self.folder / f"{name}-{self.files[name]}"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        path.rename(self.folder / name / f"{self.files[name]}.json")

    def run(self, rows: DataFrame, collect: Collect) -> None:
        """Until all that there is has been read."""
        failures: list[BaseException] = []

        def on_batch(frame: DataFrame, _number: int) -> None:
            try:
                collect(frame)
            except BaseException as error:
                failures.append(error)
                raise

        writer = rows.writeStream.foreachBatch(on_batch).option("checkpointLocation", f"file://{self.folder / 'spark'}")
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        except StreamingQueryException:
            raise (failures or [AssertionError("the query failed outside of its batches")])[0] from None


@pytest.fixture
def topics(spark: SparkSession, tmp_path: Path) -> _Topics:
    return _Topics(spark, tmp_path)


def _order(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "amount": "12345678901234567890.123456789012345678",
        "at": "0001-01-01T00:00:00.000001Z",
        "day": "9999-12-31",
        "tags": [None, "a"],
        "place": {"x": 0.1, "y": {"z": "AAE="}},
        "labels": {"a": None},
    }


def _shown(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Rows as text, which no type of Python changes, with the partition of each."""
    texts = [functions.to_json(functions.struct("*"), {"ignoreNullFields": "false"})]
    return sorted(tuple(row) for row in frame.select(functions.spark_partition_id(), *texts).collect())


@pytest.mark.parametrize("apart", [True, False])
def test_rows_come_back_as_they_were_each_to_its_root(
    topics: _Topics, monkeypatch: pytest.MonkeyPatch, *, apart: bool
) -> None:
    if not apart:
        monkeypatch.setattr(module, "_partitions", lambda *_: None)
    topics.add("orders", *map(_order, range(5)))
    topics.add("orders", *map(_order, range(5, 7)))
    topics.add("users", {"name": "a", "id": 1}, {"name": None, "id": None})
    seen: list[str] = []

    def collect(batch: DataFrame) -> None:
        found = rows_of(batch, ["orders", "users"])
        assert found.apart == apart
        orders, users = (found.frames[name] for name in ("orders", "users"))
        for name, frame in found.frames.items():
            assert frame.dtypes == topics.spark.table(name).dtypes
        partitions = [frame.rdd.getNumPartitions() for frame in (orders, users)]
        assert partitions == ([2, 1] if apart else [3, 3])
        direct = topics.spark.read.schema(_ORDERS).json(f"file://{topics.folder / 'orders'}")
        assert sorted(text for _, text in _shown(orders)) == sorted(text for _, text in _shown(direct))
        assert [(row.name, row.id) for row in users.orderBy("id").collect()] == [(None, None), ("a", 1)]
        assert orders.where("amount = 12345678901234567890.123456789012345678").count() == 7
        seen.append("batch")

    topics.run(union_of(topics.spark, {"orders": None, "users": None}), collect)
    assert seen == ["batch"]


def test_a_root_without_new_records_has_no_partition(topics: _Topics) -> None:
    """Also where the other root is a union: none of its partitions is taken for those of the idle root."""
    topics.spark.sql(
        "SELECT id FROM orders WHERE id > 2 UNION ALL SELECT -id AS id FROM orders"
    ).createOrReplaceTempView("signed")
    rows = union_of(topics.spark, {"signed": None, "users": ["id"]})
    seen: list[tuple[dict[str, int], dict[str, list[int]]]] = []

    def collect(batch: DataFrame) -> None:
        found = rows_of(batch, ["signed", "users"])
        assert found.apart
        ids = {name: sorted(row.id for row in frame.collect()) for name, frame in found.frames.items()}
        seen.append(({name: frame.rdd.getNumPartitions() for name, frame in found.frames.items()}, ids))

    topics.add("orders", {"id": 1}, {"id": 3})
    topics.run(rows, collect)
    topics.add("users", {"id": 4})
    topics.run(rows, collect)
    assert seen == [
        ({"signed": 2, "users": 0}, {"signed": [-3, -1, 3], "users": []}),
        ({"signed": 0, "users": 1}, {"signed": [], "users": [4]}),
    ]


def test_columns_of_equal_names_and_no_more_columns_than_are_needed(topics: _Topics) -> None:
    topics.spark.sql("SELECT id, id + 1 AS id, 'x' AS `a b` FROM orders").createOrReplaceTempView("twice")
    rows = union_of(topics.spark, {"twice": None, "users": ["id"]})
    assert rows.dtypes == [
        ("twice", "struct<id:bigint,id:bigint,a b:string>"),
        ("users", "struct<id:int>"),
    ]
    topics.add("orders", {"id": 1})
    topics.add("users", {"id": 4, "name": "left out"})
    seen: list[list[Any]] = []
    topics.run(
        rows,
        lambda batch: seen.append([frame.collect() for frame in rows_of(batch, ["twice", "users"]).frames.values()]),
    )
    assert [[tuple(row) for each in seen[0] for row in each]] == [[(1, 2, "x"), (4,)]]


def test_state_of_a_root_is_kept_and_known_by_its_step(topics: _Topics) -> None:
    """Each root's rows are computed once in a batch: state would advance twice."""
    topics.spark.sql("SELECT * FROM orders").dropDuplicates(["id"]).select("id").createOrReplaceTempView("once")
    topics.spark.sql("SELECT name, count(*) AS number FROM users GROUP BY name").createOrReplaceTempView("counted")
    rows = union_of(topics.spark, {"once": None, "users": ["id"]})
    assert [(step, kind) for step, kind, _ in state_operators(rows, "nobody")] == [("once", "Deduplicate")]
    both = union_of(topics.spark, {"once": None, "counted": None})
    assert [step for step, *_ in state_operators(both, "nobody")] == ["once", "counted"]
    assert len(streaming_leaves(rows)) == 2
    seen: list[Any] = []

    def collect(batch: DataFrame) -> None:
        found = rows_of(batch, ["once", "users"])
        assert found.apart
        once, users = (found.frames[name].selectExpr("CAST(id AS BIGINT) AS id") for name in ("once", "users"))
        seen.append(sorted(row.id for row in once.union(users).collect()))

    topics.add("orders", {"id": 1}, {"id": 1}, {"id": 2})
    topics.add("users", {"id": 7}, {"id": 7})
    topics.run(rows, collect)
    topics.add("orders", {"id": 2}, {"id": 3})
    topics.run(rows, collect)
    assert seen == [[1, 2, 7, 7], [3]]


def test_the_watermark_of_all_roots_is_that_of_the_slowest(topics: _Topics) -> None:
    """A topic without records delays the windows of another one; docs/reference/spec.md says so."""
    orders = topics.spark.table("orders").withWatermark("at", "0 seconds").groupBy("at").count()
    orders.createOrReplaceTempView("counted")
    topics.spark.table("users").withWatermark("seen", "0 seconds").createOrReplaceTempView("late")
    rows = union_of(topics.spark, {"counted": ["count"], "late": ["id"]})
    counts: list[int] = []

    def collect(batch: DataFrame) -> None:
        found = rows_of(batch, ["counted", "late"])
        counted, late = (found.frames[name] for name in ("counted", "late"))
        union = counted.selectExpr("count").union(late.selectExpr("CAST(-id AS BIGINT)"))
        counts.extend(row[0] for row in union.collect())

    topics.add("orders", {"at": "2026-01-01T00:00:01Z"}, {"at": "2026-01-01T00:00:01Z"}, {"at": "2026-01-01T00:01:00Z"})
    topics.run(rows, collect)
    assert counts == []
    topics.add("orders", {"at": "2026-01-01T00:01:00Z"})
    topics.add("users", {"id": 5, "seen": "2026-01-01T00:00:30Z"})
    topics.run(rows, collect)
    assert sorted(counts) == [-5, 2]


def test_a_row_in_the_partition_of_another_root_is_an_error(topics: _Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be left out by both roots."""
    monkeypatch.setattr(module, "_partitions", lambda *_: [range(1, 2), range(1)])
    topics.add("orders", {"id": 1})
    topics.add("users", {"id": 2})

    def collect(batch: DataFrame) -> None:
        for name, frame in rows_of(batch, ["orders", "users"]).frames.items():
            with pytest.raises(Exception, match=f"a row of another root is among the rows of {name}"):
                frame.count()

    topics.run(union_of(topics.spark, {"orders": None, "users": None}), collect)


def test_a_batch_of_another_shape_is_read_as_a_whole(spark: SparkSession) -> None:
    plain = spark.range(3).selectExpr("named_struct('id', id) AS a", "CAST(NULL AS STRUCT<id: BIGINT>) AS b")
    found = rows_of(plain, ["a", "b"])
    assert not found.apart
    assert {name: frame.count() for name, frame in found.frames.items()} == {"a": 3, "b": 0}
