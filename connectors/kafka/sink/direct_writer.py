"""The task's half of a Kafka sink that runs at-least-once: messages go to the topic while rows come."""

from __future__ import annotations

import pyarrow as pa

from connectors.kafka.sink.messages import Messages, parts, sender
from connectors.kafka.sink.place import Place
from connectors.kafka.sink.producer import PlainProducer
from twophase import faults
from twophase.ids import TransactionId
from twophase.values import Committable


class KafkaDirectWriter:
    """See DirectWriter. What is sent is visible at once, also of a task that fails later on."""

    def __init__(self, sink: str, place: Place, form: Messages, transaction: TransactionId) -> None:
        self._sink = sink
        self._place = place
        self._form = form
        self._transaction = transaction
        self._producer: PlainProducer | None = None
        self._rows = 0
        self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """See DirectWriter. Raises BadRowError for a message that Kafka would refuse, before it is sent."""
        if not batch.num_rows:
            return
        messages = self._form.convert(batch, self._rows + 1)
        if self._producer is None:
            self._producer = PlainProducer(self._place, self._sink, self._form.topics.batch_bytes)
        for part in parts(messages):
            self._producer.produce(sender(part), part.num_rows, part.nbytes)
        if not self._rows:
            faults.point("writing", self._transaction.scope.checkpoint_id)
        self._rows += batch.num_rows
        self._bytes += messages.nbytes

    def write_whole(self, batch: pa.RecordBatch) -> None:
        """See DirectWriter. `write` refuses a message before it sends any message of the batch."""
        self.write(batch)

    def commit(self) -> Committable:
        if self._producer is not None:
            self._producer.flush()
            self.abort()
        faults.point("written", self._transaction.scope.checkpoint_id)
        return Committable(self._transaction, rows=self._rows, bytes=self._bytes)

    def abort(self) -> None:
        """See DirectWriter. What is delivered stays."""
        if self._producer is not None:
            self._producer.close()
            self._producer = None
