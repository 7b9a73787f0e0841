"""A standby builds its query before its turn. If it cannot, it warns, and waits as usual."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from connectors.spec import Spec, load_spec
from spark_jobs.query.source import format_name
from spark_jobs.run.warm_up import kept_warm, warm_up
from spark_jobs.session.settings import DEFAULTS, LOOPBACK, REQUIRED

_SPEC = """\
pipeline: p
checkpoint: {{location: state}}
sources:
  - {{name: orders, connector: kafka, bootstrap_servers: k, topics: [o], format: {{type: json, schema: "id BIGINT"}}}}
transforms:
  - {{name: chosen, sql: "SELECT {column} FROM orders"}}
sinks:
  - {{name: out, from: chosen, connector: sqlite, path: out.db, table: t, commit: write-ahead-log}}
"""


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        found = SparkSession.builder.master("local[1]").config(map={**REQUIRED, **DEFAULTS, **LOOPBACK}).getOrCreate()
        yield found
        found.stop()


def _loaded(folder: Path, column: str) -> Spec:
    (folder / "spec.yaml").write_text(_SPEC.format(column=column))
    return load_spec(folder / "spec.yaml", {})


def test_the_query_is_built(spark: SparkSession, tmp_path: Path) -> None:
    spec = _loaded(tmp_path, "id")
    warm_up(spark, [spec])
    rows = spark.readStream.format(format_name(spec.sources[0])).load()
    assert "id" in rows.columns


def test_it_warns_of_a_query_that_cannot_be_built(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "eos.runner"):
        warm_up(spark, [_loaded(tmp_path, "missing(id)")])
    (warning,) = caplog.messages
    assert warning.startswith("the standby of p could not start its query now: ")
    assert "missing" in warning


def test_without_a_cluster_nothing_is_kept_warm(spark: SparkSession, tmp_path: Path) -> None:
    before = threading.active_count()
    with kept_warm(spark, _loaded(tmp_path, "id")):
        assert threading.active_count() == before
