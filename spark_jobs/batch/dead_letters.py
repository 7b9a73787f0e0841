"""Dead letters of a checkpoint: records that do not decode, and rows that sinks refused (see sifting).

Records that do not decode are counted while a batch is read (`query.marks`), and read again only if there are any. The
records of refused rows are read again from their sources, so that a dead letter has them as they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions

from connectors.api.contracts import Sink, Source
from connectors.dead_letters import RECORD, SCHEMA, add_checkpoint_id, append_row
from connectors.spark_types import quoted
from eos.errors import BadRecordError, ConnectorError, PrepareError
from spark_jobs.batch.columns import numbered
from spark_jobs.batch.writing import Share
from spark_jobs.query.marks import observation
from spark_jobs.query.running_query import observed
from spark_jobs.query.tasks import numbers, numbers_in, shares
from spark_jobs.session.arrow import from_arrow
from spark_jobs.session.failures import TOKEN, carried
from twophase.values import OffsetRange

if TYPE_CHECKING:
    from spark_jobs.query.expectations import Rows

Ranges = Mapping[str, Sequence[OffsetRange]]
"""What a checkpoint reads of each source, by name."""
_ORIGINAL: Final = frozenset({"source", "timestamp", "key", "value", "headers"})
"""What a letter has of its record; the rest it has of the row."""


@dataclass(frozen=True, slots=True)
class Read:
    """A source's share of a checkpoint, and what its job has counted there."""

    source: Source
    tasks: Sequence[Sequence[OffsetRange]]  # what each has read
    marks: int
    aside: int

    @classmethod
    def of(cls, batch: DataFrame, source: Source, ranges: Sequence[OffsetRange]) -> Read:
        """What the job of this batch has counted. Called when the job has ended."""
        tasks = list(shares(ranges, source.split_above, source.join_below))
        counts = observed(batch, observation(source)) if tasks else None
        marks, aside = counts if counts is not None else (0, 0)
        return cls(source, tasks, marks or 0, aside or 0)

    @property
    def is_exact(self) -> bool:
        """Whether each task has read to its end, and none of them twice (for two branches, say)."""
        return self.marks == len(self.tasks)

    @property
    def may_have_some(self) -> bool:
        """Also where a task has not read to its end, as Spark does where a join has nothing on its other side."""
        return self.aside > 0 or self.marks < len(self.tasks)


@dataclass(frozen=True, slots=True)
class Rejected:
    """Rows of a batch that rules of steps reject."""

    counted: Mapping[str, Rows] = field(default_factory=dict)  # by step, as the job of the batch has counted them
    letters: DataFrame | None = None  # computes them once more, in the columns of dead_letters.RECORD

    @property
    def rows(self) -> int:
        """How many there are."""
        return sum(each.count for each in self.counted.values())


NONE_REJECTED: Final = Rejected()


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Where a pipeline's dead letters go to, and what they come from."""

    sink: Sink  # opened, for dead_letters.SCHEMA
    sources: Sequence[Source]  # all
    most: int  # of a checkpoint

    def found(
        self,
        batch: DataFrame,
        ranges: Ranges,
        refused: pa.Table,
        rejected: Rejected = NONE_REJECTED,
        counted: Mapping[str, int] | None = None,
    ) -> Found | None:
        """What the job of this batch has counted; None where nothing was put aside. Called when the job has ended.

        `refused`: the rows that sinks did not take, as dead_letters.RECORD. `rejected`: by rules of steps. `counted`:
        bad records by source, if the tasks have acknowledged their number.
        """
        aside = [source for source in self.sources if source.rejects_bad_records]
        reads = [self._read(batch, source, ranges.get(source.name, ()), counted) for source in aside]
        reads = [each for each in reads if each.may_have_some]
        return Found(self, reads, refused, ranges, rejected) if reads or refused.num_rows or rejected.rows else None

    def _read(
        self, batch: DataFrame, source: Source, ranges: Sequence[OffsetRange], counted: Mapping[str, int] | None
    ) -> Read:
        if counted is None:
            return Read.of(batch, source, ranges)
        tasks = list(shares(ranges, source.split_above, source.join_below))
        return Read(source, tasks, len(tasks), counted.get(source.name, 0))

    def count(
        self,
        batch: DataFrame,
        ranges: Ranges,
        refused: pa.Table,
        checkpoint_id: int,
        rejected: Rejected = NONE_REJECTED,
        counted: Mapping[str, int] | None = None,
    ) -> int:
        """How many dead letters the batch has. Writes none. Blocks where ranges have to be read again for it."""
        found = self.found(batch, ranges, refused, rejected, counted)
        return found.count(batch.sparkSession, checkpoint_id) if found is not None else 0


@dataclass(frozen=True, slots=True)
class Found:
    """A checkpoint that has dead letters, as far as its job could tell."""

    letters: DeadLetters
    reads: Sequence[Read]
    refused: pa.Table
    ranges: Ranges
    rejected: Rejected = NONE_REJECTED

    def rows(self, spark: SparkSession, checkpoint_id: int) -> DataFrame:
        """The dead letters: the ranges are read again, each by a task, and nothing else of them is kept.

        Rows that were refused are with the driver already, and are few: their records are read again by one task.
        """
        columns = [*map(quoted, self.letters.sink.columns)]
        sources = {source.name: source for source in self.letters.sources}
        originals = SourceRecords([(sources[name], each) for name, of in self.ranges.items() for each in of], TOKEN)
        rows = spark.createDataFrame(self.refused).coalesce(1)
        if self.rejected.letters is not None:
            rows = rows.union(self.rejected.letters).repartition(1)
        letters = numbered(rows)
        refused = letters.mapInArrow(originals, from_arrow(RECORD))
        refused = refused.withColumn("checkpoint_id", functions.lit(checkpoint_id).cast("long")).select(*columns)
        if not self.reads:
            return refused
        ranges = [(each.source, piece) for each in self.reads for task in each.tasks for piece in task]
        task = _ReadAgain(ranges, checkpoint_id, self.letters.most, TOKEN)
        rows = numbers(spark, len(ranges)).mapInArrow(task, from_arrow(SCHEMA))
        found = rows.select(*columns)
        return found.union(refused) if self.given else found

    @property
    def given(self) -> int:
        """How many rows are dead letters because a sink refused them, or a rule of a step did."""
        return int(self.refused.num_rows) + self.rejected.rows

    def count(self, spark: SparkSession, checkpoint_id: int) -> int:
        """How many there are. Ranges are read again where a task has not read to its end."""
        if all(each.is_exact for each in self.reads):
            return sum(each.aside for each in self.reads) + self.given
        return int(self.rows(spark, checkpoint_id).count())

    @property
    def share(self) -> Share:
        """What the sink gets of `rows`: all of it."""
        return Share(self.letters.sink, tuple(range(len(self.letters.sink.columns))))

    def surplus(self, checkpoint_id: int) -> ConnectorError | None:
        """Why the dead letters must not be written: there are too many, as far as the counts are exact; else None."""
        counted = sum(each.aside for each in self.reads if each.is_exact)
        if counted + self.given > self.letters.most:
            return too_many(checkpoint_id, self.letters.most)
        return None

    def mistake(self, checkpoint_id: int, written: int) -> ConnectorError | None:
        """Why so many dead letters cannot be those of the checkpoint; None if they are."""
        if written > self.letters.most:
            return too_many(checkpoint_id, self.letters.most)
        written -= self.given
        counted = sum(each.aside for each in self.reads)
        exact = all(each.is_exact for each in self.reads)
        least = 0 if counted == 0 else counted if exact else 1
        if written < least or (written > counted and not any(each.marks < len(each.tasks) for each in self.reads)):
            message = f"checkpoint {checkpoint_id}: {counted} records were put aside, and {written} were found again"
            return PrepareError(message, remedy="does something delete or compact what is read? It is tried again")
        return None


@dataclass(frozen=True, slots=True)
class _ReadAgain:
    """The function that Spark runs for each range, whose number comes as its only row."""

    ranges: Sequence[tuple[Source, OffsetRange]]
    checkpoint_id: int
    most: int
    token: str  # see failures.carried

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = 0
        with carried(self.token):
            for number in numbers_in(batches):
                source, offsets = self.ranges[number]
                for found in source.bad_records(offsets):
                    rows += found.num_rows
                    if rows > self.most:
                        raise too_many(self.checkpoint_id, self.most, _example(found))
                    yield from add_checkpoint_id(found, self.checkpoint_id).to_batches()


def _example(found: pa.RecordBatch) -> str:
    (first,) = found.slice(0, 1).to_pylist()
    where = f"topic {first['topic']}, partition {first['partition']}, offset {first['offset']}"
    return f"; one of them: {where}: {first['error']}"


def too_many(checkpoint_id: int, most: int, example: str = "") -> BadRecordError:
    """The end of the pipeline: that many bad records are no exception any more."""
    message = f"checkpoint {checkpoint_id} has more than {most} dead letters (checkpoint.max_dead_letters){example}"
    remedy = "correct the source's schema, or raise checkpoint.max_dead_letters to put them aside all the same"
    return BadRecordError(message, remedy=remedy)


def other_rows(checkpoint_id: int, step: str) -> PrepareError:
    """The end of an attempt whose dead letters are not the rows that the sinks did not get."""
    message = f"checkpoint {checkpoint_id}: step {step} gave other rows when its dead letters were computed"
    remedy = (
        "a rule with action dead-letter needs a step that gives the same rows each time: without random numbers, the "
        "current time, and data that changes; or use action skip or fail"
    )
    return PrepareError(message, remedy=remedy)


@dataclass(frozen=True, slots=True)
class SourceRecords:
    """The function that Spark runs on all letters of refused rows, in one task: they are few. As many come out."""

    ranges: Sequence[tuple[Source, OffsetRange]]  # all that the checkpoint reads
    token: str  # see failures.carried

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of dead_letters.RECORD. A source that does not answer is an error: the checkpoint is tried again."""
        given = pa.concat_tables([RECORD.empty_table(), *(_named(each) for each in batches)]).combine_chunks()
        if given.num_rows == 0:
            return
        (letters,) = given.to_batches()
        places = letters.select(["topic", "partition", "offset"]).to_pylist()
        records = {row: found for row, place in enumerate(places) if (found := self._record(place)) is not None}
        left = dict.fromkeys(range(letters.num_rows))  # as a set that keeps its order
        with carried(self.token):
            for name, split in dict.fromkeys((source.name, split) for source, split in records.values()):
                rows = [row for row, (source, of) in records.items() if (source.name, of) == (name, split)]
                source, _ = records[rows[0]]
                for found in source.records(split, sorted({places[row]["offset"] for row in rows})):
                    at = {offset: number for number, offset in enumerate(found.column("offset").to_pylist())}
                    there = [row for row in rows if places[row]["offset"] in at]
                    yield _as_it_was(_taken(letters, there), _taken(found, [at[places[r]["offset"]] for r in there]))
                    for row in there:
                        del left[row]
        kept = _taken(letters, [*left])
        errors = [
            error + "; its record is gone, the value is the row" * (row in records)
            for row, error in zip(left, kept.column("error").to_pylist(), strict=True)
        ]
        yield _with(kept, {"error": pa.array(errors, pa.string())})

    def _record(self, place: Mapping[str, Any]) -> tuple[Source, str] | None:
        """The source and split of a record that the checkpoint has read there; None where that is not certain.

        A step may have put something else into these columns, and topics of two clusters may have one name.
        """
        split, offset = f"{place['topic']}/{place['partition']}", place["offset"]
        if offset is None:
            return None
        found = [(source, each) for source, each in self.ranges if each.split == split]
        found = [(source, each) for source, each in found if each.start <= offset < each.end]
        return (found[0][0], split) if len(found) == 1 else None


def _as_it_was(letters: pa.RecordBatch, records: pa.RecordBatch) -> pa.RecordBatch:
    """Each letter with what the record has that stands beside it, and with the row in its error."""
    parts = (letters.column("error"), records.column("error"), letters.column("value"))
    told = zip(*(part.to_pylist() for part in parts), strict=True)
    errors = pa.array([append_row(error + "; " * bool(more) + more, row) for error, more, row in told], pa.string())
    return _with(letters, {name: records.column(name) for name in _ORIGINAL} | {"error": errors})


def _named(batch: pa.RecordBatch) -> pa.Table:
    """Spark may have other names (columns.numbered)."""
    return pa.Table.from_batches([batch]).rename_columns(RECORD.names).cast(RECORD)


def _taken(rows: pa.RecordBatch, numbers: Sequence[int]) -> pa.RecordBatch:
    return rows.take(pa.array(numbers, pa.int64()))


def _with(letters: pa.RecordBatch, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    return pa.record_batch([columns.get(name, letters.column(name)) for name in RECORD.names], schema=RECORD)
