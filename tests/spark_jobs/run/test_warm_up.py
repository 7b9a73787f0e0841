"""A standby builds its query before its turn. If it cannot, it warns, and waits as usual."""

from __future__ import annotations

import logging
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from connectors.spec import Spec, load_spec
from spark_jobs.query.source import format_name
from spark_jobs.run import warm_up as preparation
from spark_jobs.run.warm_up import kept_warm
from spark_jobs.session.settings import DEFAULTS, LOOPBACK, REQUIRED
from tests.waiting import until

_SPEC = """\
pipeline: p
checkpoint: {{location: state}}
sources:
  - {{name: orders, connector: kafka, bootstrap_servers: k, topics: [o], format: {{type: json, schema: "id BIGINT"}}}}
transforms:
  - {{name: chosen, sql: "SELECT {column} FROM orders {more}"}}
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


def _loaded(folder: Path, column: str, more: str = "") -> Spec:
    (folder / "spec.yaml").write_text(_SPEC.format(column=column, more=more))
    return load_spec(folder / "spec.yaml", {})


def _said(caplog: pytest.LogCaptureFixture, spark: SparkSession, spec: Spec) -> str:
    """What a standby that waits for a moment logs of its query."""
    with caplog.at_level(logging.INFO, "eos.runner"), kept_warm(spark, spec):
        until(lambda: bool(_of_runner(caplog)), timeout_s=60)
    (message,) = _of_runner(caplog)
    return message


def _of_runner(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Its messages. PySpark may log an error, too."""
    return [each.getMessage() for each in caplog.records if each.name == "eos.runner"]


def test_the_query_is_built_and_leaves_nothing(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A table that has got a file since is listed once more, and what the steps have cached is read once more."""
    table = str(tmp_path / "names")
    spark.range(1).write.parquet(f"file://{table}")
    spark.sql(f"CREATE TABLE names (id BIGINT) USING parquet LOCATION 'file://{table}'")
    try:
        spec = _loaded(tmp_path, "orders.id", "JOIN spark_catalog.default.names USING (id)")
        assert _said(caplog, spark, spec) == "the standby of p has built its query"
        with pytest.raises((Py4JJavaError, AnalysisException), match="DATA_SOURCE_NOT_FOUND"):
            spark.readStream.format(format_name(spec.sources[0])).load()
        for part in Path(table).glob("*.parquet"):
            shutil.copy(part, part.with_name(f"part-more-{part.name}"))
        assert spark.table("names").count() == 2
    finally:
        spark.sql("DROP TABLE names")


def test_it_warns_of_a_query_that_cannot_be_built(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    warning = _said(caplog, spark, _loaded(tmp_path, "missing(id)"))
    assert warning.startswith("the standby of p could not start its query now: ")
    assert "missing" in warning


def test_it_warns_of_a_database_that_is_away(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PySpark raises Java's own error there."""

    def away(*_: object) -> None:
        spark.sparkContext._jvm.java.net.Socket("127.0.0.1", 1)  # type: ignore[union-attr]

    monkeypatch.setattr(preparation, "root_rows", away)
    assert "building the query failed" in _said(caplog, spark, _loaded(tmp_path, "id"))


def test_a_turn_that_is_there_builds_nothing(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = threading.active_count()
    with caplog.at_level(logging.INFO, "eos.runner"), kept_warm(spark, _loaded(tmp_path, "missing(id)")):
        assert threading.active_count() == before + 1
    time.sleep(1.5)
    assert threading.active_count() == before
    assert not _of_runner(caplog)
