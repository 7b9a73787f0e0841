"""The state of a start from a savepoint for other steps: Spark itself writes it, and goes on with it."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.types import StructType

from eos.errors import SavepointError
from spark_jobs.operations import new_state, spark_rewriting
from spark_jobs.operations.new_state import Start, state_of
from spark_jobs.operations.trial import without_records
from spark_jobs.operations.widening import Columns, columns_of, wider
from spark_jobs.query.plan import state_operators
from spark_jobs.query.state_files import needed
from spark_jobs.savepoints.manifest import Entry, Manifest
from spark_jobs.savepoints.plan import Operator, Plan
from spark_jobs.session.settings import DEFAULTS, LOOPBACK, REQUIRED
from tests import savepoint_files as files

CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
NARROW = "CAST(id % 7 - 3 AS TINYINT) AS k", "IF(id % 5 = 0, NULL, CAST(-id AS SMALLINT)) AS v"
WIDE = "CAST(id % 7 - 3 AS BIGINT) AS k", "IF(id % 5 = 0, NULL, CAST(-id AS INT)) AS v"
PARTITIONS = 5
Totals = dict[int, tuple[int, int | None, int]]
"""Key -> rows, the lowest value, values."""


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    own = {"spark.sql.shuffle.partitions": str(PARTITIONS), "spark.sql.session.timeZone": "UTC"}
    session = SparkSession.builder.master("local[2]").config(map={**REQUIRED, **DEFAULTS, **LOOPBACK, **own})
    found = session.getOrCreate()
    yield found
    found.stop()


class _Query:
    """A query over files, and savepoints of it. Its own folder is never used for another query."""

    def __init__(self, spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.spark, self.path = spark, path
        self.folder = path / "spark"
        self.ids: list[int] = []
        (path / "ids").mkdir()
        monkeypatch.setattr(spark_rewriting, "offsets", lambda content, _: content)  # the sources are Spark's own

    def read(self) -> DataFrame:
        return self.spark.readStream.schema("id BIGINT").json(f"file://{self.path / 'ids'}")

    def counted(self, columns: tuple[str, str], *, once: bool = False) -> DataFrame:
        rows = self.read().dropDuplicates(["id"]) if once else self.read()
        count, low = functions.count("*").alias("n"), functions.min("v").alias("low")
        return rows.selectExpr(*columns).groupBy("k").agg(count, low, functions.count("v").alias("some"))

    def add(self, ids: range) -> None:
        name = f"{len(self.ids)}-{len(list((self.path / 'ids').iterdir()))}.json"
        (self.path / name).write_text("".join(json.dumps({"id": each}) + "\n" for each in ids))
        (self.path / name).rename(self.path / "ids" / name)
        self.ids += ids

    def run(self, rows: DataFrame, folder: Path | None = None) -> Totals:
        """Until all files are read; the totals of the keys that were in them."""
        found: Totals = {}

        def on_batch(frame: DataFrame, _number: int) -> None:
            found.update({int(k): (n, low, some) for k, n, low, some in frame.collect()})

        writer = rows.writeStream.foreachBatch(on_batch).outputMode("update")
        query = writer.option("checkpointLocation", f"file://{folder or self.folder}").trigger(availableNow=True)
        query.start().awaitTermination()
        return found

    def expected(self) -> Totals:
        found: Totals = {}
        for each in self.ids:
            n, low, some = found.get(each % 7 - 3, (0, None, 0))
            if each % 5:
                low, some = min(low or 0, -each), some + 1
            found[each % 7 - 3] = (n + 1, low, some)
        return found

    def savepoint(self, rows: DataFrame) -> tuple[Path, Manifest]:
        """Of the newest batch."""
        number = max(int(path.name) for path in (self.folder / "commits").iterdir() if path.name.isdecimal())
        kept = self.path / f"kept-{number}"
        shutil.copytree(self.folder, kept / "spark")
        paths = {f"spark/{each}": Entry(1, "") for each in needed(self.folder, number)}
        return kept, Manifest("id", "orders", "i" * 20, number, 0.0, 0.0, 0, {}, self.plan(rows), paths)

    def plan(self, rows: DataFrame) -> Plan:
        return Plan(("s",), tuple(Operator(*each) for each in state_operators(rows, "sums")))

    def start(self, before: DataFrame, after: DataFrame) -> Start:
        spec = files.spec_in(self.path)
        savepoint, manifest = self.savepoint(before)
        return Start(self.spark, spec, after, self.plan(after), savepoint, manifest)

    def written(self, start: Start) -> Path:
        """Spark's folder for the new query."""
        target = self.path / "target"
        target.mkdir()
        with state_of(start) as state:
            state.write(start, target)
        shutil.copytree(self.folder / "sources", target / "sources")
        return target


@pytest.fixture
def query(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Query:
    return _Query(spark, tmp_path, monkeypatch)


@pytest.mark.parametrize("changelog", ["false", "true"])
def test_state_is_rewritten_for_wider_integers_beside_state_that_begins_empty(query: _Query, changelog: str) -> None:
    """Numbers below zero, NULL, and a key that another partition has now."""
    query.spark.conf.set(CHANGELOG, changelog)
    narrow, wide = query.counted(NARROW), query.counted(WIDE, once=True)
    for ids in (range(100), range(100, 200)):
        query.add(ids)
        before = query.run(narrow)
    assert before == query.expected()
    start = query.start(narrow, wide)
    target = query.written(start)
    assert query.spark.conf.get(CHANGELOG) == changelog
    query.add(range(200, 300))
    totals = query.run(wide, target)
    assert totals == query.expected()
    assert sum(n for n, _, _ in totals.values()) == 300
    query.add(range(250, 300))  # the new operator knows them
    query.ids = query.ids[:-50]
    assert query.run(wide, target) == {}
    location = start.spec.checkpoint.folder
    assert [list((location / name).iterdir()) for name in ("trial", "widening")] == [[], []]


def test_an_aggregate_that_keeps_the_same_of_wider_integers_is_moved_as_it_is(query: _Query) -> None:
    """A sum of SMALLINT is a BIGINT in the state, as that of an INT."""

    def counted(integer: str) -> DataFrame:
        total = functions.sum(functions.col("id").cast(integer)).alias("total")
        rows = query.read().groupBy((functions.col("id") % 7 - 3).alias("k"))
        return rows.agg(functions.count("*").alias("n"), total, functions.count("id").alias("some"))

    query.add(range(100))
    query.run(counted("smallint"))
    start = query.start(counted("smallint"), counted("int"))
    with state_of(start) as state:
        assert (state.changes.widened, dict(state.widenings), state.changes.not_restored) == ((0,), {}, ())
    target = query.written(start)
    query.add(range(100, 200))
    totals = query.run(counted("int"), target)
    assert sum(n for n, _, _ in totals.values()) == 200
    assert sum(total or 0 for _, total, _ in totals.values()) == sum(range(200))


def test_state_that_spark_cannot_rewrite_is_refused_with_the_reason(
    query: _Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A struct in the key with a wider field, a path that Spark would not find, and a version without the rewriter."""

    def counted(integer: str) -> DataFrame:
        key = f"named_struct('x', CAST(id % 7 AS {integer}))"
        return query.read().groupBy(functions.expr(key).alias("k")).agg(functions.count("*").alias("n"))

    query.add(range(10))
    writer = counted("int").writeStream.format("noop").outputMode("update").trigger(availableNow=True)
    writer.option("checkpointLocation", f"file://{query.folder}").start().awaitTermination()
    with state_of(query.start(counted("int"), counted("bigint"))) as state:
        assert state.changes.operators is None
        (left,) = state.changes.not_restored
        assert "the state has other columns or another order of them, or its integers have become narrower" in left
    shutil.rmtree(query.folder)
    shutil.rmtree(query.path / "kept-0")
    query.run(query.counted(NARROW))
    monkeypatch.setattr(new_state, "quoted_in", lambda _: "#")
    with state_of(query.start(query.counted(NARROW), query.counted(WIDE))) as state:
        (left,) = state.changes.not_restored
        assert "it does not find a path with '#'" in left
    monkeypatch.setattr(new_state, "installed", lambda: "4.1.4")
    shutil.rmtree(query.path / "kept-0")
    with state_of(query.start(query.counted(NARROW), query.counted(WIDE))) as state:
        (left,) = state.changes.not_restored
        assert "cannot run on PySpark 4.1.4, which lacks Spark's State Rewriter (use PySpark 4.2 to 4.3: " in left


def test_a_plan_that_spark_sees_otherwise_is_refused(query: _Query) -> None:
    query.add(range(10))
    query.run(query.counted(NARROW))
    start = query.start(query.counted(NARROW), query.counted(NARROW, once=True))
    other = Operator("more", "Deduplicate", "bigint")
    with (
        pytest.raises(SavepointError, match=r"3 operators with state .*, and Spark 2"),
        state_of(replace(start, plan=Plan(("s",), (*start.plan.operators, other)))),
    ):
        pass


def _struct(ddl: str) -> StructType:
    found = StructType.fromDDL(ddl)
    assert isinstance(found, StructType)
    return found


@pytest.mark.usefixtures("spark")  # parses the types
@pytest.mark.parametrize(
    ("then", "now", "found"),
    [
        ("a INT, b STRING", "a BIGINT, b STRING", {0: (4, 8)}),
        ("a STRING, b TINYINT, c SMALLINT", "a STRING, b SMALLINT, c BIGINT", {1: (1, 2), 2: (2, 8)}),
        ("a INT", "renamed INT", {}),
        ("a INT, b BIGINT", "b BIGINT, a BIGINT", None),
        ("a BIGINT", "a INT", None),
        ("a INT", "a STRING", None),
        ("a INT", "a DOUBLE", None),
        ("a INT", "a INT, b INT", None),
        ("a STRUCT<x: INT>", "a STRUCT<x: BIGINT>", None),
    ],
)
def test_columns_that_become_wider(then: str, now: str, found: dict[int, tuple[int, int]] | None) -> None:
    assert wider(_struct(then), _struct(now)) == found


def _text(content: str) -> bytes:
    encoded = content.encode()
    return struct.pack(">H", len(encoded)) + encoded


def _parts(content: str, size: int) -> bytes:
    found = [content[at : at + size] for at in range(0, len(content), size)]
    return struct.pack(">i", len(found)) + b"".join(map(_text, found))


@pytest.mark.usefixtures("spark")
def test_a_description_of_columns_in_several_parts() -> None:
    keys, values = _struct("`ключ` INT"), _struct("n BIGINT, low STRING")
    content = _text("v2") + _parts(keys.json(), 10) + _parts(values.json(), 1000)
    assert columns_of(content) == Columns(keys, values)
    assert columns_of(_text("v9") + content[4:]) is None


def test_a_description_of_columns_runs_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark would import the module of a type that is a class."""
    (tmp_path / "evil_module.py").write_text(f"open({str(tmp_path / 'has run')!r}, 'w').close()")
    monkeypatch.syspath_prepend(tmp_path)
    evil = {"type": "udt", "pyClass": "evil_module.Evil", "sqlType": "long"}
    column = {"name": "k", "type": {"type": "array", "elementType": evil, "containsNull": True}, "nullable": True}
    schema = json.dumps({"type": "struct", "fields": [column]})
    with pytest.raises(ValueError, match="evil_module"):
        columns_of(_text("v2") + _parts(schema, 1000) + _parts(schema, 1000))
    assert not (tmp_path / "has run").exists()


def test_a_trial_reads_nothing_with_the_settings_of_the_savepoint() -> None:
    assert without_records('v1\n{"conf":{}}\n{"source":"a"}\n-') == 'v1\n{"conf":{}}\n-\n-'
