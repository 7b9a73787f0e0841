"""A broker that answers nothing, with its connections open: what it would say is not known, and is not made up."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import pytest

from connectors.kafka.pool import shared_admin
from connectors.kafka.positions import earliest, latest
from connectors.kafka.settings import Connection
from connectors.kafka.sink.markers import Markers, partition_of_marker
from connectors.kafka.sink.place import Place
from connectors.kafka.sink.producer import TransactionalProducer
from connectors.kafka.sink.target import ensure_markers
from eos.errors import SourceError
from integration_tests.conftest import TopicFactory
from integration_tests.services import Services

_KEY = "eos.silence.0"

T = TypeVar("T")


@pytest.mark.alone
def test_what_a_silent_broker_has_is_not_known(killable: Services, topic: TopicFactory) -> None:
    """librdkafka tells an end of -1001, and no error, where the leader has not answered in time."""
    markers, partition = topic(partitions=8, cleanup_policy="compact"), partition_of_marker(_KEY)
    place = Place(Connection(killable.kafka_bootstrap, "eos-silence"), markers=markers)
    with shared_admin(place.connection) as admin:
        ensure_markers(admin, markers)
    producer = TransactionalProducer(place, _KEY, 1_000_000)
    producer.begin()
    producer.commit(_KEY, partition, {"applied": 7})
    impatient = replace(place.connection, isolation_level="read_uncommitted", connect_timeout_s=2.0)
    split = f"{markers}/{partition}"
    assert _once_answered(lambda: _end(impatient, split)) > 0
    with shared_admin(impatient) as admin:
        killable.pause_kafka()
        try:
            for ask in (earliest, latest):
                with pytest.raises(SourceError, match=f"offsets of {split}: no answer"):
                    pytest.fail(f"a silent broker told {ask(admin, [split])}")
            with pytest.raises(SourceError):
                Markers(impatient, markers).markers([_KEY])
        finally:
            killable.resume_kafka()
    assert _once_answered(lambda: Markers(impatient, markers).markers([_KEY]))[_KEY].applied == 7


def _end(connection: Connection, split: str) -> int:
    with shared_admin(connection) as admin:
        return latest(admin, [split])[split]


def _once_answered(ask: Callable[[], T]) -> T:
    """Ask until a connection is made, which on a busy machine takes longer than an impatient client waits."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return ask()
        except SourceError:
            assert time.monotonic() < deadline
