"""The ends of now, for the lag: by their own client, bounded in time. Real brokers: integration_tests/test_lag.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from connectors.formats.plain import RawFormat
from connectors.kafka import pool, source
from connectors.kafka.client import Client
from connectors.kafka.pool import monitor_admin, shared_admin
from connectors.kafka.settings import Connection
from connectors.kafka.source import KafkaSource
from connectors.kafka.topics import Topic
from eos.errors import OffsetOutOfRangeError, SourceError
from twophase.values import StartingPoint

TOPICS = {name: Topic(name, f"id of {name}", (0, 1), 1) for name in ("old", "new")}
STABLE, THERE, FIRST = 8, 10, 2


@dataclass(eq=False)
class _Opened:
    """Each client that was opened."""

    clients: list[Client]


@pytest.fixture(autouse=True)
def opened(monkeypatch: pytest.MonkeyPatch) -> _Opened:
    """A cluster of two topics with two partitions each; every first partition has an open transaction."""
    found = _Opened([])

    def open_admin(connection: Connection) -> Client:
        found.clients.append(Client(connection, object()))
        return found.clients[-1]

    def ends(_client: Client, splits: Sequence[str]) -> tuple[dict[str, int], dict[str, int]]:
        return dict.fromkeys(splits, STABLE), {split: THERE for split in splits if split.endswith("/0")}

    def describe(client: Client, names: Sequence[str]) -> list[Topic]:
        return [TOPICS[name] for name in names]

    monkeypatch.setattr(pool, "_pool", pool._Pool())
    monkeypatch.setattr(pool, "open_admin", open_admin)
    monkeypatch.setattr(source, "describe", describe)
    monkeypatch.setattr(source, "latest_and_withheld", ends)
    monkeypatch.setattr(source, "earliest", lambda _client, splits: dict.fromkeys(splits, FIRST))
    monkeypatch.setattr(source, "matching_topics", lambda _client, _pattern: list(TOPICS))
    return found


def kafka(**changes: Any) -> KafkaSource:
    return KafkaSource("orders", "b:9092", ("old",), RawFormat(), **changes)


def known(*splits: str) -> StartingPoint:
    return StartingPoint(dict.fromkeys(splits, 5), {"old": "id of old"})


def test_they_are_the_last_stable_offsets_and_what_is_behind_them() -> None:
    found = kafka().current_ends(known("old/0", "old/1"))
    assert found.ends == {"old/0": STABLE, "old/1": STABLE}
    assert (found.withheld, found.discovered.positions) == ({"old/0": THERE}, {})


def test_a_new_partition_begins_at_its_first_record() -> None:
    assert kafka(starting_offsets="latest").current_ends(known("old/0")).discovered.positions == {"old/1": FIRST}


@pytest.mark.parametrize(
    ("changes", "positions"),
    [
        ({"topics": ("old", "new")}, {"new/0": FIRST, "new/1": FIRST}),
        ({"topics": ("old", "new"), "starting_offsets": "latest"}, {}),
        ({"topics": (), "topics_pattern": ".*", "starting_offsets": "latest"}, {"new/0": FIRST, "new/1": FIRST}),
    ],
)
def test_where_a_new_topic_begins_is_known_or_left_open(changes: dict[str, Any], positions: dict[str, int]) -> None:
    """Only a start resolves `starting_offsets`: until then its lag is unknown, and not the whole topic."""
    settings = {"topics": ("old",), **changes}
    tried = KafkaSource("orders", "b:9092", format=RawFormat(), **settings)
    found = tried.current_ends(known("old/0", "old/1"))
    assert found.discovered.positions == positions
    assert len(found.ends) == 4


def test_a_topic_that_was_made_again_has_no_lag() -> None:
    with pytest.raises(OffsetOutOfRangeError, match="topic old was deleted and made again"):
        kafka().current_ends(StartingPoint({"old/0": 5}, {"old": "another id"}))


def test_the_client_is_not_the_one_of_plans_and_its_errors_are_its_own(opened: _Opened) -> None:
    tried = kafka()
    tried.horizon(known("old/0", "old/1"))
    for _ in range(2):
        tried.current_ends(known("old/0", "old/1"))
    planning, monitoring = opened.clients
    assert (planning.connection.connect_timeout_s, monitoring.connection.connect_timeout_s) == (15.0, 5.0)
    with pytest.raises(SourceError), monitor_admin(monitoring.connection):
        raise SourceError("no answer")
    with shared_admin(planning.connection) as client:
        assert client is planning, "a checkpoint goes on over its connections"
    with monitor_admin(monitoring.connection) as client:
        assert client is opened.clients[2]
    with pytest.raises(SourceError), shared_admin(planning.connection):
        raise SourceError("no answer")
    with monitor_admin(monitoring.connection) as client:
        assert client is opened.clients[2]
    assert len(opened.clients) == 3
