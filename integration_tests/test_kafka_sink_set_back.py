"""A Kafka sink whose broker goes back in time, under a live driver (H26).

A real broker, whose folder is replaced by an earlier copy; the real driver, head and sink, without Spark.
"""

from __future__ import annotations

import secrets
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer

from connectors.kafka.sink.layout import Layout
from connectors.kafka.sink.markers import PARTITIONS
from connectors.kafka.sink.sink import KafkaSink
from connectors.log.place import LogPlace
from eos.errors import IdentityError
from integration_tests import topics
from integration_tests.harness.drain import drain
from integration_tests.services.copied import CopiedKafka
from tests.world import SCHEMA, World

pytestmark = [pytest.mark.any_server, pytest.mark.timeout(300)]

_TIMEOUT_S = 10.0  # of a transaction: so long a producer tries to send what the broker refuses as out of order


class KafkaWorld(World):
    """A pipeline into a topic."""

    def __init__(self, machine: Path, server: CopiedKafka) -> None:
        name = secrets.token_hex(6)
        self.server, self.bootstrap = server, server.bootstrap
        self.topic, self.markers = f"out-{name}", f"markers-{name}"
        topics.create(server.bootstrap, self.topic, 1, {})
        topics.create(server.bootstrap, self.markers, PARTITIONS, {"cleanup.policy": "compact"})
        log = LogPlace(machine / "log", slots=1)
        made = KafkaSink(
            "warehouse",
            server.bootstrap,
            Layout(self.topic),
            log,
            markers=self.markers,
            transaction_timeout_s=_TIMEOUT_S,
        )
        super().__init__(machine, made.open(SCHEMA), self._messages, has_log=True)

    def _messages(self) -> list[int]:
        return [each.json["n"] for each in drain(self.bootstrap, self.topic)]

    def fill_markers(self, count: int) -> None:
        """What markers of other pipelines do: the topic grows past where it was."""
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for partition in range(PARTITIONS):
            for _ in range(count):
                producer.produce(self.markers, b"{}", b"another pipeline's", partition)
        assert producer.flush(30) == 0


@pytest.fixture
def world(tmp_path: Path, copied_kafka: CopiedKafka) -> KafkaWorld:
    """A pipeline that has not begun."""
    return KafkaWorld(tmp_path / "machine", copied_kafka)


@pytest.mark.in_turns
@pytest.mark.parametrize("others", [0, 40], ids=["alone", "beside other pipelines"])
def test_h26_a_broker_goes_back_under_a_live_driver(world: KafkaWorld, others: int) -> None:
    """The driver's producer is fenced or out of order; what it knew of the markers is not believed any more."""
    driver = world.start()
    world.checkpoint(driver, 0)
    world.server.copy()
    world.checkpoint(driver, 1, 2, 3)
    world.server.put_back()
    world.fill_markers(others)
    with pytest.raises(IdentityError, match=r"stands at checkpoint 0 and is asked to apply checkpoint 2"):
        world.checkpoint(driver, 4)
    assert world.rows() == Counter([0])
    with pytest.raises(IdentityError, match=r"it counts checkpoints up to 0, head calls 1 committed; it lacks"):
        world.start()
    assert world.rows() == Counter([0])
