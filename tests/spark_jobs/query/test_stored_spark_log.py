"""Spark's checkpoint read by Spark's own client of a file system, with the same results as from a local disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from eos.errors import SparkUnavailableError
from spark_jobs.query.source_lists import SourceLists
from spark_jobs.query.spark_log import JobSparkLog
from spark_jobs.query.stored_spark_log import StoredSparkLog
from spark_jobs.session.hadoop_files import HadoopFolder
from twophase.values import SparkState

_OFFSETS = (
    'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{"spark.sql.shuffle.partitions":"7"}}\n{"ends":"\u00fc"}'
)


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint whose path has a blank and a percent sign, with batch 10 planned and 9 done."""
    found = tmp_path / "of a job%20"
    for name in ("offsets", "commits"):
        (found / name).mkdir(parents=True)
    (found / "metadata").write_text('{"id":"q-1"}')
    for number in (8, 9, 10):
        (found / "offsets" / str(number)).write_text(f"{_OFFSETS}{number}")
    (found / "offsets" / ".11.b1946ac9.tmp").write_text("v1")
    (found / "commits" / "9").write_text('v1\n{"nextBatchWatermarkMs":0}')
    return found


def _stored(spark: SparkSession, folder: Path) -> StoredSparkLog:
    files = HadoopFolder(spark, f"file:{folder}")
    return StoredSparkLog(files, SourceLists(files, [], dict))


def test_it_says_what_a_local_disk_says(spark: SparkSession, folder: Path) -> None:
    stored = _stored(spark, folder)
    state = stored.state("")
    assert replace(state, source_lists={}) == JobSparkLog(folder).state("")
    assert (state.query_id, state.newest_planned, state.newest_committed) == ("q-1", 10, 9)
    assert state.offsets_log == {9: f"{_OFFSETS}9", 10: f"{_OFFSETS}10"}
    assert state.state_partitions == {9: 7, 10: 7}
    assert state.source_lists == {9: {}, 10: {}}
    assert (stored.query_id(""), stored.offsets_log("", 10)) == ("q-1", f"{_OFFSETS}10")
    assert str(stored.folder("")) == f"file:{folder}"


def test_a_file_that_changes_is_read_once_more(spark: SparkSession, folder: Path) -> None:
    """Neither Spark nor Hadoop may answer from memory: another driver may have written over it (H25)."""
    stored = _stored(spark, folder)
    assert stored.offsets_log("", 10).endswith("10")
    (folder / "offsets" / "10").write_text("another's")
    assert stored.offsets_log("", 10) == "another's"


def test_commits_that_are_cut_off_do_not_count(spark: SparkSession, folder: Path) -> None:
    (folder / "commits" / "10").write_text("")
    assert _stored(spark, folder).state("").newest_committed == 9


def test_what_is_missing_is_nothing_yet(spark: SparkSession, tmp_path: Path) -> None:
    stored = _stored(spark, tmp_path / "nothing")
    assert stored.state("") == SparkState()
    with pytest.raises(FileNotFoundError, match=r"nothing/offsets/0$"):
        stored.offsets_log("", 0)


def test_damage_is_an_id_that_no_query_has(spark: SparkSession, folder: Path) -> None:
    (folder / "metadata").write_text("[]")
    found = _stored(spark, folder).state("").query_id
    assert found is not None
    assert found.startswith(f"unknown, since file:{folder}/metadata is damaged")


def test_a_file_system_that_does_not_answer_is_named(spark: SparkSession, folder: Path) -> None:
    with pytest.raises(SparkUnavailableError, match=r"cannot be read at nowhere:/a: .*No FileSystem for scheme"):
        HadoopFolder(spark, "nowhere:/a")
    stored = _stored(spark, folder)
    (folder / "offsets" / ".10.crc").write_bytes(b"crc\0\0\0\x02\0" + b"\0\0\0\0")  # of another content
    with pytest.raises(SparkUnavailableError, match=r"cannot be read at file:.*/offsets/10: .*Checksum"):
        stored.offsets_log("", 10)
