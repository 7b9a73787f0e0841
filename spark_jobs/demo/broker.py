"""A Kafka broker in its own process: librdkafka's mock cluster, which keeps everything in memory.

Run as `python -m spark_jobs.demo.broker`. It writes its address to standard output and ends with standard input, so it
also ends if its parent is killed.

The broker creates a topic at its first use, with four partitions, and keeps about 5 MB of each. It serves demos only.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer

_START_S = 15.0


def main() -> None:
    """Serve until standard input ends."""
    cluster = Producer({"test.mock.num.brokers": 1})
    brokers = cluster.list_topics(timeout=_START_S).brokers.values()
    print(",".join(f"{each.host}:{each.port}" for each in brokers), flush=True)
    sys.stdin.read()


@contextmanager
def running(log: Path) -> Iterator[str]:
    """Run a broker for this block, and return its address. An empty address: the broker did not start, see `log`."""
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "spark_jobs.demo.broker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,  # Ctrl-C is for the demo, which ends its processes in order
            text=True,
        )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


if __name__ == "__main__":
    main()
