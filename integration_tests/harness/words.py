"""Records for the example job, and waiting until its table has a row for each."""

from __future__ import annotations

import time
from itertools import islice

from confluent_kafka import Producer

from integration_tests.harness.pipeline_process import PipelineProcess
from spark_jobs.demo import reference
from spark_jobs.demo.place import Place

ROUND = 500
"""Records produced at a time, which one or two checkpoints take: about 80 of them contain an x."""

_MOST_ROUNDS = 120
_ROUND_S = 180.0


class Words:
    """What was produced so far, and more on demand."""

    def __init__(self, place: Place) -> None:
        self._producer = Producer({"bootstrap.servers": place.bootstrap, "enable.idempotence": True})
        self._topic = place.topic
        self._records = reference.records(ROUND * _MOST_ROUNDS)
        self.produced: list[tuple[str, str]] = []

    def produce(self) -> None:
        """Produce a round more. Returns when the broker has it."""
        for word, value in islice(self._records, ROUND):
            self._producer.produce(self._topic, value.encode(), word.encode())
            self.produced.append((word, value))
        assert self._producer.flush(60) == 0


def await_rows(driver: PipelineProcess, place: Place, words: Words) -> None:
    """Until everything that was produced is in the table."""
    deadline = time.monotonic() + _ROUND_S
    while (count := place.table.count()) < len(words.produced):
        assert driver.exit_code is None, driver.output()
        assert time.monotonic() < deadline, f"{count} of {len(words.produced)} rows\n{driver.output()}"
        time.sleep(0.1)
