"""A checkpoint location with blanks, letters beyond ASCII and a percent sign is one folder, for Spark too."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration_tests.conftest import TopicFactory
from integration_tests.harness.pipeline import PARTITIONS, Pipeline
from integration_tests.services import Services

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_RECORDS = 100


@pytest.mark.timeout(400)
def test_head_and_spark_use_the_same_folder(
    services: Services, database: str, topic: TopicFactory, tmp_path: Path
) -> None:
    folder = tmp_path / "all" / "my döcs 100%20"
    folder.mkdir(parents=True)
    with Pipeline(folder, services.kafka_bootstrap, topic(partitions=PARTITIONS), database) as pipeline:
        pipeline.table.create()
        pipeline.workload.produce(_RECORDS)
        pipeline.catch_up()
        pipeline.assert_exact(at_least=_RECORDS)
        assert (pipeline.location / "spark.log").exists()
    assert [path.name for path in (tmp_path / "all").iterdir()] == [folder.name]
