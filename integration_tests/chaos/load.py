"""The load of a round: records that never repeat, in order by key, at an even rate, from begin to end."""

from __future__ import annotations

import json
import threading
import time
from array import array
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Producer

KEYS: Final = 12
"""Of each partition: a record's key never changes its partition, so that its order is defined."""

BROKEN: Final = b"broken "
"""Begins a record that does not decode; its id follows."""

NUMBER: Final = "number"
"""Header of a record without a value: its number."""

BROKEN_EVERY: Final = 97
"""Of so many records one does not decode, where some are to be such. A prime: each key's turn comes."""

_PULSE_S: Final = 0.05
_FLUSH_S: Final = 180.0
_METADATA_S: Final = 60.0


class Load(threading.Thread):
    """Produces until it is stopped: `id`, from 0 without a gap; `k`, the key; `n`, the number within it.

    `breaks`: some records have an id alone, and do not decode.
    """

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, records_per_s: float, *, breaks: bool = False
    ) -> None:
        super().__init__(name="load", daemon=True)
        # Idempotent, without giving up: what is measured is the pipeline, not the producer.
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 20,
                "request.timeout.ms": 5000,
                "delivery.timeout.ms": 600_000,
                "queue.buffering.max.messages": 1_000_000,
                "log_level": 0,
            }
        )
        self._topic = topic
        self._per_pulse = max(1, round(records_per_s * _PULSE_S))
        self._breaks = breaks
        self._ending = threading.Event()
        self._partition_of = [partition for _ in range(KEYS) for partition in range(partitions)]  # by key
        self._numbers = [0] * len(self._partition_of)
        self.produced = 0
        self.acknowledged = array("q")  # ids
        self.errors: list[str] = []

    def grow(self, partition: int) -> None:
        """Give a new partition keys of its own. Called when it has a leader."""
        self._numbers += [0] * KEYS
        self._partition_of += [partition] * KEYS

    def run(self) -> None:
        """See threading.Thread."""
        due_s = time.monotonic()
        while not self._ending.is_set():
            for _ in range(self._per_pulse):
                self._send()
            self._producer.poll(0)
            due_s = max(
                due_s + _PULSE_S, time.monotonic() - 1.0
            )  # what a busy machine missed is made up for, a second's
            self._ending.wait(max(due_s - time.monotonic(), 0.0))

    def end(self) -> None:
        """Produce no more; returns when the brokers have everything."""
        self._ending.set()
        self.join()
        if left := self._producer.flush(_FLUSH_S):
            self.errors.append(f"{left} records were not taken within {_FLUSH_S:g} s")

    def _send(self) -> None:
        key = self.produced % len(self._partition_of)
        if self._breaks and self.produced % BROKEN_EVERY == 0:
            self._send_broken(self._partition_of[key])
            return
        value = json.dumps({"id": self.produced, "k": key, "n": self._numbers[key]}).encode()
        self._numbers[key] += 1
        self._send_record(self.produced, self._partition_of[key], value)

    def _send_broken(self, partition: int) -> None:
        self._send_record(self.produced, partition, BROKEN + str(self.produced).encode())

    def _send_record(self, number: int, partition: int, value: bytes | None, key: bytes | None = None) -> None:
        """Produce one record. `number`: identifies the record among all that are acknowledged."""
        while not self._took(number, partition, value, key):
            self._producer.list_topics(self._topic, _METADATA_S)
        self.produced += 1

    def _took(self, number: int, partition: int, value: bytes | None, key: bytes | None) -> bool:
        """False: the producer does not yet know this partition, which is new."""

        def delivered(error: KafkaError | None, _: object) -> None:
            if error is None:
                self.acknowledged.append(number)
            else:
                self.errors.append(error.str())

        headers: dict[str, str | bytes | None] = {} if value is not None else {NUMBER: str(number).encode()}
        try:
            self._producer.produce(self._topic, value, key, partition, on_delivery=delivered, headers=headers)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._UNKNOWN_PARTITION:
                raise
            return False
        return True
