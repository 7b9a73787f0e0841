"""Connections to brokers that die without a word: waited for once, not once for each client that has one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from connectors.kafka.pool import borrowed_consumer, shared_admin
from connectors.kafka.positions import latest
from connectors.kafka.ranges import messages
from connectors.kafka.settings import Connection
from connectors.kafka.sink.markers import Markers, partition_of_marker
from connectors.kafka.sink.place import Place
from connectors.kafka.sink.producer import TransactionalProducer
from connectors.kafka.sink.target import ensure_markers
from integration_tests.chaos.brokers import Brokers
from twophase.errors import SourceError
from twophase.values import OffsetRange

_QUICK_S = 5.0
_KEY = "eos.half-open.0"


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with Brokers(tmp_path_factory.mktemp("kafka")) as started:
        yield started


def _kill_connections(brokers: Brokers) -> None:
    """Those of now carry nothing more, and neither side hears of it; new ones are as good as ever."""
    for link in brokers.links:
        link.stall()
        link.restore()


def _asked_and_read(connection: Connection, split: str) -> int:
    """How many records a client for questions and a consumer find."""
    with shared_admin(connection) as admin:
        end = latest(admin, [split])[split]
    with borrowed_consumer(connection) as client:
        return sum(len(chunk) for chunk in messages(client, [OffsetRange(split, 0, end)]))


@pytest.mark.timeout(180)
def test_one_connection_that_is_dead_tells_of_all(brokers: Brokers) -> None:
    marked = Place(Connection(brokers.linked, "eos-half-open", connect_timeout_s=4.0), markers="marked")
    with shared_admin(marked.connection) as admin:
        ensure_markers(admin, marked.markers)
    producer = TransactionalProducer(marked, _KEY, 1_000_000)
    producer.begin()
    producer.commit(_KEY, partition_of_marker(_KEY), {"applied": 7})
    split = f"marked/{partition_of_marker(_KEY)}"
    at_once = replace(marked.connection, isolation_level="read_uncommitted")
    several = [replace(at_once, group_id=f"eos-half-open-{number}") for number in range(3)]
    for connection in several:
        assert _asked_and_read(connection, split) == 1
    _kill_connections(brokers)
    with pytest.raises(SourceError, match="no answer"):
        _asked_and_read(several[0], split)
    for connection in several:
        began_s = time.monotonic()
        assert _asked_and_read(connection, split) == 1
        assert time.monotonic() - began_s < _QUICK_S


@pytest.mark.timeout(180)
def test_a_transaction_goes_on_over_new_connections(brokers: Brokers) -> None:
    place = Place(Connection(brokers.linked, "eos-half-open"), markers="gone-on", transaction_timeout_s=20.0)
    with shared_admin(place.connection) as admin:
        ensure_markers(admin, place.markers)
    producer = TransactionalProducer(place, _KEY, 1_000_000)
    for applied in range(2):  # the first one makes the connections
        producer.begin()
        if applied:
            _kill_connections(brokers)
        producer.commit(_KEY, partition_of_marker(_KEY), {"applied": applied})
    found = Markers(replace(place.connection, group_id="eos-half-open-after"), place.markers).markers([_KEY])
    assert found[_KEY].applied == 1
