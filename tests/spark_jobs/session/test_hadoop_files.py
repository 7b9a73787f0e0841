"""Files that the session's own Hadoop client reads: a stop of the query interrupts it, and is not an outage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from eos.errors import SparkUnavailableError
from spark_jobs.session.hadoop_files import HadoopFolder
from spark_jobs.session.settings import DEFAULTS, LOOPBACK, REQUIRED


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    found = SparkSession.builder.master("local[1]").config(map={**REQUIRED, **DEFAULTS, **LOOPBACK}).getOrCreate()
    yield found
    found.stop()


def _thread(spark: SparkSession) -> Any:
    jvm: Any = spark.sparkContext._jvm
    return jvm.java.lang.Thread


def test_files_and_folders_that_are_there_and_that_are_not(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_bytes(b"\x00v1\n\xff")
    files = HadoopFolder(spark, f"file://{tmp_path}")
    assert files.names("offsets") == ["0"]
    assert files.read("offsets/0") == b"\x00v1\n\xff"
    assert files.names("commits") == []
    with pytest.raises(FileNotFoundError, match="/offsets/1"):
        files.read("offsets/1")


@pytest.mark.parametrize("name", ["java.io.InterruptedIOException", "java.nio.channels.ClosedByInterruptException"])
def test_a_read_that_a_stop_interrupts_is_repeated(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Spark still finds its thread interrupted afterwards."""
    (tmp_path / "metadata").write_bytes(b"{}")
    files = HadoopFolder(spark, f"file://{tmp_path}")
    content, calls = files._content, []

    def read(path: str) -> bytes:
        calls.append(path)
        if len(calls) == 1:
            jvm: Any = spark.sparkContext._jvm
            raised = jvm.java.lang.Class.forName(name).newInstance()
            raise Py4JJavaError("interrupted", raised)
        return content(path)

    monkeypatch.setattr(files, "_content", read)
    assert files.read("metadata") == b"{}"
    assert len(calls) == 2
    assert _thread(spark).interrupted()


def test_an_unknown_host_is_an_outage(spark: SparkSession) -> None:
    """PySpark raises its own error there."""
    with pytest.raises(SparkUnavailableError, match=r"cannot be read at hdfs://nowhere\.invalid") as caught:
        HadoopFolder(spark, "hdfs://nowhere.invalid:8020/x").read("metadata")
    assert "file system answers" in caught.value.remedy
