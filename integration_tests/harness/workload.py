"""Records with ids that never repeat, and the rows that must come of them."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable

from confluent_kafka import Producer

Row = tuple[int, str | None, str]
"""id, word, payload: a record, and the row of it."""

_WORDS = ("alpha", "beta", "gamma", "delta", "ünïcode", "quo'te", 'double"quote', "back\\slash", "tab\tbed", "")
_FLUSH_S = 60


class Workload:
    """What was produced to one topic so far. `expected` is the multiset of rows that a sink must hold in the end."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        self.topic = topic
        self._partitions = partitions
        self._next_id = 0
        self.expected: Counter[Row] = Counter()
        self.encode: Callable[[Row], bytes] = _json
        self.key_of: Callable[[Row], bytes | None] = _no_key

    def produce(self, count: int) -> None:
        """Produce so many records more, spread evenly over the partitions. Returns when the broker has them all."""
        for number in range(self._next_id, self._next_id + count):
            self._add((number, _WORDS[number % len(_WORDS)], f"payload {number * 7919 % 100_003:>6} of {number}"))
        self.flush()

    def direct(self, topic: str, partitions: int) -> None:
        """Produce there from now on: to another topic, or to one that has grown. Returns when its producer knows it."""
        self.topic, self._partitions = topic, partitions
        deadline = time.monotonic() + _FLUSH_S
        while len(self._producer.list_topics(topic, _FLUSH_S).topics[topic].partitions) < partitions:
            assert time.monotonic() < deadline, f"{topic} does not come to {partitions} partitions"

    def repeat(self, count: int) -> None:
        """Produce the first so many records again: of a pipeline that remembers ids, no row may come of them."""
        for row in sorted(self.expected, key=lambda each: each[0])[:count]:
            self._send(self.encode(row), row[0] % self._partitions, key=self.key_of(row))
        self.flush()

    def produce_without_word(self) -> None:
        """Produce one record whose word is null."""
        self._add((self._next_id, None, "no word"))
        self.flush()

    def produce_words(self, *words: str) -> None:
        """Produce a record for each word, in turn to the partitions."""
        for word in words:
            self._add((self._next_id, word, "chosen"))
        self.flush()

    def produce_bad(self, value: str | bytes, partition: int = 0, key: bytes | None = None) -> int:
        """Produce one record that no row can come of; returns its offset."""
        offsets: list[int] = []
        self._send(value.encode() if isinstance(value, str) else value, partition, offsets, key)
        self.flush()
        return offsets[0]

    def flush(self) -> None:
        """Wait until the broker has everything."""
        left = self._producer.flush(_FLUSH_S)
        assert left == 0, f"{left} records were not taken by the broker within {_FLUSH_S} s"

    def _add(self, row: Row) -> None:
        self._send(self.encode(row), self._next_id % self._partitions, key=self.key_of(row))
        self.expected[row] += 1
        self._next_id += 1

    def _send(self, value: bytes, partition: int, offsets: list[int] | None = None, key: bytes | None = None) -> None:
        def delivered(error: object, message: object) -> None:
            assert error is None, f"a record was not delivered: {error}"
            if offsets is not None:
                offsets.append(message.offset())  # type: ignore[attr-defined]

        self._producer.produce(self.topic, value, key, partition=partition, on_delivery=delivered)
        self._producer.poll(0)


def _no_key(row: Row) -> None:
    return None


def _json(row: Row) -> bytes:
    return json.dumps(dict(zip(("id", "word", "payload"), row, strict=True))).encode()
