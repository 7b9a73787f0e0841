"""The consumer group is told how far the pipeline is, also while the group's coordinator is just being found (R9)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from connectors.kafka import group
from connectors.kafka.client import Client
from connectors.kafka.settings import Connection
from eos.errors import SourceError

POSITIONS = {"orders/0": 10, "orders/1": 20}
MOVING = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)


class Admin:
    """A cluster's answers to the commits of a group: of each, the error of its last split, if any."""

    def __init__(self, answer: Callable[[int], int | None]) -> None:
        """`answer`: the code for the commit of this number, from 0."""
        self.answer = answer
        self.asked: list[dict[str, int]] = []

    def alter_consumer_group_offsets(self, request: list[Any], *, request_timeout: float) -> dict[str, Future[Any]]:
        assert request_timeout > 0
        (of_group,) = request
        code = self.answer(len(self.asked))
        self.asked.append({f"{each.topic}/{each.partition}": each.offset for each in of_group.topic_partitions})
        splits = [SimpleNamespace(topic=p.topic, partition=p.partition, error=None) for p in of_group.topic_partitions]
        splits[-1].error = KafkaError(code) if code is not None else None
        future: Future[Any] = Future()
        future.set_result(SimpleNamespace(topic_partitions=splits))
        return {of_group.group_id: future}


def commit(admin: Admin, connect_timeout_s: float = 30.0) -> None:
    client = Client(Connection("nowhere:9092", "g", connect_timeout_s=connect_timeout_s), admin)
    group.commit_to_group(client, "g", POSITIONS)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "_ASK_AGAIN_S", 0.001)


def test_a_group_is_asked_once_where_all_is_well() -> None:
    admin = Admin(lambda _: None)
    commit(admin)
    assert admin.asked == [POSITIONS]


@pytest.mark.parametrize("code", MOVING)
def test_a_coordinator_that_is_just_being_found_is_asked_again(code: int) -> None:
    admin = Admin(lambda number: None if number else code)
    commit(admin)
    assert admin.asked == [POSITIONS, POSITIONS]


def test_a_coordinator_that_is_never_found_is_an_error_after_the_deadline() -> None:
    admin = Admin(lambda _: KafkaError.NOT_COORDINATOR)
    with pytest.raises(SourceError, match="commit to group g, orders/1"):
        commit(admin, connect_timeout_s=0.5)  # a busy machine takes longer than some milliseconds
    assert len(admin.asked) > 1


def test_what_a_broker_refuses_is_not_asked_again() -> None:
    admin = Admin(lambda _: KafkaError.UNKNOWN_MEMBER_ID)
    with pytest.raises(SourceError, match="commit to group g, orders/1"):
        commit(admin)
    assert admin.asked == [POSITIONS]
