"""Versions of PySpark that a way cannot run with are refused, with the reason and what to do."""

from __future__ import annotations

import pytest

from spark_jobs.adapters.kafka_format import WAY as FORMAT_EOS_KAFKA
from spark_jobs.session.versions import (
    FOREACH_BATCH,
    FORMAT_EOS,
    RESCALE,
    RUN,
    STATE,
    WAYS,
    WIDEN,
    Way,
    file_manager,
    installed,
    is_supported,
    refusal,
    require_spark,
)


@pytest.mark.parametrize(
    ("way", "version", "lacking", "remedy"),
    [
        (RUN, "3.5.9", "streaming sources in Python", "or use a job of your own with foreachBatch"),
        (FOREACH_BATCH, "3.4.1", "not tested", "use PySpark 3.5 to 4.3: pip install 'pyspark>=3.5,<4.4'"),
        (FORMAT_EOS, "4.0.5", "Arrow batches", "or use foreachBatch(ExactlyOnce(spec))"),
        (FORMAT_EOS_KAFKA, "4.1.4", "a limit on the records", 'or use format("kafka") of Spark'),
        (STATE, "4.0.5", "a format of state that later versions read", "or use a query without state"),
        (WIDEN, "4.1.4", "Spark's State Rewriter", "use PySpark 4.2 to 4.3: pip install 'pyspark>=4.2,<4.4'"),
        (RESCALE, "4.1.4", "the repartitioning of state", "pip install 'pyspark>=4.2,<4.4'"),
        (RUN, "4.4.0", "newer than all tested versions", "pip install 'pyspark>=4.0,<4.4'"),
        (RUN, "4.10.0.dev1", "newer than all tested versions", "pip install 'pyspark>=4.0,<4.4'"),
        (RUN, None, "is not installed", "pip install 'pyspark>=4.0,<4.4'"),
    ],
)
def test_refused(way: Way, version: str | None, lacking: str, remedy: str) -> None:
    error = refusal(way, version)
    assert error is not None
    assert error.message.startswith(way.name)
    assert version is None or f"PySpark {version}," in error.message
    assert lacking in error.message
    assert remedy in error.remedy


@pytest.mark.parametrize("way", [*WAYS, FORMAT_EOS_KAFKA])
def test_from_its_oldest_version_to_the_newest(way: Way) -> None:
    major, minor = way.since
    assert is_supported(f"{major}.{minor}.0", way)
    assert is_supported("4.3.7", way)
    assert not is_supported("4.4.0", way)
    assert not is_supported(f"{major}.{minor - 1}.9" if minor else f"{major - 1}.9.9", way)


def test_the_installed_version_is_supported() -> None:
    version = installed()
    assert version is not None
    for way in (*WAYS, FORMAT_EOS_KAFKA):
        require_spark(way)
    assert file_manager().startswith("org.apache.spark.sql.execution.streaming.checkpointing.")
