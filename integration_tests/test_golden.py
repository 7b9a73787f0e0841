"""A pipeline starts on a checkpoint location that an earlier version left, with state and a decision to commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from integration_tests import topics
from integration_tests.golden import LAST, RECORDS, TOPIC, GoldenPipeline
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, PARTITIONS
from integration_tests.services import Services
from twophase.codec import decode_head, encode_head
from twophase.local_head import LocalHead

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]


@pytest.fixture
def golden(services: Services, tmp_path: Path) -> Iterator[GoldenPipeline]:
    """The location, on a topic with the records that it was written from."""
    bootstrap = services.kafka_bootstrap
    topics.create(bootstrap, TOPIC, PARTITIONS, {})
    try:
        with GoldenPipeline(tmp_path, bootstrap) as pipeline:
            pipeline.put()
            pipeline.workload.produce(RECORDS)
            client = AdminClient({"bootstrap.servers": bootstrap})
            described = client.describe_topics(TopicCollection([TOPIC]))[TOPIC].result(30)
            _know(LocalHead(pipeline.location), str(described.topic_id))
            yield pipeline
    finally:
        topics.delete(bootstrap, [TOPIC])


def _know(store: LocalHead, topic_id: str) -> None:
    """A topic that is made again has another id: say that it is this one."""
    seen = store.read()
    assert seen is not None
    head = decode_head(seen.value)
    assert store.swap(seen.version, encode_head(replace(head, identities={"incoming": {TOPIC: topic_id}})))


@pytest.mark.timeout(600)
def test_it_goes_on_with_state_and_with_what_was_decided(golden: GoldenPipeline) -> None:
    words = 10
    assert (golden.head.completed, golden.head.committed, len(golden.counts())) == (LAST, LAST - 1, LAST * words)
    golden.workload.produce(2 * CHECKPOINT_RECORDS)
    golden.catch_up()
    checkpoints = LAST + 3
    assert (golden.head.completed, golden.head.committed, golden.head.epoch) == (LAST + 2, LAST + 2, 2)
    step = CHECKPOINT_RECORDS // words
    produced = Counter(str(word) for _, word, _ in golden.workload.expected)
    assert set(produced.values()) == {checkpoints * step}
    assert Counter(golden.counts()) == Counter(
        (word, number * step) for word in produced for number in range(1, checkpoints + 1)
    )
