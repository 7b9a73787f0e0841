"""Tasks that read a source and write to its sinks in one process, where no step of Spark's stands between the two.

So rows are not made Spark's and then Arrow again, and a task has one Python process instead of two (Flink's word for it
is operator chaining). The tasks, their numbers and their rows are those of the query: `eos repair` reads them by that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from connectors.api.contracts import Source
from connectors.api.table_rows import source_of_tables
from spark_jobs.batch.acks import ACKNOWLEDGEMENT, of_source
from spark_jobs.query.marks import Met
from spark_jobs.query.tasks import numbers, numbers_in, shares
from spark_jobs.session.arrow import from_arrow, to_arrow
from twophase.values import OffsetRange

if TYPE_CHECKING:  # tasks import this module, and have no use for a spec
    from connectors.spec import Spec
    from spark_jobs.batch.branches import Branch, Flow

ArrowTask = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What Spark runs on each partition. Picklable."""


@dataclass(frozen=True, slots=True)
class Chain:
    """A source whose rows go to the sinks of one branch as they are."""

    source: Source
    columns: Sequence[str]  # of the branch, in its order
    several_tables: bool = False  # rows also have the columns of their table, and no query of Spark's has them

    def read(
        self, ranges: Sequence[OffsetRange], met: Met, leave_out: Callable[[int], None]
    ) -> Iterator[pa.RecordBatch]:
        """In a task: the rows of its ranges. `leave_out`: see Source.read."""
        batches = met.read(self.source, ranges, leave_out)
        return batches if self.several_tables else (batch.select(self.columns) for batch in batches)


def chained_job(
    spark: SparkSession, chains: Iterable[tuple[Chain, ArrowTask]], ranges: Mapping[str, Sequence[OffsetRange]]
) -> DataFrame:
    """Return the acknowledgements of the tasks of all chains; not yet run. Called for each checkpoint.

    `chains`: each with the function of its tasks. Tasks are numbered through all chains, in their order.
    """
    tasks = [
        (chain, write, share)
        for chain, write in chains
        for share in shares(ranges.get(chain.source.name, ()), chain.source.split_above, chain.source.join_below)
    ]
    return numbers(spark, len(tasks)).mapInArrow(_ChainedTask(tasks), ACKNOWLEDGEMENT)


@dataclass(frozen=True, slots=True)
class _ChainedTask:
    """The function that Spark runs for each share, whose number comes as its partition's only row."""

    tasks: Sequence[tuple[Chain, ArrowTask, Sequence[OffsetRange]]]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in numbers_in(batches):
            chain, write, share = self.tasks[number]
            counts, met = list[int](), Met()
            yield from write(chain.read(share, met, counts.append))
            schemas = met.new()
            if schemas or any(counts):
                yield of_source(chain.source.name, sum(counts), schemas)


def may_chain(spec: Spec) -> bool:
    """Whether nothing in the spec speaks against it: then hardly a row goes through the JVM. Touches no service."""
    from connectors.sql.entry import UPSERT

    if has_several_tables(spec):
        return True
    merged = any(getattr(sink, "commit", "") == UPSERT for sink in spec.sinks)  # in tasks by key
    return bool(spec.sources) and not (spec.transforms or merged or spec.dead_letter)


def has_several_tables(spec: Spec) -> bool:
    """Whether all sinks have several tables. Then only a chain has their rows (see `check_tables`)."""
    return all(sink.has_several_tables for sink in spec.sinks)


def chains_of(flow: Flow, sources: Sequence[Source]) -> tuple[Chain, ...]:
    """Return the chain of each branch. Called at every start of a query.

    Empty where Spark has work between a source and its sinks: a step, a shuffle, rows for two kinds of tasks; or where
    Spark has no exact type for a column.
    """
    by_name = {source.name: source for source in sources}
    if not may_chain(flow.spec) or len(flow.branches) != len(by_name):
        return ()
    several = has_several_tables(flow.spec)
    chains = [_chain(by_name[branch.rows], branch, several_tables=several) for branch in flow.branches]
    found = tuple(chain for chain in chains if chain is not None)
    return found if len(found) == len(chains) else ()


def _chain(source: Source, branch: Branch, *, several_tables: bool) -> Chain | None:
    if branch.partition_by is not None or not set(branch.columns) <= set(source.schema.names):
        return None
    narrow = source_of_tables(source, branch.columns) if several_tables else source.select(branch.columns)
    by_spark = to_arrow(from_arrow(narrow.schema))
    if by_spark.types != narrow.schema.types:
        return None
    return Chain(narrow, branch.columns, several_tables)
