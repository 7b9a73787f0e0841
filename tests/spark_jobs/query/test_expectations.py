"""Rules of a step in Spark: which rows pass, what is counted, and which conditions a start refuses."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession, functions

from connectors.dead_letters import RECORD
from connectors.spec import Expectation, Spec, SqlStep
from eos.errors import SpecError
from spark_jobs.batch.rule_checks import letters_of, unlike
from spark_jobs.query.expectations import Outcome, Rows, outcome
from spark_jobs.query.steps import apply_steps
from spark_jobs.session.settings import DEFAULTS, LOOPBACK

ROWS = [(1, 10.0), (2, -1.0), (3, None), (4, 2e9), (5, -2e9)]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    own = {"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"}
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    session = SparkSession.builder.master("local[2,3]").config(map={**DEFAULTS, **LOOPBACK, **own}).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
    monkeypatch.undo()


def _rule(name: str, condition: str, action: str = "warn") -> Expectation:
    return Expectation.model_validate({"name": name, "condition": condition, "action": action})


def _step(*rules: Expectation, sql: str = "SELECT * FROM s", name: str = "r") -> SqlStep:
    return SqlStep.model_construct(name=name, sql=sql, watermark=None, output_mode="append", expect=list(rules))


def _apply(
    spark: SparkSession, *steps: SqlStep, rows: DataFrame | None = None, rejected: dict[str, DataFrame] | None = None
) -> dict[str, DataFrame]:
    given = rows if rows is not None else spark.createDataFrame(ROWS, "id BIGINT, amount DOUBLE").repartition(3)
    spec = cast(Spec, SimpleNamespace(transforms=list(steps), folder=Path()))
    return apply_steps(spark, spec, steps, {"s": given}, rejected)


def _ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.collect())


def _counted(frame: DataFrame, step: SqlStep) -> Outcome | None:
    return outcome(step, cast(Any, frame)._jdf.queryExecution().observedMetrics())


def test_each_rule_sees_all_rows_and_null_is_not_true(spark: SparkSession) -> None:
    step = _step(
        _rule("positive", "amount > 0"), _rule("small", "amount < 1e9", "skip"), _rule("known", "id > 0", "fail")
    )
    frame = _apply(spark, step)["r"]
    assert _ids(frame) == [1, 2, 5]
    assert _counted(frame, step) == Outcome(5, (3, 2, 0), Rows(), ("", "", ""))


def test_rejected_rows_leave_the_flow_once_and_before_they_are_skipped(spark: SparkSession) -> None:
    positive, small = _rule("positive", "amount > 0", "dead-letter"), _rule("small", "amount > -1e9", "dead-letter")
    step, rejected = _step(positive, small, _rule("odd", "id % 2 = 1", "skip")), dict[str, DataFrame]()
    frame = _apply(spark, step, rejected=rejected)["r"]
    assert _ids(frame) == [1]
    counted = _counted(frame, step)
    assert counted == Outcome(5, (3, 2, 2), Rows(3, counted.rejected.digest if counted else 0), ("", "", ""))
    letters = {json.loads(row.value)["id"]: row for row in letters_of([step], rejected).collect()}
    assert sorted(letters) == [2, 3, 5]
    assert letters_of([step], rejected).columns == RECORD.names
    assert letters[5].error == "the row of step r fails the expectation positive, small"
    assert json.loads(letters[3].value) == {"id": 3, "amount": None}
    assert {letter.sink for letter in letters.values()} == {"step:r"}


@pytest.mark.parametrize(("later", "unlike_step"), [("9 1 1", ""), ("1 9 1", "r"), ("9 9 1", "r"), ("1 1 1", "r")])
def test_a_second_computation_is_compared_by_its_rows(
    spark: SparkSession, tmp_path: Path, later: str, unlike_step: str
) -> None:
    """The step looks its amounts up in a file. As many dead letters as before do not prove it."""
    amounts = tmp_path / "amounts"
    amounts.write_text("9 1 1")

    def look_up(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        values = list(map(float, amounts.read_text().split()))
        for batch in batches:
            ids = batch.column("id").to_pylist()
            yield pa.RecordBatch.from_pydict({"id": ids, "amount": [values[each] for each in ids]})

    step, rejected = _step(_rule("small", "amount < 5", "dead-letter")), dict[str, DataFrame]()
    rows = spark.range(3).mapInArrow(look_up, "id BIGINT, amount DOUBLE")
    frame = _apply(spark, step, rows=rows, rejected=rejected)["r"]
    assert _ids(frame) == [1, 2]
    counted = _counted(frame, step)
    assert counted is not None
    assert counted.rejected.count == 1
    amounts.write_text(later)
    job = letters_of([step], rejected)
    assert job.count() == later.count("9")
    job.toArrow()
    assert unlike([step], {"r": counted.rejected}, job) == unlike_step


def test_a_letter_has_the_place_of_its_record(spark: SparkSession) -> None:
    schema = "id BIGINT, _topic STRING, _partition INT, _offset BIGINT, _timestamp TIMESTAMP, _key STRING"
    rows = spark.createDataFrame([(1, "t", 3, 17, None, "k")], schema)
    step, rejected = _step(_rule("none", "id < 0", "dead-letter")), dict[str, DataFrame]()
    _apply(spark, step, rows=rows, rejected=rejected)
    (letter,) = letters_of([step], rejected).collect()
    assert (letter.topic, letter.partition, letter.offset, bytes(letter.key)) == ("t", 3, 17, b"k")


def test_the_rows_of_a_query_keep_those_that_become_dead_letters(spark: SparkSession) -> None:
    """Only the batch can divide them: see `Flow.frames`."""
    assert _ids(_apply(spark, _step(_rule("positive", "amount > 0", "dead-letter")))["r"]) == [1, 2, 3, 4, 5]


def test_a_rule_that_stops_the_pipeline_has_an_example(spark: SparkSession) -> None:
    step = _step(_rule("positive", "amount >= 0 OR amount IS NULL", "fail"))
    frame = _apply(spark, step, rows=spark.createDataFrame(ROWS[:3], "id BIGINT, amount DOUBLE"))["r"]
    frame.collect()
    assert _counted(frame, step) == Outcome(3, (1,), Rows(), ('{"id":2,"amount":-1.0}',))


def test_a_task_that_is_retried_counts_once(spark: SparkSession, tmp_path: Path) -> None:
    """After the rule: its rows have passed in the attempt that fails."""
    mark = tmp_path / "failed"

    def fail_once(batches: Iterator[Any]) -> Iterator[Any]:
        rows = list(batches)
        if rows and not mark.exists():
            mark.touch()
            raise OSError
        yield from rows

    step = _step(_rule("positive", "amount > 0"))
    frame = _apply(spark, step)["r"].mapInArrow(fail_once, "id BIGINT, amount DOUBLE")
    assert _ids(frame) == [1, 2, 3, 4, 5]
    assert (tmp_path / "failed").exists()
    assert _counted(frame, step) == Outcome(5, (3,), Rows(), ("",))


def test_a_second_job_over_the_same_rows_does_not_count_twice(spark: SparkSession) -> None:
    step = _step(_rule("positive", "amount > 0"))
    frame = _apply(spark, step)["r"]
    for _ in range(2):
        frame.toArrow()
        assert _counted(frame, step) == Outcome(5, (3,), Rows(), ("",))


def test_rows_that_are_kept_are_counted_by_the_job_that_computes_them(spark: SparkSession) -> None:
    step = _step(_rule("positive", "amount > 0"))
    frame = _apply(spark, step)["r"].persist()
    frame.write.format("noop").mode("append").save()
    assert _counted(frame, step) == Outcome(5, (3,), Rows(), ("",))
    both = frame.union(frame.where("id > 2"))
    assert len(both.toArrow()) == 8
    assert _counted(both, step) == Outcome(5, (3,), Rows(), ("",))
    frame.unpersist()


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("amont > 0", "amont"),
        ("amount + 1", "BOOLEAN"),
        ("count(*) > 1", "AGGREGATE|aggregate|GROUP_BY|WHERE"),
        ("amount > 0) OR (id > 0", "SYNTAX|syntax|PARSE"),
        ("rand() > 0.5", "it is not deterministic"),
        ("current_timestamp() > '2020-01-01'", "it asks for the current time"),
        ("id IN (SELECT id FROM s)", "a subquery would read other rows"),
        ("EXISTS (SELECT 1 FROM s)", "a subquery would read other rows"),
        ("id > (SELECT max(id) FROM s)", "a subquery would read other rows"),
        ("java_method('java.lang.System', 'getenv') IS NULL", "it calls Java by name"),
        ("IDENTIFIER(' xpath_boolean ')('<a/>', 'a')", "xpath_boolean reads the DTD"),
        ("from_xml('<a/>', 'a INT', map('rowValidationXSDPath', '/x')).a = 1", "from_xml reads a file"),
    ],
)
def test_a_condition_that_is_not_one_over_a_row_is_refused(spark: SparkSession, condition: str, reason: str) -> None:
    rule = Expectation.model_construct(name="r1", condition=condition, action="warn", max_failed=None)
    with pytest.raises(SpecError, match=reason) as failure:
        _apply(spark, _step(rule))
    assert failure.value.message.startswith("transforms[0] (r): expect[0] (r1): ")
    assert failure.value.remedy == "write a condition over the columns of r: id, amount"


def test_rows_with_a_name_twice_have_no_example(spark: SparkSession) -> None:
    step = _step(_rule("positive", "amount > 0", "fail"), sql="SELECT id, amount, id FROM s")
    frame = _apply(spark, step)["r"]
    frame.toDF("a", "b", "c").collect()
    assert _counted(frame.toDF("a", "b", "c"), step) is not None
    assert frame.select(functions.count("amount")).collect()[0][0] == 4
