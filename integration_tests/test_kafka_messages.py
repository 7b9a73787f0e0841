"""What brokers refuse is found by the task, before the decision; what they take gets there, however large. No Spark."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from connectors.kafka.settings import Connection
from connectors.kafka.sink import ledger
from connectors.kafka.sink import markers as markers_module
from connectors.kafka.sink.layout import Layout
from connectors.kafka.sink.markers import Claim, Markers
from connectors.kafka.sink.place import Place
from connectors.kafka.sink.producer import PlainProducer, TransactionalProducer
from connectors.kafka.sink.sink import KafkaSink
from connectors.log.place import LogPlace
from connectors.owner import Owner
from eos.errors import BadRowError, IdentityError, SinkUnavailableError, TargetError
from integration_tests import topics
from integration_tests.conftest import TopicFactory
from integration_tests.harness.drain import Record, drain
from integration_tests.services import Services
from twophase.ids import Scope, TransactionId, sink_key
from twophase.values import CommitOutcome
from wal.segment import read_segment
from wal.testing import files_in

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
    write: Callable[..., Written], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another pipeline left it open. The brokers end it some seconds after its timeout."""
    written = write()
    settings = {"transactional.id": f"other.{written.topic}", "transaction.timeout.ms": 5000}
    other = Producer({"bootstrap.servers": written.brokers, **settings})
    other.init_transactions(30)
    other.begin_transaction()
    other.produce(written.markers, b"{}", b"other", 0)
    assert other.flush(30) == 0
    connection = Connection(written.brokers, "eos-test", read_timeout_s=0.5)
    patient = Markers(connection, written.markers, transaction_timeout_s=5)
    monkeypatch.setattr(markers_module, "_CLEANUP_S", 0)
    hasty = Markers(connection, written.markers, transaction_timeout_s=0.5)
    with pytest.raises(SinkUnavailableError, match="a transaction is open there from offset 0"):
        hasty.claim("mine")
    caplog.clear()
    assert patient.claim("mine") is None
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


def test_a_deleted_row_is_a_tombstone_in_the_topic(write: Callable[..., Written]) -> None:
    written = write(**{"cleanup.policy": "compact"})
    columns = {"k": ["a", "b", "a"], "v": [1, 2, 3], "gone": [False, None, True]}
    found = written(partial(Layout, written.topic, key=("k",), deleted="gone"), columns)
    assert [(each.key, each.json) for each in found] == [
        (b"a", {"k": "a", "v": 1}),
        (b"b", {"k": "b", "v": 2}),
        (b"a", None),
    ]


class _Parts:
    """One task's rows, which a slot writes in several transactions: one for each of three batches."""

    def __init__(self, written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ledger, "_SHARE_OF_TIMEOUT", -1.0)
        batches = [pa.record_batch([pa.array([b"%d" % n, b"%d" % (n + 1)])], names=["value"]) for n in (0, 2, 4)]
        layout, self.log = Layout(written.topic, format="raw"), LogPlace(written.folder, slots=1)
        sink = KafkaSink("s", written.brokers, layout, self.log, markers=written.markers)
        self.sink, self.name, self.written = sink.open(batches[0].schema), written.topic, written
        self.first = self.sink.committer(self.name)
        self.first.claim(_LIFE, 1)
        scope = Scope(_LIFE, 1, 0)
        self.first.permit(scope)
        writer = self.sink.writer(TransactionId(scope, sink_key("s"), 0, 0))
        for batch in batches:
            writer.write(batch)
        self.prepared = writer.prepare()
        self._fail_after(2, monkeypatch)
        with pytest.raises(SinkUnavailableError):
            self.first.commit(0, [self.prepared])
        self.first.close()
        monkeypatch.undo()
        assert self.values == [b"0", b"1", b"2", b"3"]

    def _fail_after(self, parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """The driver dies before it commits the next one."""
        commit, done = TransactionalProducer.commit, [0]

        def dying(producer: TransactionalProducer, *arguments: Any) -> None:
            if done[0] == parts:
                raise SinkUnavailableError("the driver is gone")
            commit(producer, *arguments)
            done[0] += 1

        monkeypatch.setattr(TransactionalProducer, "commit", dying)

    @property
    def values(self) -> list[bytes | None]:
        return [each.value for each in drain(self.written.brokers, self.written.topic)]


def test_a_share_that_is_written_in_parts_goes_on_where_it_was(
    write: Callable[..., Written], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process goes on by the number of messages that the marker tells."""
    parts = _Parts(write(), monkeypatch)
    second = parts.sink.committer(parts.name)
    second.inspect(_LIFE, ())
    assert second.commit(0, [parts.prepared]) == [CommitOutcome.COMMITTED]
    assert second.commit(0, [parts.prepared]) == [CommitOutcome.ALREADY_COMMITTED]
    other = replace(parts.prepared, transaction=replace(parts.prepared.transaction, task_attempt=7))
    assert second.commit(0, [other]) == [CommitOutcome.LOST], "rows of another decision are visible"
    second.close()
    assert parts.values == [b"%d" % n for n in range(6)]


def test_a_share_of_which_a_part_is_written_is_not_written_with_other_rows(
    write: Callable[..., Written], monkeypatch: pytest.MonkeyPatch
) -> None:
    """R7: neither by another decision, nor by a repair, whose rows need not be in the same order."""
    parts = _Parts(write(), monkeypatch)
    second = parts.sink.committer(parts.name)
    second.inspect(_LIFE, ())
    other = replace(parts.prepared, transaction=replace(parts.prepared.transaction, task_attempt=7))
    with pytest.raises(IdentityError, match="4 rows of checkpoint 0 were written with another decision"):
        second.commit(0, [other])
    for segment in files_in(parts.written.folder):
        segment.unlink()
    with pytest.raises(IdentityError, match="has written 4 rows of its share, and the log lacks the rest"):
        second.missing_committables(0, [parts.prepared])
    second.close()
    assert parts.values == [b"0", b"1", b"2", b"3"]


def _marked(brokers: str, markers: str, *, commit: bool, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": brokers, "transactional.id": f"marks-{markers}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(markers, value, b"mine", 0)
    assert producer.flush(30) == 0
    producer.commit_transaction(30) if commit else producer.abort_transaction(30)


def test_a_claim_that_was_aborted_was_never_made(services: Services, topic: TopicFactory) -> None:
    name = topic(8, **{"cleanup.policy": "compact"})
    markers = Markers(Connection(services.kafka_bootstrap, "g"), name)
    _marked(services.kafka_bootstrap, name, commit=True, value=b'{"incarnation": "old", "epoch": 1, "slots": 1}')
    assert markers.claim("mine") == Claim(Owner("old", 1), 1)
    _marked(services.kafka_bootstrap, name, commit=False, value=b'{"incarnation": "new", "epoch": 2, "slots": 1}')
    assert markers.claim("mine") == Claim(Owner("old", 1), 1)


def test_h10_markers_that_were_made_again_tell_nothing(services: Services, topic: TopicFactory) -> None:
    name = topic(8, **{"cleanup.policy": "compact"})
    markers = Markers(Connection(services.kafka_bootstrap, "g"), name)
    _marked(services.kafka_bootstrap, name, commit=True, value=b'{"incarnation": "old", "epoch": 1, "slots": 1}')
    assert markers.claim("mine") is not None
    topics.delete(services.kafka_bootstrap, [name])
    topics.create(services.kafka_bootstrap, name, 8, {"cleanup.policy": "compact"})
    with pytest.raises(
        IdentityError, match="was made again, or went back in time: it no longer says how far the sink is"
    ):
        markers.claim("mine")


@pytest.mark.parametrize(
    ("partitions", "policy", "timeout_s", "said"),
    [
        (8, "compact,delete", 60.0, "has cleanup.policy=compact,delete and 8 partitions"),
        (7, "compact", 60.0, "has cleanup.policy=compact and 7 partitions"),
        (8, "compact", 3600.0, "transaction.max.timeout.ms allows 900 s"),
    ],
)
def test_h10_markers_that_would_be_forgotten_are_refused_before_a_claim(
    services: Services, topic: TopicFactory, tmp_path: Path, partitions: int, policy: str, timeout_s: float, said: str
) -> None:
    place, markers = LogPlace(tmp_path, slots=1), topic(partitions, **{"cleanup.policy": policy})
    layout = Layout(topic(), format="raw")
    sink = KafkaSink("s", services.kafka_bootstrap, layout, place, markers=markers, transaction_timeout_s=timeout_s)
    committer = sink.open(pa.schema([("value", pa.binary())])).committer("p")
    for call in (partial(committer.inspect, _LIFE, ()), partial(committer.claim, _LIFE, 1)):
        with pytest.raises(TargetError, match=said):
            call()
    committer.close()
    assert drain(services.kafka_bootstrap, markers) == []


def test_at_least_once_a_message_that_is_not_delivered_fails_the_task(services: Services, topic: TopicFactory) -> None:
    name = topic(1, **{"max.message.bytes": "10000"})
    producer = PlainProducer(Place(Connection(services.kafka_bootstrap, "g"), name), "s", 1_000_000)
    producer.produce(lambda handle: handle.produce(name, os.urandom(20_000)), 1, 20_000)
    with pytest.raises(TargetError, match="a message was not delivered"):
        producer.flush()
    producer.close()
    assert drain(services.kafka_bootstrap, name) == []


def test_at_least_once_no_task_writes_to_a_compacted_topic(services: Services, topic: TopicFactory) -> None:
    """A task that lives on would put an older message behind a newer one."""
    sink = KafkaSink(
        "s", services.kafka_bootstrap, Layout(topic(cleanup_policy="compact")), LogPlace(Path("log")), repeats=True
    )
    with pytest.raises(TargetError, match="is compacted"):
        sink.open(pa.schema([("v", pa.int64())]))
