"""R2: a pipeline goes on only where head, Spark's checkpoint and the sink tell one story."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from integration_tests import topics
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, PARTITIONS, Pipeline
from integration_tests.harness.workload import Workload
from integration_tests.services import Services

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_RECORDS = 4 * CHECKPOINT_RECORDS


@pytest.mark.timeout(1200)
def test_spark_may_forget_its_last_batch_and_nothing_else(pipeline: Pipeline, tmp_path: Path) -> None:
    pipeline.workload.produce(_RECORDS)
    pipeline.catch_up()
    pipeline.assert_exact(at_least=_RECORDS)

    # As after a kill before Spark wrote it: the decided batch is run again, and writes nothing (R4).
    _delete_newest_commit(pipeline)
    pipeline.workload.produce(_RECORDS)
    pipeline.catch_up()
    pipeline.assert_exact(at_least=2 * _RECORDS)

    before = _protocol_rows(pipeline)
    copy = tmp_path / "copy"
    copy.mkdir()
    process = pipeline.start(folder=copy)
    process.fail("belongs to another incarnation of pipeline", "eos reset")
    assert _protocol_rows(pipeline) == before

    shutil.rmtree(pipeline.location / "spark")
    process = pipeline.start()
    process.fail("Spark's checkpoint is gone", "eos reset")
    assert _protocol_rows(pipeline) == before
    pipeline.assert_exact(at_least=2 * _RECORDS)


@pytest.mark.timeout(600)
def test_a_topic_made_again_is_another_topic(pipeline: Pipeline, services: Services) -> None:
    """It is longer than the first one was when it is looked at: its offsets alone would tell nothing."""
    pipeline.workload.produce(_RECORDS)
    pipeline.catch_up()
    again = Workload(services.kafka_bootstrap, pipeline.workload.topic, PARTITIONS)
    topics.delete(services.kafka_bootstrap, [again.topic])
    topics.create(services.kafka_bootstrap, again.topic, PARTITIONS, {})
    again.produce(2 * _RECORDS)
    process = pipeline.start()
    process.fail(f"topic {again.topic} was deleted and made again", "eos reset")
    pipeline.assert_exact(at_least=_RECORDS)


def _delete_newest_commit(pipeline: Pipeline) -> None:
    commits = pipeline.location / "spark" / pipeline.head.incarnation / "commits"
    newest = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    (commits / str(newest)).unlink()
    (commits / f".{newest}.crc").unlink(missing_ok=True)


def _protocol_rows(pipeline: Pipeline) -> list[list[tuple[object, ...]]]:
    tables = ("eos_claim", "eos_permit", "eos_slot", "eos_witness")
    return [sorted(pipeline.table.execute(f"SELECT * FROM {table}")) for table in tables]
