"""Writers of a repair: what a task has lost is written and prepared again, all else is only counted (R7)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from connectors.api.contracts import Sink, Writer
from eos.errors import BadRowError
from spark_jobs.batch.writing import open_writer
from twophase.ids import TransactionId
from twophase.values import CheckpointRecord, Committable

Lost = Mapping[str, tuple[Committable, ...]]
"""By sink."""


def kept(record: CheckpointRecord, lost: Lost) -> Iterator[tuple[str, Committable]]:
    """Sink and transaction of each that is not lost."""
    for sink, group in record.committables.items():
        gone = {each.transaction for each in lost.get(sink, ())}
        yield from ((sink, each) for each in group if each.transaction not in gone)


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """Gives a WriteTask its writers. Picklable."""

    lost: Lost
    refused: frozenset[tuple[str, int]] = frozenset()
    """Sink and task of which nothing is lost, and no row was written: rows whose dead letters are lost."""

    def __call__(self, sink: Sink, transaction: TransactionId) -> Writer:
        """A writer in the place of the transaction that this task has lost at the sink, or one that only counts."""
        for each in self.lost.get(sink.name, ()):
            if each.transaction.task == transaction.task:
                return open_writer(sink, transaction, each)
        return _Refuser(transaction) if (sink.name, transaction.task) in self.refused else _Counter(transaction)


@dataclass(slots=True)
class _Counter:
    """See Writer. Of a task that has lost nothing here. It refuses no row, so that it counts all that it is given."""

    transaction: TransactionId
    rows: int = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows

    def write_atomic(self, batch: pa.RecordBatch) -> None:
        self.write(batch)

    def prepare(self) -> Committable:
        return Committable(self.transaction, self.rows)

    def abort(self) -> None:
        pass


@dataclass(slots=True)
class _Refuser:
    """See Writer. Refuses each row, as the sink did. The sink is not asked: it would prepare what it has."""

    transaction: TransactionId

    def write(self, batch: pa.RecordBatch) -> None:
        del batch
        message = "the sink has refused all rows that this task gave it; the repair of the checkpoint does not know why"
        raise BadRowError(message)

    def write_atomic(self, batch: pa.RecordBatch) -> None:
        self.write(batch)

    def prepare(self) -> Committable:
        return Committable(self.transaction, rows=0)

    def abort(self) -> None:
        pass
