"""A broker that answers a commit and never ends its transaction: Kafka 4.3.0 can (docs/reference/sinks.md).

The end is cut off the partition's file, since the moment in which a kill does it is a few milliseconds long. The real
driver, head and sink, without Spark.
"""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from connectors.kafka.settings import Connection
from connectors.kafka.sink import sink as kafka_sink
from connectors.kafka.sink.markers import partition_of_marker
from connectors.kafka.sink.place import Names
from eos.errors import SinkUnavailableError
from integration_tests.services.copied import CopiedKafka
from integration_tests.services.readiness import await_ended_transactions, open_transactions
from integration_tests.test_kafka_sink_set_back import KafkaWorld
from tests.world import INCARNATION, PIPELINE
from twophase.ids import sink_key

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns, pytest.mark.timeout(300)]

_PATIENCE_S: Final = 3.0
_CONTROL: Final = 0x20  # of a batch's attributes (KIP-98)


@pytest.fixture
def world(tmp_path: Path, copied_kafka: CopiedKafka, monkeypatch: pytest.MonkeyPatch) -> KafkaWorld:
    """A pipeline into one partition, that waits for a moment only. It has not begun."""
    monkeypatch.setattr(kafka_sink, "Connection", lambda **given: Connection(**given, read_timeout_s=_PATIENCE_S))
    return KafkaWorld(tmp_path / "machine", copied_kafka)


def test_a_driver_that_lives_on_ends_it(world: KafkaWorld) -> None:
    """By the next transaction of the same producer."""
    driver = world.start()
    world.checkpoint(driver, 0)
    world.checkpoint(driver, 1, 2)
    _forget(world, _written(world), _marked(world))
    assert world.rows() == Counter([0])
    world.checkpoint(driver, 3)
    assert world.rows() == Counter([0, 1, 2, 3])


def test_a_start_waits_for_it_and_writes_nothing(world: KafkaWorld) -> None:
    driver = world.start()
    world.checkpoint(driver, 0)
    world.checkpoint(driver, 1, 2)
    _forget(world, _written(world), _marked(world))
    at = f"{_marked(world)}: a transaction is open there from offset "
    with pytest.raises(SinkUnavailableError, match=at) as failure:
        world.start()
    assert "kafka-transactions" in failure.value.remedy
    assert world.rows() == Counter([0])


def test_one_that_is_missing_in_a_target_alone_is_ended_by_the_next(world: KafkaWorld) -> None:
    """The markers tell nothing of it: another broker has kept them."""
    driver = world.start()
    world.checkpoint(driver, 0)
    world.checkpoint(driver, 1, 2)
    _forget(world, _written(world))
    assert world.rows() == Counter([0])
    world.checkpoint(world.start(), 3)
    assert world.rows() == Counter([0, 1, 2, 3])


def _written(world: KafkaWorld) -> str:
    return f"{world.topic}/0"


def _marked(world: KafkaWorld) -> str:
    key = Names(PIPELINE, sink_key("warehouse")).marker(INCARNATION, 0)
    return f"{world.markers}/{partition_of_marker(key)}"


def _forget(world: KafkaWorld, *splits: str) -> None:
    """Have the broker stand where it has forgotten the end of the newest transaction in these partitions.

    Until its coordinator has noted that the end is written, it writes it once more when it starts.
    """
    await_ended_transactions(world.bootstrap, splits)
    for _ in range(5):
        world.server.kill()
        for split in splits:
            _cut_end(world.server.data / "-".join(split.rsplit("/", 1)))
        world.server.up()
        if {*splits} <= {*open_transactions(world.bootstrap)}:
            return
    raise AssertionError("the broker has written the end again, each time")


def _cut_end(partition: Path) -> None:
    """Cut the last batch off a partition's only segment; it must be the end of a transaction."""
    (file,) = partition.glob("*.log")
    raw, at, last = file.read_bytes(), 0, 0
    while at < len(raw):
        last = at
        at += 12 + struct.unpack(">i", raw[at + 8 : at + 12])[0]
    assert struct.unpack(">h", raw[last + 21 : last + 23])[0] & _CONTROL, f"{partition.name} does not end so"
    with file.open("r+b") as opened:
        opened.truncate(last)
