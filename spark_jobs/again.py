"""Writers of a repair: what a task has lost is written and prepared again, all else is only counted (R7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from connectors.contracts import Sink, Writer
from twophase.ids import TransactionId
from twophase.values import Committable

Lost = Mapping[str, tuple[Committable, ...]]
"""By sink."""


@dataclass(frozen=True, slots=True)
class WritersAgain:
    """Gives a WriteTask its writers. Picklable."""

    lost: Lost

    def __call__(self, sink: Sink, transaction: TransactionId) -> Writer:
        """A writer in the place of the transaction that this task has lost at the sink, or one that only counts."""
        for each in self.lost.get(sink.name, ()):
            if each.transaction.task == transaction.task:
                return sink.writer(transaction, each)
        return _Counter(transaction)


@dataclass(slots=True)
class _Counter:
    """See Writer. Of a task that has lost nothing here. It refuses no row, so that it counts all that it is given."""

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
