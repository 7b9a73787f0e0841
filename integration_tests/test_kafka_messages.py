"""What brokers refuse is found by the task, before the decision; what they take gets there, however large. No Spark."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from connectors.kafka.settings import Connection
from connectors.kafka.sink import ledger
from connectors.kafka.sink.layout import Layout
from connectors.kafka.sink.markers import Markers
from connectors.kafka.sink.producer import TransactionalProducer
from connectors.kafka.sink.sink import KafkaSink
from connectors.log.place import LogPlace
from integration_tests.conftest import TopicFactory
from integration_tests.harness.drain import Record, drain
from integration_tests.services import Services
from twophase.errors import BadRowError, IdentityError, SinkUnavailableError, TargetError
from twophase.ids import Scope, TransactionId, sink_key
from twophase.values import CommitOutcome
from wal.segment import read_segment

pytestmark = pytest.mark.any_server

_LIFE = "a" * 20


@dataclass
class Written:
    """One checkpoint, from rows to messages: each task writes them all."""

    brokers: str
    topic: str
    markers: str
    folder: Path
    properties: Mapping[str, str] = field(default_factory=dict)
    tasks: int = 1

    def __call__(self, layout: Callable[..., Layout], columns: Mapping[str, Any]) -> Sequence[Record]:
        """Write and commit; what a reader sees then."""
        batch = pa.record_batch([pa.array(each) for each in columns.values()], names=list(columns))
        log = LogPlace(self.folder, slots=1)
        made = KafkaSink("s", self.brokers, layout(), log, markers=self.markers, properties=self.properties)
        sink, scope = made.open(batch.schema), Scope(_LIFE, 1, 0)
        committer = sink.committer(self.topic)
        try:
            committer.claim(_LIFE, 1)
            committer.permit(scope)
            prepared = []
            for task in range(self.tasks):
                writer = sink.writer(TransactionId(scope, sink_key("s"), task, 0))
                writer.write(batch)
                prepared.append(writer.prepare())
            assert committer.commit(0, prepared) == [CommitOutcome.COMMITTED] * self.tasks
        finally:
            committer.close()
        return drain(self.brokers, self.topic)


@pytest.fixture
def write(services: Services, topic: TopicFactory, tmp_path: Path) -> Callable[..., Written]:
    """To a topic with these settings."""

    def make(properties: Mapping[str, str] | None = None, **settings: str) -> Written:
        markers = topic(8, **{"cleanup.policy": "compact"})
        return Written(services.kafka_bootstrap, topic(1, **settings), markers, tmp_path, properties or {})

    return make


@pytest.mark.parametrize(
    ("settings", "layout", "columns", "said"),
    [
        ({"cleanup.policy": "compact"}, {"key": ("k",)}, {"k": ["a", None]}, "row 2, column 'k': .* without a key"),
        ({"cleanup.policy": "compact,delete"}, {}, {"k": ["a"]}, "row 1, column 'key': .* without a key"),
        ({}, {"timestamp": "at"}, {"k": [1, 2], "at": [0, 3]}, "row 2, column 'at': .* later than in 3,600,000 ms"),
        (
            {"message.timestamp.before.max.ms": "3600000"},
            {"timestamp": "at"},
            {"k": [1, 2], "at": [-2, 0]},
            "row 1, column 'at': .* no message older than 3,600,000 ms",
        ),
        (
            {},
            {"timestamp": "at"},
            {"k": [1], "at": [datetime(1970, 1, 1, tzinfo=UTC)]},
            "row 1, column 'at': .*before 1970",
        ),
    ],
    ids=["key", "no keys", "future", "past", "1970"],
)
def test_a_row_that_a_topic_does_not_take(
    write: Callable[..., Written], settings: dict[str, str], layout: dict[str, Any], columns: dict[str, Any], said: str
) -> None:
    if "at" in columns:  # hours from now
        now = datetime.now(UTC).replace(microsecond=0)
        columns = columns | {"at": [now + timedelta(hours=at) if isinstance(at, int) else at for at in columns["at"]]}
    written = write(**settings)
    with pytest.raises(BadRowError, match=said):
        written(partial(Layout, written.topic, **layout), columns)
    assert drain(written.brokers, written.topic) == []


def test_the_brokers_own_time_is_not_compared(write: Callable[..., Written]) -> None:
    written = write(**{"message.timestamp.type": "LogAppendTime"})
    later = datetime.now(UTC).replace(microsecond=0) + timedelta(days=3)
    assert len(written(partial(Layout, written.topic, timestamp="at"), {"k": [1], "at": [later]})) == 1


@pytest.mark.parametrize("name", ["", "a b", "ü", "..", "a/b", "a" * 250, "__consumer_offsets", "__transaction_state"])
def test_what_no_row_can_name_as_its_topic(write: Callable[..., Written], name: str) -> None:
    written = write()
    with pytest.raises(BadRowError, match=r"row 2, column 'to': .*(is not a topic's name|is Kafka's own)"):
        written(partial(Layout, None, topic_column="to"), {"k": [1, 2], "to": [written.topic, name]})
    assert drain(written.brokers, written.topic) == []


def test_no_row_goes_among_the_markers(write: Callable[..., Written]) -> None:
    written = write()
    with pytest.raises(BadRowError, match="tells how far pipelines are"):
        written(partial(Layout, None, topic_column="to"), {"k": [1], "to": [written.markers]})
    with pytest.raises(TargetError, match="tells how far pipelines are"):
        written(partial(Layout, written.markers), {"k": [1]})


@pytest.mark.parametrize("limit", [1_048_588, 10_485_880])
def test_the_largest_message_is_taken_also_when_the_broker_makes_it_larger(
    write: Callable[..., Written], limit: int
) -> None:
    """What cannot be compressed grows by compression, which brokers do after a task has judged the size."""
    written = write(**{"compression.type": "gzip", "max.message.bytes": str(limit)})
    layout = partial(Layout, written.topic, format="raw")
    with pytest.raises(BadRowError, match="a message of some") as refused:
        written(layout, {"value": [os.urandom(limit)]})
    found = re.search(r"of some ([\d,]+) bytes, where Kafka takes ([\d,]+)", str(refused.value))
    assert found is not None
    size, most = (int(each.replace(",", "")) for each in found.groups())
    largest = os.urandom(most - (size - limit))
    assert [each.value for each in written(layout, {"value": [largest]})] == [largest]


def test_more_than_a_producer_holds_at_once(write: Callable[..., Written]) -> None:
    """A queue that is full would be the same at each new try."""
    written = write({"queue.buffering.max.kbytes": "1024"})
    values = [b"x" * 1_000] * 20_000
    assert len(written(partial(Layout, written.topic, format="raw"), {"value": values})) == len(values)


def test_no_transaction_is_open_while_a_large_segment_is_fetched(
    write: Callable[..., Written], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker ends what takes longer than it may, and what is tried again takes as long."""
    seen: list[str] = []

    def noted(what: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any) -> Any:
            seen.append(what)
            return call(*arguments)

        return wrapped

    monkeypatch.setattr(ledger, "_LARGE_BYTES", 0)
    monkeypatch.setattr(ledger, "read_segment", noted("fetched", read_segment))
    for what in ("produce", "commit"):
        monkeypatch.setattr(TransactionalProducer, what, noted(what, getattr(TransactionalProducer, what)))
    written = write()
    written.tasks = 3
    assert len(written(partial(Layout, written.topic, format="raw"), {"value": [b"a", b"b"]})) == 6
    assert seen[seen.index("fetched") :] == ["fetched", "produce", "commit"] * 3


@pytest.mark.timeout(120)
def test_an_open_transaction_among_the_markers_is_waited_for_and_said(
    write: Callable[..., Written], caplog: pytest.LogCaptureFixture
) -> None:
    """Of another pipeline that was cut off. The brokers end it."""
    written = write()
    settings = {"transactional.id": f"other.{written.topic}", "transaction.timeout.ms": 5000}
    other = Producer({"bootstrap.servers": written.brokers, **settings})
    other.init_transactions(30)
    other.begin_transaction()
    other.produce(written.markers, b"{}", b"other", 0)
    assert other.flush(30) == 0
    markers = Markers(Connection(written.brokers, "eos-test", read_timeout_s=0.5), written.markers)
    with pytest.raises(SinkUnavailableError, match="a transaction is open there from offset 0"):
        markers.claim("mine")
    assert len(written(partial(Layout, written.topic), {"k": [1, 2]})) == 2
    assert caplog.text.count("waiting until it ends") == 1


def test_foreign_records_among_the_markers_are_left_alone(services: Services, topic: TopicFactory) -> None:
    """But for one under a key of ours: it cannot be ours, and nothing is assumed of it."""
    name = topic(8, **{"cleanup.policy": "compact"})
    markers = Markers(Connection(services.kafka_bootstrap, "g"), name)
    producer = Producer({"bootstrap.servers": services.kafka_bootstrap})
    producer.produce(name, b"\xff\x00", b"\xff\xfe", 0)
    producer.produce(name, b"not json", b"eos.mine.claim", 0)
    assert producer.flush(30) == 0
    assert markers.claim("eos.other.claim") is None
    with pytest.raises(IdentityError, match="is not one of ours"):
        markers.claim("eos.mine.claim")
