"""Several roots of a flow as one streaming query, and the rows of each root in one of its batches.

A row of the query has one column for each root: a struct of the root's columns, which is NULL in the rows of all other
roots. The query reads and computes the roots side by side, so a batch of it is a batch of all of them.

Spark keeps the rows of the roots in separate partitions of a batch, in the order of the roots. So a root's rows are
read from its own partitions, and each record is read once. Where a plan has another shape, a root's rows are selected
from all partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession, functions

from connectors.spark_types import quoted
from spark_jobs.query.running_query import executed_plan


@dataclass(frozen=True, slots=True)
class RootRows:
    """The rows of each root in a batch."""

    frames: Mapping[str, DataFrame]  # by root
    apart: bool  # whether each frame reads the partitions of its root only


def union_of(spark: SparkSession, roots: Mapping[str, Sequence[str] | None]) -> DataFrame:
    """Return the rows of several roots as one frame.

    `roots`: views of this session, each with the columns that are needed of it; None: all columns. The frame reads the
    views by their names, which its plan shows.
    """
    frames = {root: _narrowed(spark.table(quoted(root)), columns) for root, columns in roots.items()}
    return reduce(DataFrame.union, (_wrapped(root, frames) for root in frames))


def rows_of(batch: DataFrame, roots: Sequence[str]) -> RootRows:
    """Return the rows of each root in a batch of `union_of`. Runs no job.

    A row in a partition of another root fails its task, so no row can be lost.
    """
    found = _partitions(batch, len(roots))
    if found is None:
        return RootRows({root: _unwrapped(batch.where(_is_of(root)), root) for root in roots}, apart=False)
    frames = {}
    for root, partitions in zip(roots, found, strict=True):
        own = _only(batch, partitions)
        frames[root] = _unwrapped(own.where(_must_be_of(root)), root)
    return RootRows(frames, apart=True)


def _narrowed(frame: DataFrame, columns: Sequence[str] | None) -> DataFrame:
    return frame if columns is None else frame.select(*map(quoted, columns))


def _wrapped(root: str, frames: Mapping[str, DataFrame]) -> DataFrame:
    """Return the rows of one root. The observation keeps Spark from merging the root with others, or leaving it out."""
    columns = [
        (functions.struct("*") if name == root else functions.lit(None).cast(frame.schema)).alias(name)
        for name, frame in frames.items()
    ]
    return frames[root].select(*columns).observe(f"rows of {root}", functions.count(functions.lit(1)).alias("rows"))


def _unwrapped(rows: DataFrame, root: str) -> DataFrame:
    return rows.select(f"{quoted(root)}.*")


def _is_of(root: str) -> Column:
    return functions.col(quoted(root)).isNotNull()


def _must_be_of(root: str) -> Column:
    mistake = functions.raise_error(functions.lit(f"a row of another root is among the rows of {root}"))
    return functions.when(_is_of(root), functions.lit(True)).otherwise(mistake.cast("boolean"))


def _partitions(batch: DataFrame, roots: int) -> list[range] | None:
    """Return the partitions of each root; None where the batch is not a plain union of the roots' partitions.

    An idle root has no partition. Spark's RDD of the union lacks such a root, so the counts are those of its plan.
    """
    if _name(batch._jdf.queryExecution().analyzed()) != "LogicalRDD":
        return None
    plan = executed_plan(batch)
    if _name(plan) != "UnionExec":
        return None
    counts = [int(each.execute().getNumPartitions()) for each in _children(plan)]
    if len(counts) != roots or sum(counts) != _rows(batch).getNumPartitions():
        return None
    ends = list(accumulate(counts))
    return [range(end - count, end) for end, count in zip(ends, counts, strict=True)]


def _children(plan: Any) -> Iterator[Any]:
    each = plan.children().iterator()
    while each.hasNext():
        yield each.next()


def _rows(batch: DataFrame) -> Any:
    """The batch as Spark's RDD of rows."""
    return batch._jdf.queryExecution().analyzed().rdd()


def _only(batch: DataFrame, partitions: range) -> DataFrame:
    """Return a frame that reads only these partitions of a batch."""
    session = batch.sparkSession
    jvm: Any = session.sparkContext._jvm
    chosen = jvm.scala.collection.immutable.Range.Exclusive(partitions.start, partitions.stop, 1).toSet()
    pruned = jvm.org.apache.spark.rdd.PartitionPruningRDD.create(_rows(batch), chosen)
    return DataFrame(session._jsparkSession.internalCreateDataFrame(pruned, batch._jdf.schema(), False), session)


def _name(of_jvm: Any) -> str:
    return str(of_jvm.getClass().getSimpleName())
