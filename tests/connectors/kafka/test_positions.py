"""Ends and beginnings of splits from a cluster's answers. Real brokers: integration_tests/test_kafka_starting.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from connectors.kafka import positions
from connectors.kafka.client import Client
from connectors.kafka.positions import at_time, earliest, latest, latest_and_withheld
from connectors.kafka.settings import Connection
from eos.errors import SourceError

SPLITS = ("t/0", "t/1")
STABLE, THERE, FIRST = {"t/0": 8, "t/1": 20}, {"t/0": 10, "t/1": 20}, {"t/0": 2, "t/1": 0}
SPECS: Any = OffsetSpec
EARLIEST, LATEST = SPECS.earliest(), SPECS.latest()
Answer = Callable[[str, Any, bool], int | KafkaError]


class Admin:
    """A cluster that answers as `answer` says: split, what is asked, whether of committed records only."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[list[str]] = []

    def poll(self, _timeout_s: float) -> int:
        return 0

    def list_offsets(
        self, wanted: Mapping[TopicPartition, Any], *, isolation_level: IsolationLevel, request_timeout: float
    ) -> dict[TopicPartition, Future[Any]]:
        assert request_timeout > 0
        self.asked.append([f"{each.topic}/{each.partition}" for each in wanted])
        return {each: self._future(each, spec, isolation_level) for each, spec in wanted.items()}

    def _future(self, split: TopicPartition, spec: Any, level: IsolationLevel) -> Future[Any]:
        future: Future[Any] = Future()
        found = self.answer(f"{split.topic}/{split.partition}", spec, level == IsolationLevel.READ_COMMITTED)
        if isinstance(found, KafkaError):
            future.set_exception(KafkaException(found))
        else:
            future.set_result(SimpleNamespace(offset=found))
        return future


def _with_a_transaction(split: str, spec: Any, committed: bool) -> int:
    """t/0 has an open transaction at 8."""
    if spec is EARLIEST:
        return FIRST[split]
    return STABLE[split] if committed else THERE[split]


def client(answer: Answer, isolation_level: str = "read_committed", connect_timeout_s: float = 5.0) -> Client:
    connection = Connection("127.0.0.1:1", "g", isolation_level, connect_timeout_s=connect_timeout_s)
    return Client(connection, Admin(answer))


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "_ASK_AGAIN_S", 0.001)


def test_r6_a_reader_of_committed_records_ends_before_an_open_transaction() -> None:
    assert latest(client(_with_a_transaction), SPLITS) == STABLE
    assert latest(client(_with_a_transaction, "read_uncommitted"), SPLITS) == THERE


def test_what_lies_behind_an_open_transaction_is_told() -> None:
    assert latest_and_withheld(client(_with_a_transaction), SPLITS) == (STABLE, {"t/0": 10})
    assert latest_and_withheld(client(_with_a_transaction, "read_uncommitted"), SPLITS) == (THERE, {})


@pytest.mark.parametrize(("found", "begins"), [(5, 5), (9, 8), (-1, 8)])
def test_a_moment_is_never_past_what_can_be_read(found: int, begins: int) -> None:
    """The record may lie behind an open transaction, and -1 means that there is none."""

    def answer(split: str, spec: Any, committed: bool) -> int:
        return _with_a_transaction(split, spec, committed) if spec is LATEST else found

    assert at_time(client(answer), ["t/0"], 1_700_000_000_000) == {"t/0": begins}


def test_an_end_that_the_leader_has_not_told_is_not_made_up() -> None:
    with pytest.raises(SourceError, match="offsets of t/0: no answer"):
        latest(client(lambda *_: OFFSET_INVALID, connect_timeout_s=0.01), SPLITS)


@pytest.mark.parametrize(
    "code",
    [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.UNKNOWN_TOPIC_OR_PART],
)
def test_a_split_that_changes_its_leader_is_asked_again_alone(code: int) -> None:
    moved: list[str] = []

    def answer(split: str, spec: Any, committed: bool) -> int | KafkaError:
        if split == "t/1" and not moved:
            moved.append(split)
            return KafkaError(code)
        return _with_a_transaction(split, spec, committed)

    asked = client(answer)
    assert earliest(asked, SPLITS) == FIRST
    assert asked.handle.asked == [["t/0", "t/1"], ["t/1"]]


def test_any_other_error_is_one_at_once() -> None:
    asked = client(lambda *_: KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(SourceError, match="Kafka refused"):
        latest(asked, SPLITS)
    assert len(asked.handle.asked) == 1
