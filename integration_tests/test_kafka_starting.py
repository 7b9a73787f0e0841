"""Where a pipeline begins to read, and what it finds on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import cast

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewPartitions
from pyspark.sql.streaming.datasource import ReadMaxRows

from connectors.api.contracts import Source
from connectors.formats.plain import StringFormat
from connectors.kafka import positions
from connectors.kafka.client import Client
from connectors.kafka.source import KafkaSource
from connectors.kafka.splits import as_offset
from connectors.kafka.starting import FromGroup, FromOffsets, FromTimestamp
from eos.errors import OffsetOutOfRangeError, SourceError, SpecError, UnknownTopicError
from integration_tests import topics
from integration_tests.conftest import TopicFactory
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from integration_tests.harness.workload import Workload
from integration_tests.services import Services
from spark_jobs.query.pacing.turns import AlwaysDue
from spark_jobs.query.source import SourceReader
from spark_jobs.query.source_offset import SourceOffset
from tests.waiting import until
from twophase.values import StartingPoint

pytestmark = pytest.mark.any_server

_NOWHERE = StartingPoint()
_DAY_MS = 86_400_000


@pytest.fixture
def three(topic: TopicFactory, services: Services) -> str:
    """A topic of two partitions: three records a day apart in the first, nothing in the second."""
    name = topic(2)
    producer = Producer({"bootstrap.servers": services.kafka_bootstrap})
    for day in (1, 2, 3):
        producer.produce(name, b"x", partition=0, timestamp=_DAY_MS * day)
    assert producer.flush(30) == 0
    return name


def _source(services: Services, *names: str, **settings: object) -> KafkaSource:
    return KafkaSource("in", services.kafka_bootstrap, names, StringFormat(), **settings)  # type: ignore[arg-type]


def _begins(source: KafkaSource) -> dict[str, int]:
    return {split: as_offset(at) for split, at in source.starting_point(_NOWHERE).positions.items()}


@pytest.mark.parametrize(("at_ms", "offset"), [(0, 0), (_DAY_MS, 0), (_DAY_MS + 1, 1), (3 * _DAY_MS, 2), (2**42, 3)])
def test_from_a_moment(three: str, services: Services, at_ms: int, offset: int) -> None:
    starting = FromTimestamp(at_ms)
    assert _begins(_source(services, three, starting_offsets=starting)) == {f"{three}/0": offset, f"{three}/1": 0}


def test_from_a_moment_while_a_transaction_ends(
    topic: TopicFactory, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends between the two questions that are asked: its record lies behind the end that was told first."""
    name = topic()
    producer = Producer({"bootstrap.servers": services.kafka_bootstrap, "transactional.id": f"tx-{name}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(name, b"x", partition=0, timestamp=_DAY_MS)
    assert producer.flush(30) == 0
    ask = positions._offsets
    answers: list[dict[str, int]] = []

    def ask_and_commit(client: Client, splits: Iterable[str], spec: Callable[[], OffsetSpec]) -> dict[str, int]:
        answers.append(ask(client, splits, spec))
        if len(answers) == 1:
            producer.commit_transaction(30)
            with_marker = {f"{name}/0": 2}
            until(lambda: ask(client, splits, OffsetSpec.latest) == with_marker, timeout_s=120, look_s=0.1)
        return answers[-1]

    monkeypatch.setattr(positions, "_offsets", ask_and_commit)
    assert _begins(_source(services, name, starting_offsets=FromTimestamp(0))) == {f"{name}/0": 0}
    assert len(answers) == 2


def test_from_what_a_group_has_committed(three: str, services: Services) -> None:
    group = f"group-{three}"
    _source(services, three, group_id=group).commit_back({f"{three}/0": 2})
    with pytest.raises(SpecError, match=f"group {group} has no offset of {three}/1"):
        _begins(_source(services, three, starting_offsets=FromGroup(group)))
    found = _begins(_source(services, three, starting_offsets=FromGroup(group, "latest")))
    assert found == {f"{three}/0": 2, f"{three}/1": 0}


def test_from_a_group_whose_offsets_are_about_to_change(three: str, services: Services) -> None:
    """A transaction that holds newer offsets is open: to begin at the older ones would read records twice."""
    group = f"group-{three}"
    _source(services, three, group_id=group).commit_back({f"{three}/0": 1, f"{three}/1": 0})
    consumer = Consumer({"bootstrap.servers": services.kafka_bootstrap, "group.id": group})
    producer = Producer({"bootstrap.servers": services.kafka_bootstrap, "transactional.id": f"tx-{three}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    offsets = [TopicPartition(three, 0, 3)]
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
    source = _source(services, three, starting_offsets=FromGroup(group))
    with pytest.raises(SourceError, match=f"offset of group {group}, {three}/0"):
        _begins(source)
    producer.commit_transaction(30)
    consumer.close()
    deadline = time.monotonic() + 20
    while True:
        try:
            assert _begins(source) == {f"{three}/0": 3, f"{three}/1": 0}
            return
        except SourceError:  # the marker is written after the producer's call has returned
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_from_given_offsets(three: str, services: Services) -> None:
    given = FromOffsets({f"{three}/0": 1, f"{three}/1": 0})
    assert _begins(_source(services, three, starting_offsets=given)) == {f"{three}/0": 1, f"{three}/1": 0}
    short = FromOffsets({f"{three}/0": 1})
    with pytest.raises(SpecError, match=f"starting_offsets do not name {three}/1"):
        _begins(_source(services, three, starting_offsets=short))
    for wrong in ("ordrs/0", f"{three}/7"):
        slip = FromOffsets({f"{three}/0": 1, wrong: 0}, "latest")
        with pytest.raises(SpecError, match=f"starting_offsets name {wrong}, which the source does not have"):
            _begins(_source(services, three, starting_offsets=slip))
    far = FromOffsets({f"{three}/0": 4}, "earliest")
    with pytest.raises(OffsetOutOfRangeError, match=rf"{three}/0 cannot begin at offset 4: it has \[0, 3\)"):
        _begins(_source(services, three, starting_offsets=far))


def test_a_pattern_matches_whole_names(three: str, services: Services) -> None:
    assert set(_begins(_source(services, topics_pattern=f"{three[:-1]}."))) == {f"{three}/0", f"{three}/1"}
    with pytest.raises(UnknownTopicError, match=r"no topic on .* matches"):
        _begins(_source(services, topics_pattern=three[:-1]))


@pytest.fixture
def later(services: Services) -> Iterator[list[str]]:
    """Names of topics that the test makes itself; deleted at the end."""
    made: list[str] = []
    yield made
    topics.delete(services.kafka_bootstrap, made)


@pytest.mark.in_turns
@pytest.mark.timeout(600)
def test_partitions_and_topics_made_while_it_runs(pipeline: Pipeline, services: Services, later: list[str]) -> None:
    """They are read from their first record, though the pipeline began at the end: also after a kill in between."""
    workload = pipeline.workload
    grown = workload.topic
    first = Workload(services.kafka_bootstrap, workload.topic, 2)
    first.produce(100)  # before the pipeline: not read
    source = pipeline.source
    del source["topics"]
    source["topics_pattern"] = f"{workload.topic}(-more)?"
    source["starting_offsets"] = "latest"
    process = pipeline.start(until_caught_up=False, arm=["before-decide@1"])
    until(lambda: pipeline.was_born() and bool(pipeline.head.initial), timeout_s=120, look_s=0.1)
    workload.produce(2 * CHECKPOINT_RECORDS)
    process.await_point("before-decide@1")

    admin = AdminClient({"bootstrap.servers": services.kafka_bootstrap})
    for future in admin.create_partitions([NewPartitions(workload.topic, 4)]).values():
        future.result(30)
    later.append(f"{workload.topic}-more")
    topics.create(services.kafka_bootstrap, later[0], 1, {})
    workload.direct(workload.topic, 4)
    workload.produce(2 * CHECKPOINT_RECORDS)
    workload.direct(later[0], 1)
    workload.produce(CHECKPOINT_RECORDS)
    process.kill()

    process = pipeline.start(arm=["prepared@3"])
    process.await_point("prepared@3")
    process.kill()
    pipeline.catch_up()
    pipeline.assert_exact(at_least=5 * CHECKPOINT_RECORDS)
    head = pipeline.head
    assert head.initial["incoming"] == {
        f"{name}/{n}": at
        for name, n, at in ((grown, 0, 50), (grown, 1, 50), (grown, 2, 0), (grown, 3, 0), (later[0], 0, 0))
    }
    assert set(head.identities["incoming"]) == {grown, later[0]}


def test_a_partition_found_on_the_way_loses_records_before_its_turn_comes(
    topic: TopicFactory, services: Services
) -> None:
    """It begins with the plan that finds it, and takes nothing of it: what retention then deletes is an error (R6)."""
    name, partitions = topic(11), 11
    workload = Workload(services.kafka_bootstrap, name, partitions)
    workload.produce(10 * partitions)
    source = _source(services, name)
    began = source.starting_point(_NOWHERE)
    admin = AdminClient({"bootstrap.servers": services.kafka_bootstrap})
    for future in admin.create_partitions([NewPartitions(name, partitions + 1)]).values():
        future.result(30)
    workload.direct(name, partitions + 1)
    workload.produce(partitions + 1)
    found = f"{name}/{partitions}"
    until(lambda: found in source.horizon(began).ends, timeout_s=120, look_s=0.1)

    offset = SourceOffset(source.name, began.positions).to_json()
    for _ in range(2 * partitions):  # each time as after a restart
        reader = SourceReader(cast(Source, source), began, AlwaysDue(10), "")
        planned = reader.latestOffset(offset, ReadMaxRows(1))
        ranges = SourceOffset.from_json(planned).ranges({**began.positions, **offset["ends"]})
        if found in {each.split for each in ranges}:
            break
        topics.delete_records(services.kafka_bootstrap, {found: 1})
        offset = planned
    assert offset["ends"][found] == 0, "known for a plan before its turn"
    with pytest.raises(OffsetOutOfRangeError, match=f"{found}: offset 0 does not exist"):
        list(source.read(ranges))


@pytest.mark.in_turns
@pytest.mark.timeout(600)
def test_a_topic_of_a_pattern_that_is_gone(pipeline: Pipeline, services: Services, later: list[str]) -> None:
    """It stops the pipeline, which may have had records there; whoever narrows the pattern says that it need not."""
    workload = pipeline.workload
    kept, gone = workload.topic, f"{workload.topic}-gone"
    topics.create(services.kafka_bootstrap, gone, 1, {})
    source = pipeline.source
    del source["topics"]
    source["topics_pattern"] = f"{kept}(-gone)?"
    workload.produce(CHECKPOINT_RECORDS)
    workload.direct(gone, 1)
    workload.produce(CHECKPOINT_RECORDS)
    pipeline.catch_up()
    topics.delete(services.kafka_bootstrap, [gone])
    workload.direct(kept, 2)
    workload.produce(CHECKPOINT_RECORDS)
    pipeline.start().fail(f"topic {gone} does not exist")
    source["topics_pattern"] = kept
    pipeline.catch_up()
    pipeline.assert_exact(at_least=3 * CHECKPOINT_RECORDS)
    assert pipeline.head.positions["incoming"][f"{gone}/0"] == CHECKPOINT_RECORDS
