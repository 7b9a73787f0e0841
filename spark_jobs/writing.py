"""What a task of a checkpoint does: write its rows, prepare, and acknowledge through Spark's own results (R5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from connectors.contracts import Sink
from spark_jobs.failures import carried
from twophase.codec import encode_committable
from twophase.ids import Scope, TransactionId, sink_key
from twophase.values import Committable

ACKNOWLEDGEMENT = "committable binary"
"""Schema of what a task returns: one row, or none where it had nothing to do."""

HASH_COLUMN = "_eos_hash"
"""Last column of a stateful pipeline's rows: a hash of the others, made by Spark, summed here and not written (R4)."""


@dataclass(frozen=True, slots=True)
class WriteTask:
    """The function that Spark runs on each partition. Picklable: an opened sink is configuration only."""

    scope: Scope
    sink: Sink
    hashed: bool
    token: str  # see failures.carried

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One attempt of one task. An error undoes what was written, as far as the service still answers."""
        with carried(self.token):
            committable = self._write(batches)
        yield pa.RecordBatch.from_pydict({"committable": pa.array([encode_committable(committable)], pa.binary())})

    def _write(self, batches: Iterator[pa.RecordBatch]) -> Committable:
        digest = Digest()
        rows = map(digest.take, batches) if self.hashed else batches
        return replace(write_and_prepare(self.scope, self.sink, rows), digest=digest.value)


def write_and_prepare(scope: Scope, sink: Sink, batches: Iterable[pa.RecordBatch]) -> Committable:
    """In a task: one attempt's rows, whose columns are those of the sink in its order, under any names."""
    context = TaskContext.get()
    assert context is not None
    transaction = TransactionId(scope, sink_key(sink.name), context.partitionId(), context.taskAttemptId())
    writer = sink.writer(transaction)
    try:
        for batch in batches:
            writer.write(batch.rename_columns(list(sink.columns)))  # see columns.numbered
        return writer.prepare()
    except BaseException:
        writer.abort()
        raise


@dataclass(slots=True)
class Digest:
    """Order-free sum of row hashes, modulo 2**64."""

    value: int = 0
    rows: int = 0

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Add the last column's hashes; returns the batch without it."""
        last = batch.num_columns - 1
        hashes = batch.column(last).to_numpy(zero_copy_only=False).view(np.uint64)
        self.value = (self.value + int(hashes.sum(dtype=np.uint64))) % 2**64
        self.rows += batch.num_rows
        return batch.select(range(last))


def count_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The task of a replayed batch: state is brought along, rows are counted and hashed, nothing is written (R4)."""
    digest = Digest()
    for batch in batches:
        digest.take(batch)
    yield pa.RecordBatch.from_pydict({"rows": [digest.rows], "digest": [str(digest.value)]})
