"""The query of a spec: a trunk is started as it is, several roots as their union, and one output mode holds for all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from connectors.spec import Spec, load_spec
from connectors.spec.spec import CHANGELOG
from eos.errors import SparkUnavailableError, SpecError
from spark_jobs.batch.branches import Flow
from spark_jobs.run.multi_pipeline import sessions_of
from spark_jobs.run.pipeline import _check_one_mode, _check_stateless, _rows, check_version, output_mode
from spark_jobs.savepoints.query import plan_of
from spark_jobs.session.settings import DEFAULTS, LOOPBACK, REQUIRED

_SPEC = """\
pipeline: p
checkpoint: {location: state}
sources:
  - {name: orders, connector: kafka, bootstrap_servers: k, topics: [o], format: {type: json, schema: "id BIGINT"}}
  - {name: users, connector: kafka, bootstrap_servers: k, topics: [u], format: {type: json, schema: "id BIGINT"}}
transforms:
  - {name: counted, sql: "SELECT id, count(*) AS number FROM orders GROUP BY id", output_mode: update}
  - {name: named, sql: "SELECT id FROM users"}
  - {name: later, sql: "SELECT id FROM named"}
sinks:
"""
_SINK = "  - {name: out_%s, from: %s, connector: sqlite, path: out.db, table: %s, commit: write-ahead-log}\n"


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    found = SparkSession.builder.master("local[1]").config(map={**REQUIRED, **DEFAULTS, **LOOPBACK}).getOrCreate()
    yield found
    found.stop()


def _loaded(folder: Path, *wanted: str, text: str = _SPEC) -> Spec:
    (folder / "spec.yaml").write_text(text + "".join(_SINK % (each, each, each) for each in wanted))
    return load_spec(folder / "spec.yaml", {})


def _frames(spark: SparkSession, spec: Spec, folder: Path) -> dict[str, DataFrame]:
    found: dict[str, DataFrame] = {}
    for name, sql in [(each.name, "") for each in spec.sources] + [
        (s.name, getattr(s, "sql", "")) for s in spec.transforms
    ]:
        (folder / name).mkdir(exist_ok=True)
        read = spark.readStream.schema("id BIGINT, more STRING")
        frame = spark.sql(sql) if sql else read.json(f"file://{folder / name}")
        frame.createOrReplaceTempView(name)
        found[name] = frame
    return found


def _flow(spec: Spec) -> Flow:
    branches = [SimpleNamespace(rows=sink.from_, placed_columns=["id"], sinks=()) for sink in spec.sinks]
    return Flow(spec, cast(Any, tuple(branches)))


def _plan(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().analyzed().toString())


@pytest.mark.parametrize(
    ("wanted", "trunk"), [(["named"], "named"), (["named", "later"], "named"), (["users"], "users")]
)
def test_the_query_of_a_trunk_is_its_frame(spark: SparkSession, tmp_path: Path, wanted: list[str], trunk: str) -> None:
    """Spark goes on with the checkpoint of a pipeline from before there were several roots."""
    spec = _loaded(tmp_path, *wanted)
    assert spec.roots == [trunk]
    frames = _frames(spark, spec, tmp_path)
    rows = _rows(spark, _flow(spec), frames)
    expected = frames[trunk] if len(wanted) > 1 else frames[trunk].select("`id`")
    assert _plan(rows) == _plan(expected)
    assert "Union" not in _plan(rows)


def test_the_query_of_several_roots_names_their_sources_and_state(spark: SparkSession, tmp_path: Path) -> None:
    spec = _loaded(tmp_path, "later", "named", "counted")
    assert spec.roots == ["counted", "named"]
    rows = _rows(spark, _flow(spec), _frames(spark, spec, tmp_path))
    assert rows.dtypes == [("counted", "struct<id:bigint>"), ("named", "struct<id:bigint>")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spark_jobs.savepoints.query.streaming_leaves", lambda _: ["eos_orders", "eos_users"])
        plan = plan_of(spec, rows)
    assert plan.sources == ("orders", "users")
    assert [(each.step, each.kind) for each in plan.operators] == [("counted", "Aggregate")]


def test_roots_with_state_have_one_output_mode(spark: SparkSession, tmp_path: Path) -> None:
    spec = _loaded(tmp_path, "counted", "named")
    _check_one_mode(spec, _frames(spark, spec, tmp_path))
    assert output_mode(spec) == "update"
    both = _SPEC.replace("SELECT id FROM users", "SELECT id, count(*) AS number FROM users GROUP BY id")
    spec = _loaded(tmp_path, "counted", "named", text=both)
    with pytest.raises(SpecError, match="counted keeps state with output_mode update, and named with append"):
        _check_one_mode(spec, _frames(spark, spec, tmp_path))


def test_state_is_refused_on_a_version_that_runs_none(spark: SparkSession, tmp_path: Path) -> None:
    spec = _loaded(tmp_path, "counted")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "spark_jobs.run.pipeline.root_rows", lambda _, given, __: _frames(spark, given, tmp_path)["counted"]
        )
        check_version(spark, spec)
        patch.setattr("spark_jobs.run.pipeline.installed", lambda: "4.0.5")
        with pytest.raises(SparkUnavailableError, match=r"a query with state cannot run on PySpark 4\.0\.5"):
            check_version(spark, spec)
        stateless = _SPEC.replace(", count(*) AS number FROM orders GROUP BY id", " FROM orders")
        check_version(spark, _loaded(tmp_path, "counted", text=stateless))


def test_a_step_behind_a_root_must_repeat_itself_if_another_root_keeps_state(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A decided batch runs again as a whole."""
    text = _SPEC.replace("SELECT id FROM named", "SELECT id, rand() AS chance FROM named")
    spec = _loaded(tmp_path, "named", "later", text=text)
    _check_stateless(spec, _frames(spark, spec, tmp_path))
    spec = _loaded(tmp_path, "counted", "named", "later", text=text)
    with pytest.raises(SpecError, match="it is not deterministic, and counted keeps state"):
        _check_stateless(spec, _frames(spark, spec, tmp_path))


def test_each_of_several_pipelines_has_its_state_backend(spark: SparkSession, tmp_path: Path) -> None:
    changes = _loaded(tmp_path, "named", text="state: {backend: rocksdb-changelog}\n" + _SPEC)
    files = _loaded(tmp_path, "named")
    found = [each.conf.get(CHANGELOG) for each in sessions_of(spark, [files, changes, files])]
    assert found == ["false", "true", "false"]
