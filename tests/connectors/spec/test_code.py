"""What of a spec runs code is named, and what is data is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from connectors.spec import code_of, load_spec
from spark_jobs.cli import run_command_line

_SPEC = """\
pipeline: orders
checkpoint: {location: state}
spark:
  conf: {%s}
sources:
  - {name: s, connector: kafka, bootstrap_servers: "localhost:9", topics: [t], format: {type: string}}
transforms:
  - {name: one, sql: "SELECT value FROM s"}
  %s
sinks:
  - {name: out, from: one, connector: sqlite, path: x.db, table: t, commit: write-ahead-log}
"""
_CODE = (
    "spark.jars",
    "spark.jars.packages",
    "spark.plugins",
    "spark.submit.pyFiles",
    "spark.extraListeners",
    "spark.driver.extraJavaOptions",
    "spark.executor.defaultJavaOptions",
    "spark.executor.extraClassPath",
    "spark.pyspark.python",
    "spark.sql.extensions",
    "spark.sql.catalog.lake",
    "spark.sql.streaming.streamingQueryListeners",
    "spark.hadoop.fs.s3a.impl",
    "spark.executorEnv.PYTHONPATH",
    "spark.sql.adaptive.customCostEvaluatorClass",
    "spark.executor.resource.gpu.discoveryScript",
    "spark.kubernetes.container.image",
    "spark.yarn.dist.archives",
    "spark.sql.hive.metastore.jars.path",
    "spark.ui.filters",
)
_DATA = ("spark.executor.memory", "spark.sql.shuffle.partitions", "spark.driver.cores", "spark.task.maxFailures")


def written(tmp_path: Path, conf: tuple[str, ...], step: str = "") -> Path:
    path = tmp_path / "spec.yaml"
    path.write_text(_SPEC % (", ".join(f"{name}: a" for name in conf), step))
    return path


def test_settings_that_bring_code_are_named_and_others_are_not(tmp_path: Path) -> None:
    spec = load_spec(written(tmp_path, (*_CODE, *_DATA)), {})
    assert code_of(spec) == [f"spark.conf: {name}" for name in _CODE]


def test_validate_says_what_runs_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    step = "- {name: two, from: one, python: steps:add}"
    assert run_command_line(["validate", str(written(tmp_path, ("spark.jars",), step))]) == 0
    shown = capsys.readouterr().out
    for part in ("What runs code", "step two: steps:add", "spark.conf: spark.jars"):
        assert part in shown
    assert run_command_line(["validate", str(written(tmp_path, ()))]) == 0
    assert "What runs code" not in capsys.readouterr().out
