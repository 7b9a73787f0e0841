"""The files that a batch reads, as Spark's memory has them, beside Spark's own lists."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.query.file_sources import FileSources
from spark_jobs.query.running_query import EndsHeld, _execution
from spark_jobs.query.source_lists import SourceLists
from spark_jobs.query.spark_log import check_ends
from spark_jobs.session.hadoop_files import HadoopFolder

_NAMES = ("a b%20.json", "\u00fc+1.json", "c[1]#?.json", "d.json", "e.json", "f.json", "g.json", "h.json")


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.streaming.fileSource.log.compactInterval", "3").getOrCreate()
    yield session
    session.stop()


def _write(folder: Path, names: tuple[str, ...]) -> None:
    folder.mkdir()
    for name in names:
        (folder / name).write_text('{"id":1}\n')


def _read(spark: SparkSession, folder: Path, most: int) -> DataFrame:
    return spark.readStream.schema("id BIGINT").option("maxFilesPerTrigger", most).json(str(folder))


def _run(frame: DataFrame, checkpoint: Path, each: Callable[[FileSources, int], None]) -> None:
    def batch(found: DataFrame, number: int) -> None:
        each(FileSources(_execution(found)), number)
        found.collect()

    writer = frame.writeStream.foreachBatch(batch).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


def test_what_a_batch_reads_is_what_its_lists_name(spark: SparkSession, tmp_path: Path) -> None:
    """Two sources, of which one has no files in the later batches, over two runs and two compact lists."""
    checkpoint, names = tmp_path / "checkpoint", list(_NAMES)
    few, many = tmp_path / "few", tmp_path / "many"
    _write(few, ("few.json",))
    _write(many, _NAMES[:5])
    read: list[str] = []
    digests: dict[int, dict[str, str]] = {}
    runs: list[SourceLists] = []

    def decide(sources: FileSources, number: int) -> None:
        assert sources.folders == ["sources/0", "sources/1"]
        held = sources.held()
        runs[-1].folders, runs[-1].held = sources.folders, sources.held
        assert ("sources/0" in held) == (number == 0)
        plan = (checkpoint / "offsets" / str(number)).read_text()
        if "sources/1" in held:
            read.extend(held["sources/1"].paths)
            assert held["sources/1"].after == json.loads(plan.split("\n")[-1])["logOffset"] - 1
        digests[number] = runs[-1].check(plan)

    for late in ((), _NAMES[5:]):
        for name in late:
            (many / name).write_text('{"id":1}\n')
        frame = _read(spark, few, 1).union(_read(spark, many, 1))
        files = HadoopFolder(spark, f"file:{checkpoint}")
        runs.append(SourceLists(files, [], dict))
        _run(frame, checkpoint, decide)
    assert sorted(read) == sorted(f"file:{many}/{name}" for name in names)
    assert (checkpoint / "sources" / "1" / "5.compact").exists()
    last = max(digests)
    start = SourceLists(HadoopFolder(spark, f"file:{checkpoint}"), ["sources/0", "sources/1"], dict)
    for number in (last - 1, last):
        plan = (checkpoint / "offsets" / str(number)).read_text()
        assert start.digests({number: plan}) == {number: digests[number]}


def test_h25_a_list_that_is_written_over_is_not_what_the_batch_reads(spark: SparkSession, tmp_path: Path) -> None:
    checkpoint, many = tmp_path / "checkpoint", tmp_path / "many"
    _write(many, _NAMES[:2])
    files = HadoopFolder(spark, f"file:{checkpoint}")

    def decide(sources: FileSources, number: int) -> None:
        path = checkpoint / "sources" / "0" / "1"
        if number == 1:
            path.write_text(path.read_text().replace('"path":"', '"path":"x'))
            (path.parent / ".1.crc").unlink()
        SourceLists(files, sources.folders, sources.held).check((checkpoint / "offsets" / str(number)).read_text())

    with pytest.raises(StreamingQueryException, match="own list of files over Spark's"):
        _run(_read(spark, many, 1), checkpoint, decide)


def test_a_source_that_a_union_reads_twice(spark: SparkSession, tmp_path: Path) -> None:
    """Spark has one source and one end of it, and its plan has a line for each of the two places."""
    checkpoint, many, held = tmp_path / "checkpoint", tmp_path / "many", EndsHeld()
    _write(many, _NAMES[:2])
    files = HadoopFolder(spark, f"file:{checkpoint}")
    plans = []

    def batch(found: DataFrame, number: int) -> None:
        plans.append((checkpoint / "offsets" / str(number)).read_text())
        check_ends(plans[-1], held(found))
        sources = FileSources(_execution(found))
        assert list(SourceLists(files, sources.folders, sources.held).check(plans[-1])) == ["sources/0"]
        assert found.count() == 2

    frame = _read(spark, many, 1)
    writer = frame.union(frame).writeStream.foreachBatch(batch).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert [plan.split("\n")[2:] for plan in plans] == [['{"logOffset":0}'] * 2, ['{"logOffset":1}'] * 2]
