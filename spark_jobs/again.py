"""What a task of a repair does: what it has lost it writes and prepares again, everything else it only counts (R7)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from connectors.contracts import Sink, Writer
from spark_jobs.acknowledging import acknowledgement
from spark_jobs.failures import carried
from spark_jobs.stopwatch import Stopwatch
from spark_jobs.writing import Digest, Share, write_and_prepare
from twophase.ids import Scope, TransactionId
from twophase.values import Committable

Lost = Mapping[tuple[str, int], Committable]
"""By sink_key and task."""


@dataclass(frozen=True, slots=True)
class AgainTask:
    """The function that Spark runs on each partition."""

    scope: Scope
    shares: Sequence[Share]
    hashes: int  # see WriteTask
    lost: Lost
    token: str  # see failures.carried

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write what is lost of this task; of everything else say how many rows there are."""
        digest = Digest([0] * self.hashes)
        with carried(self.token):
            watch, given = Stopwatch.of(len(self.shares)), map(digest.take, batches)
            done = write_and_prepare(self.scope, self.shares, given, watch, writer_of=partial(_writer, self.lost))
        yield acknowledgement(digest.on(self.shares, done), watch)


def _writer(lost: Lost, sink: Sink, transaction: TransactionId) -> Writer:
    instead_of = lost.get((transaction.sink, transaction.task))
    return _Counter(transaction) if instead_of is None else sink.writer(transaction, instead_of)


@dataclass(slots=True)
class _Counter:
    """See Writer. Of a task that has lost nothing here."""

    transaction: TransactionId
    rows: int = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows

    def write_whole(self, batch: pa.RecordBatch) -> None:
        self.write(batch)

    def prepare(self) -> Committable:
        return Committable(self.transaction, self.rows)

    def abort(self) -> None:
        pass
