"""Makes the topic `orders` and produces orders into it, a hundred a second: something to look at."""

from __future__ import annotations

import itertools
import json
import os
import random
import time
from datetime import UTC, datetime

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

TOPIC = "orders"
PARTITIONS = 4
PER_S = 100


def make_topic(servers: str) -> None:
    """Wait for the broker; a topic that is there stays as it is."""
    admin = AdminClient({"bootstrap.servers": servers})
    while True:
        try:
            admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result()
            return
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return
            print(f"not yet: {error}", flush=True)
            time.sleep(1)


def main() -> None:
    """Run until stopped."""
    servers = os.environ["KAFKA"]
    make_topic(servers)
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    started = time.time_ns()  # ids of one run are no ids of another
    for number in itertools.count(started):
        now = datetime.now(UTC).isoformat()
        order = {"id": number, "user": f"user-{number % 50}", "amount": random.expovariate(1 / 30), "ts": now}
        producer.produce(TOPIC, json.dumps(order).encode(), order["user"].encode())
        producer.poll(0)
        time.sleep(1 / PER_S)


if __name__ == "__main__":
    main()
