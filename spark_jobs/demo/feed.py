"""The producer of the demo: records at a constant rate, while the job runs."""

from __future__ import annotations

import threading

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from spark_jobs.demo import reference

_PULSE_S = 0.05
_FLUSH_S = 60.0


class Feed(threading.Thread):
    """A thread that produces `count` records. `produced` lists the records so far.

    `delivered` counts the records that the broker has.

    An idempotent producer writes the records of one key to one partition, in order and once: the demo measures the
    pipeline, not the producer.
    """

    def __init__(self, bootstrap: str, topic: str, count: int, records_per_s: float) -> None:
        super().__init__(name="feed", daemon=True)
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        )
        self._topic = topic
        self._records = list(reference.records(count))
        self._per_pulse = max(1, round(records_per_s * _PULSE_S))
        self._stopping = threading.Event()
        self.produced: list[tuple[str, str]] = []
        self.delivered = 0
        self.failure: str | None = None

    @property
    def done(self) -> bool:
        """Whether the broker has all records."""
        return self.delivered == len(self._records)

    def run(self) -> None:
        """Produce the records, one batch after another."""
        try:
            for start in range(0, len(self._records), self._per_pulse):
                if self.failure or self._stopping.wait(_PULSE_S if start else 0):
                    return
                self._send(self._records[start : start + self._per_pulse])
            if self._producer.flush(_FLUSH_S):
                self.failure = self.failure or f"the broker did not take every record within {_FLUSH_S:g} s"
        except (KafkaException, BufferError) as error:
            self.failure = str(error)

    def stop(self) -> None:
        """Stop producing. Return when the thread has ended."""
        self._stopping.set()
        self.join()

    def _send(self, records: list[tuple[str, str]]) -> None:
        for word, value in records:
            self._producer.produce(self._topic, value.encode(), word.encode(), on_delivery=self._answer)
            self.produced.append((word, value))
        self._producer.poll(0)

    def _answer(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self.delivered += 1
        else:
            self.failure = error.str()
