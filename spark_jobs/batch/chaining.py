"""Tasks that read a source and write to its sinks in one process, where no step of Spark's stands between the two.

So rows are not made Spark's and then Arrow again, and a task has one Python process instead of two (Flink's word for it
is operator chaining). The tasks, their numbers and their rows are those of the query: `eos repair` reads them by that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from connectors.api.contracts import Source
from spark_jobs.batch.acks import ACKNOWLEDGEMENT, of_source
from spark_jobs.query.marks import Met
from spark_jobs.query.tasks import numbers, numbers_in, shares
from twophase.values import OffsetRange

if TYPE_CHECKING:  # tasks import this module, and have no use for a spec
    from connectors.spec import Spec
    from spark_jobs.batch.branches import Flow

ArrowTask = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What Spark runs on each partition. Picklable."""


@dataclass(frozen=True, slots=True)
class Chain:
    """A source whose rows go to the sinks of one branch as they are."""

    source: Source
    columns: Sequence[str]  # of the branch, in its order

    def job(self, spark: SparkSession, ranges: Sequence[OffsetRange], task: ArrowTask) -> DataFrame:
        """What the tasks acknowledge, of which `task` is each one's; not yet run. Called for each checkpoint."""
        tasks = list(shares(ranges, self.source.split_above, self.source.join_below))
        return numbers(spark, len(tasks)).mapInArrow(_ChainedTask(self, tasks, task), ACKNOWLEDGEMENT)

    def read(
        self, ranges: Sequence[OffsetRange], met: Met, leave_out: Callable[[int], None]
    ) -> Iterator[pa.RecordBatch]:
        """In a task: the rows of its ranges. `leave_out`: see Source.read."""
        return (batch.select(self.columns) for batch in met.read(self.source, ranges, leave_out))


@dataclass(frozen=True, slots=True)
class _ChainedTask:
    """The function that Spark runs for each share, whose number comes as its partition's only row."""

    chain: Chain
    tasks: Sequence[Sequence[OffsetRange]]
    write: ArrowTask

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in numbers_in(batches):
            counts, met = list[int](), Met()
            yield from self.write(self.chain.read(self.tasks[number], met, counts.append))
            schemas = met.new()
            if schemas or any(counts):
                yield of_source(sum(counts), schemas)


def may_chain(spec: Spec) -> bool:
    """Whether nothing in the spec speaks against it: then hardly a row goes through the JVM. Touches no service."""
    from connectors.sql.entry import UPSERT

    merged = any(getattr(sink, "commit", "") == UPSERT for sink in spec.sinks)  # in tasks by key
    return len(spec.sources) == 1 and not (spec.transforms or merged or spec.dead_letter)


def chain_of(flow: Flow, sources: Sequence[Source]) -> Chain | None:
    """None where Spark has something to do between source and sinks: a step, a shuffle, rows for two kinds of tasks; or
    where its types have no exact place for those of the source. Called at every start of a query."""
    if not may_chain(flow.spec) or len(flow.branches) != 1:
        return None
    (source,), (branch,) = sources, flow.branches
    if branch.partition_by is not None or not set(branch.columns) <= set(source.schema.names):
        return None
    narrow = source.select(branch.columns)
    by_spark = to_arrow_schema(from_arrow_schema(narrow.schema), timezone="UTC")
    return Chain(narrow, branch.columns) if by_spark.types == narrow.schema.types else None
