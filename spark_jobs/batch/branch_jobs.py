"""What Spark runs of a batch: all branches in one job, over rows that are read and computed once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, functions

from connectors.api.contracts import Source
from connectors.spark_types import quoted
from spark_jobs.batch.acks import ACKNOWLEDGEMENT
from spark_jobs.batch.branches import Branch, Flow
from spark_jobs.batch.chaining import ArrowTask
from spark_jobs.batch.columns import numbered
from spark_jobs.batch.rule_checks import RuleChecks
from spark_jobs.batch.writing import COUNTED, HASH_COLUMN, CountTask
from spark_jobs.query.marks import observation, schemas_in
from spark_jobs.query.running_query import observed_text
from spark_jobs.session.arrow import collected
from spark_jobs.session.master import is_local

BranchJob = Callable[[Branch, DataFrame], DataFrame]
"""A branch and its rows, with their hashes where there is state; what its tasks return of them."""


@dataclass(slots=True)
class SchemaNotes:
    """The schemas that the records of one attempt of a batch name (H35). Created for each attempt."""

    sources: Sequence[Source]  # whose records name schemas
    met: dict[str, frozenset[tuple[str, str]]] = field(default_factory=dict, init=False)

    def read(self, batch: DataFrame) -> None:
        """Add the schemas of a job of this batch that has ended.

        Spark reports the newest stage that has read the records. So each job is read, and no job has two such stages.
        """
        for source in self.sources:
            found = schemas_in(observed_text(batch, observation(source), "schemas").splitlines())
            self.met[source.name] = self.met.get(source.name, frozenset()) | found


def run(
    flow: Flow,
    batch: DataFrame,
    job: BranchJob,
    *,
    digest_methods: Sequence[int],
    placed: bool = False,
    checks: RuleChecks | None = None,
    notes: SchemaNotes | None = None,
) -> pa.Table:
    """What the tasks of all branches return. Blocks until they have ended.

    `digest_methods`: see `row_hash`; none for a pipeline that keeps no state. `placed`: see Branch.placed. `checks`:
    reads the counts of the steps' rules. `notes`: reads the schemas of the records.

    What several branches need is kept until all have had it. With state, and where there are several machines, it is
    made in a job before: two tasks that need the same rows at once would both make them, and bring the state along
    twice. So too where rules count rows, or records name schemas: tasks of two stages would share the rows, and Spark
    reports the newest only.
    """
    checks, notes = checks or RuleChecks(()), notes or SchemaNotes(())
    with ExitStack() as kept:
        frames, stateful = flow.frames(batch), bool(digest_methods)
        for name in flow.shared(frames):
            now = stateful or bool(checks.steps) or bool(notes.sources) or not _is_local(batch)
            kept.enter_context(_kept(frames[name], now=now))
            if now:
                checks.read(batch, frames[name])
                notes.read(batch)
        select = Branch.placed if placed else Branch.of
        rows = [(branch, select(branch, frames[branch.rows])) for branch in flow.branches]
        jobs = [job(branch, _hashed(branch, each, digest_methods)) for branch, each in rows]
        whole = reduce(DataFrame.union, jobs)
        found = collected(whole)
        checks.read(batch, whole)
        notes.read(batch)
        return found


def writing(task: Callable[[Branch], ArrowTask], *, together: bool = False) -> BranchJob:
    """By tasks that acknowledge. `together`: see Branch.meeting."""

    def job(branch: Branch, rows: DataFrame) -> DataFrame:
        by = branch.meeting if together and branch.meeting is not None else branch.partition_by
        return written(rows, by, task(branch))

    return job


def counting(flow: Flow, digest_methods: Sequence[int]) -> BranchJob:
    """Nothing is written: the rows of a CountTask, and a column `branch` with the number of the branch.

    Hashes are numbered through all methods: those of the branch by the first method, then by the next one.
    """

    def job(branch: Branch, rows: DataFrame) -> DataFrame:
        counts = numbered(rows).mapInArrow(CountTask(len(digest_methods) * len(branch.hashes)), COUNTED)
        return counts.withColumn("branch", functions.lit(flow.branches.index(branch)))

    return job


def written(rows: DataFrame, by: Sequence[str] | None, task: ArrowTask) -> DataFrame:
    """What the tasks acknowledge that get these rows; not yet run. Rows that are equal in the columns `by` come to one
    task: all rows if there is no column, and wherever they are if it is None (see Sink.partition_by)."""
    if by is not None:
        rows = rows.repartition(*map(_column, by)) if by else rows.repartition(1)
    return numbered(rows).mapInArrow(task, ACKNOWLEDGEMENT)


def _hashed(branch: Branch, rows: DataFrame, methods: Sequence[int]) -> DataFrame:
    hashes = [row_hash(names, method) for method in methods for names in branch.hashes]
    return rows.withColumns({f"{HASH_COLUMN}{n}": each for n, each in enumerate(hashes)})


def row_hash(names: Sequence[str], method: int) -> Column:
    """Return the hash of these columns' values by which a row is known (R4), a 64-bit integer.

    `method`: one of DIGEST_METHODS. Spark's hash skips a NULL. Method 1 therefore does not notice a NULL that moves to
    another column. Method 2 also hashes whether each column is NULL; neither sees a NULL within a nested value.
    """
    columns = list(map(_column, names))
    match method:
        case 1:
            return functions.xxhash64(*columns)
        case 2:
            return functions.xxhash64(*(part for column in columns for part in (column, column.isNull())))
        case _:  # DIGEST_METHODS names one that is not written here
            message = f"row digests have no method {method}"
            raise ValueError(message)


def _column(name: str) -> Column:
    return functions.col(quoted(name))


def _is_local(frame: DataFrame) -> bool:
    return is_local(str(frame.sparkSession.sparkContext.master))


@contextmanager
def _kept(frame: DataFrame, *, now: bool) -> Iterator[None]:
    """Its rows are held in memory and on disk for this block, from the first use on, or made at once."""
    level = frame.storageLevel
    by_the_job = level.useMemory or level.useDisk  # which ends it when it likes
    if not by_the_job:
        frame.persist()
    try:
        if now:
            frame.write.format("noop").mode("append").save()
        yield
    finally:
        if not by_the_job:
            frame.unpersist()
