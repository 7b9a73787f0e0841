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
from integration_tests.golden import LAST, LOCATIONS, RECORDS, TOPIC, GoldenPipeline
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, PARTITIONS
from integration_tests.services import Services
from twophase.codec import decode_head, decode_record, encode_head, encode_record, sha256_of
from twophase.local_head import LocalHead

# Every run of CI takes these, although they start Spark: the run that lands a change of a format finds what it breaks.
pytestmark = [pytest.mark.any_server, pytest.mark.in_turns, pytest.mark.xdist_group("golden")]  # one topic


UNNAMED = "location-2, without its method's name"
"""As versions wrote it that computed method 2 and did not say so."""


@pytest.fixture(params=[*LOCATIONS, UNNAMED])
def golden(request: pytest.FixtureRequest, services: Services, tmp_path: Path) -> Iterator[GoldenPipeline]:
    """Each golden location, on a topic with the records that it was written from."""
    bootstrap = services.kafka_bootstrap
    topics.create(bootstrap, TOPIC, PARTITIONS, {})
    try:
        with GoldenPipeline(tmp_path, bootstrap) as pipeline:
            pipeline.put(request.param.partition(",")[0])
            if request.param == UNNAMED:
                _name_method(LocalHead(pipeline.location), None, "")
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
    assert store.swap(seen, encode_head(replace(head, identities={"incoming": {TOPIC: topic_id}})))


def _name_method(store: LocalHead, method: int | None, written_by: str) -> None:
    """Change the newest record, and its hash in head, as if this version had written it, with this method's name."""
    seen = store.read()
    assert seen is not None
    head = decode_head(seen.value)
    *before, newest = head.records
    record = decode_record(store.get_record(newest.name), newest.sha256)
    content = encode_record(replace(record, digest_method=method, written_by=written_by))
    changed = replace(newest, name=f"{newest.name}-changed", sha256=sha256_of(content))
    store.put_record(changed.name, content)
    assert store.swap(seen, encode_head(replace(head, records=(*before, changed))))


@pytest.mark.timeout(600)
def test_rows_that_it_could_not_compare_are_refused_before_anything_changes(golden: GoldenPipeline) -> None:
    _name_method(LocalHead(golden.location), 99, "7.1.0")
    before = golden.head, golden.counts()
    golden.start().fail("row digests of method 99", "finish it with eos 7.1.0, by `eos run --until-caught-up`")
    assert (golden.head, golden.counts()) == before


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
