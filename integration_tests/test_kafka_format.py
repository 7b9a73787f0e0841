"""`format("eos_kafka")` in a query that is started again: a topic that is another one now, sources in another order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from integration_tests import topics
from integration_tests.conftest import TopicFactory
from integration_tests.harness.jobs import Jobs
from integration_tests.harness.oracle import SinkTable, compare
from integration_tests.harness.pipeline_process import PROJECT
from integration_tests.harness.workload import Workload
from integration_tests.services import Services

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_JOB = PROJECT / "integration_tests" / "jobs" / "from_kafka.py"


@pytest.mark.timeout(600)
def test_h23_a_topic_that_a_pattern_found_is_deleted_and_made_again(
    jobs: Jobs, database: str, topic: TopicFactory, services: Services, tmp_path: Path
) -> None:
    """While the query is down, and by the start it is longer than what was read of the first one."""
    table = SinkTable(database, "records")
    table.create()
    kafka, first, found = services.kafka_bootstrap, topic(), topic()
    topics.delete(kafka, [found])
    arguments = (_JOB, kafka, f"in={first}|{found}")
    workload = Workload(kafka, first, 1)
    workload.produce(10)
    jobs.start(*arguments).succeed()
    topics.create(kafka, found, 1, {})
    workload.direct(found, 1)
    workload.produce(100)
    jobs.start(*arguments).succeed()  # its plan says where the topic begins, and its id
    workload.direct(first, 1)
    workload.produce(10)
    jobs.start(*arguments).succeed()
    newest = (tmp_path / "spark" / "offsets" / "2").read_text().splitlines()[-1]
    assert json.loads(newest)["ends"] == {f"{first}/0": 20, f"{found}/0": 100}
    topics.delete(kafka, [found])
    topics.create(kafka, found, 1, {})
    Workload(kafka, found, 1).produce(150)  # a producer of its own: this one knows the topic that is gone
    process = jobs.start(*arguments)
    assert process.wait() != 0
    assert f"topic {found} was deleted and made again" in process.output()
    verdict = compare(workload.expected, table.rows())
    assert verdict.exact, str(verdict)
    assert verdict.in_sink == 120


@pytest.mark.timeout(600)
def test_sources_of_a_query_that_change_places(
    jobs: Jobs, database: str, topic: TopicFactory, services: Services
) -> None:
    """Each would be given the other's offsets: refused before anything is read, and nothing is there twice."""
    table = SinkTable(database, "records")
    table.create()
    kafka, names = services.kafka_bootstrap, (topic(), topic())
    sources = [f"{name}={name}" for name in names]
    workload = Workload(kafka, names[0], 1)
    for name in names:
        workload.direct(name, 1)
        workload.produce(50)
    jobs.start(_JOB, kafka, *sources).succeed()
    workload.produce(50)
    process = jobs.start(_JOB, kafka, *reversed(sources))
    assert process.wait() != 0
    assert "takes the offsets of another eos_kafka source" in process.output()
    assert table.rows().total() == 100
    jobs.start(_JOB, kafka, *sources).succeed()
    verdict = compare(workload.expected, table.rows())
    assert verdict.exact, str(verdict)
    assert verdict.in_sink == 150
