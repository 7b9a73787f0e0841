"""The example job on Kafka and a database: tasks fail at random, the driver is killed, and no row tells of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from integration_tests.conftest import TopicFactory
from integration_tests.demo.job import Job
from integration_tests.demo.place import with_table
from integration_tests.harness.pipeline_process import PipelineProcess
from integration_tests.harness.words import ROUND, Words, await_rows
from integration_tests.services import Services
from spark_jobs.demo import reference
from spark_jobs.demo.place import Place
from spark_jobs.demo.verdict import judge

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_FAILURES = ("failure_probability: 0.001", "failure_probability: 0.0035")
"""About one checkpoint in four fails."""

_NO_FAILURES = ("failure_probability: 0.001", "failure_probability: 0")


@pytest.fixture
def place(services: Services, database: str, topic: TopicFactory) -> Place:
    return with_table(services, topic(partitions=4), database)


def _run_until_a_task_has_failed(driver: PipelineProcess, place: Place, words: Words) -> None:
    while "InjectedFailureError" not in driver.output():
        words.produce()
        await_rows(driver, place, words)


@pytest.mark.timeout(1500)
def test_failures_restarts_and_a_kill_leave_no_trace(place: Place, tmp_path: Path) -> None:
    words = Words(place)
    with Job(tmp_path, place, [_FAILURES]) as job:
        first = job.start(None)
        _run_until_a_task_has_failed(first, place, words)
        before_the_kill = place.table.count()

        first.faults.arm("after-decide")
        words.produce()
        first.await_point("after-decide")
        assert job.prepared(), "the kill must find something prepared"
        first.kill()
        assert place.table.count() == before_the_kill

        second = job.start(None)
        _run_until_a_task_has_failed(second, place, words)
        words.produce()
        await_rows(second, place, words)
        second.terminate()
        second.succeed()

        assert job.starts >= 4  # two drivers, each with a restart of its own
        verdict = judge(words.produced, place.table.rows(), job.starts - 1, job.prepared())
    assert verdict.clean, verdict.words(kills=1)
    assert verdict.in_sink >= 4 * ROUND


@pytest.mark.timeout(600)
def test_without_failures_the_table_is_the_reference(place: Place, tmp_path: Path) -> None:
    words = Words(place)
    with Job(tmp_path, place, [_NO_FAILURES]) as job:
        driver = job.start(None)
        for _ in range(6):
            words.produce()
        await_rows(driver, place, words)
        driver.terminate()
        driver.succeed()
        assert job.starts == 1
        assert job.prepared() == []
    assert place.table.rows() == reference.expected_rows(words.produced)
    assert place.table.rows().total() == 6 * ROUND
    assert reference.broken_chains(Counter(place.table.rows()).elements()) == []
