"""`kill -9` at every point of a checkpoint, for every sink and variant.

Every run kills one pipeline with all sinks at every point on native servers, and at a third of them in containers. Each
sink has reached the point when the pipeline is killed. Pipelines with one sink each are killed at one point each, which
a seed chooses. A run takes some of them (harness/turns.py), and `make matrix` kills each at every point.

The seed also chooses the place of each pipeline's location: a folder, or a bucket. `make matrix` takes both. With a
bucket each driver begins in an empty folder, and under another host name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import pytest

from integration_tests.conftest import TopicFactory
from integration_tests.harness.oracle import compare
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, PARTITIONS, Pipeline
from integration_tests.harness.pipeline_process import PipelineProcess
from integration_tests.harness.rotation import seed_of_run
from integration_tests.harness.stores import assert_moved, below, move, put_location
from integration_tests.harness.targets import (
    ALL,
    BUCKET,
    EACH,
    STEPS,
    TARGETS,
    Target,
    await_all,
    case_id,
    expected,
    places_of_run,
    points_of,
    points_of_run,
    stems,
    visible,
)
from integration_tests.services import Services
from tests.object_store import Bucket
from wal.testing import files_in


class SinksPipeline(Pipeline):
    """As Pipeline, into these targets instead of its table. `bucket`: of its location; None: that is a folder."""

    def __init__(
        self, folder: Path, bootstrap: str, topic: str, targets: list[Target], bucket: Bucket | None = None
    ) -> None:
        super().__init__(folder, bootstrap, topic, "sqlite://")
        self.targets = targets
        self.bucket = bucket
        steps = {target.entry["from"] for target in targets}
        self.spec["transforms"] = [{"name": name, "sql": sql} for name, sql in STEPS.items() if name in steps]
        self.spec["sinks"] = [target.entry for target in targets]
        # A group's task waits where a test stops it, and takes one of the cores. The other group needs one, too.
        self.spec["spark"]["master"] = "local[3]" if len(steps) > 1 else "local[2]"
        if bucket is not None:
            put_location(self, bucket)

    def next_driver(self, arm: Sequence[str] = ()) -> PipelineProcess:
        """Start one, which sees nothing of the machines before if the location is in a bucket."""
        if self.bucket is not None:
            move(self)
        return self.start(arm=arm)

    def groups(self, point: str) -> list[list[str]]:
        """Return the sinks that can be at this point, those that take the same rows together."""
        found: dict[str, list[str]] = {}
        for target in self.targets:
            if point in points_of(target.commit):
                found.setdefault(target.entry["from"], []).append(target.entry["name"])
        return list(found.values())

    def assert_seen(self, point: str, number: int) -> None:
        """Rows of a checkpoint are visible from its decision on, and those of the ones before it all are (R6).

        Rows that are merged change: only the end shows whether they are right.
        """
        least, most = visible(point, number)
        for target in self.targets:
            if target.commit != "upsert":
                verdict = compare(self.workload.expected, target.rows())
                assert verdict.clean, f"{target.entry['name']} at {point}: {verdict}"
                assert least <= verdict.in_sink / CHECKPOINT_RECORDS <= most, (
                    f"{target.entry['name']} at {point}: {verdict}"
                )

    def assert_exact(self, at_least: int) -> None:
        """See Pipeline, for each target."""
        assert self.workload.expected.total() >= at_least
        for target in self.targets:
            verdict = compare(expected(target, self.workload.expected), target.rows())
            assert verdict.exact, f"{target.entry['name']}: {verdict}"
            assert verdict.in_sink > 0
            assert target.left(self.head.incarnation) == []
        if self.bucket is None:
            assert files_in(self.location / "log") == []
        else:
            assert below(self.bucket, "log") == []
            assert below(self.bucket, "records")
            assert not self.location.exists()
            assert_moved(self)

    def close(self) -> None:
        """See Pipeline."""
        for process in self.processes:
            process.kill()
        if self.was_born():
            for target in self.targets:
                target.clean_up(self.head.incarnation)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each sink, with the points of this run, and one for all sinks, with theirs."""
    if "case" in metafunc.fixturenames:
        cases = points_of_run(seed_of_run(), metafunc.config.getoption("--kind"))
        metafunc.parametrize(
            ("case", "place", "points"),
            [
                pytest.param(name, place, cases[name], id=case_id(name, place), marks=_marks(name))
                for name, places in places_of_run(seed_of_run()).items()
                for place in places
            ],
        )


def _marks(case: str) -> list[pytest.MarkDecorator]:
    """All sinks are killed in every run, on each kind of server."""
    if case == ALL:
        return []
    return [pytest.mark.any_server, pytest.mark.in_turns(part=EACH / len(points_of(case)))]


@pytest.fixture
def pipeline(
    case: str,
    place: str,
    request: pytest.FixtureRequest,
    services: Services,
    topic: TopicFactory,
    tmp_path: Path,
    _first_run: None,
) -> Iterator[SinksPipeline]:
    folder = tmp_path / "pipeline"
    folder.mkdir()
    targets = [TARGETS[name](request) for name in (TARGETS if case == ALL else (case,))]
    bucket = request.getfixturevalue("bucket") if place == BUCKET else None
    with SinksPipeline(folder, services.kafka_bootstrap, topic(partitions=PARTITIONS), targets, bucket) as made:
        yield made


@pytest.mark.timeout(1200)
def test_killed(pipeline: SinksPipeline, points: Sequence[str]) -> None:
    records = (len(points) + 2) * CHECKPOINT_RECORDS
    pipeline.workload.produce(records)
    for number, point in enumerate(points):
        groups = pipeline.groups(point)
        process = pipeline.next_driver(arm=stems(point, number, chain.from_iterable(groups)))
        await_all(process, point, number, groups)
        pipeline.assert_seen(point, number)
        process.kill()
    pipeline.next_driver().succeed()
    pipeline.assert_exact(at_least=records)
    assert pipeline.head.epoch == len(points) + 1
