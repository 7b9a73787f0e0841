"""`kill -9` at every point of a checkpoint's life, for every sink and variant, and for four of them at once.

A run tries each sink and each point at least once, in pairs that a seed chooses, which the report's head names; CI the
four at once, and the others in turns; `make matrix` tries all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from connectors.testing.files import files_in
from integration_tests.conftest import TopicFactory
from integration_tests.harness.oracle import compare
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, PARTITIONS, Pipeline
from integration_tests.harness.rotation import rotated, seed_of_run
from integration_tests.harness.targets import LOG_POINTS, POINTS, STEPS, TARGETS, Target, expected
from integration_tests.services import Services

_EACH: Final = 1  # there are more sinks than points
_CASES: Final = {
    **{name: (name,) for name in TARGETS},
    "four sinks": ("mysql two-phase", "postgresql upsert", "sqlite write-ahead-log", "kafka write-ahead-log"),
}


class SinksPipeline(Pipeline):
    """As Pipeline, into these targets instead of its table."""

    def __init__(self, folder: Path, bootstrap: str, topic: str, targets: list[Target]) -> None:
        super().__init__(folder, bootstrap, topic, "sqlite://")
        self.targets = targets
        steps = {target.entry["from"] for target in targets}
        self.spec["transforms"] = [{"name": name, "sql": sql} for name, sql in STEPS.items() if name in steps]
        self.spec["sinks"] = [target.entry for target in targets]

    def assert_clean(self) -> None:
        """Nothing is anywhere that must not be. What is merged changes, and is looked at in the end."""
        for target in self.targets:
            if target.commit != "upsert":
                verdict = compare(self.workload.expected, target.rows())
                assert verdict.clean, f"{target.entry['name']}: {verdict}"

    def assert_exact(self, at_least: int) -> None:
        """See Pipeline, for each target."""
        assert self.workload.expected.total() >= at_least
        for target in self.targets:
            verdict = compare(expected(target, self.workload.expected), target.rows())
            assert verdict.exact, f"{target.entry['name']}: {verdict}"
            assert verdict.in_sink > 0
            assert target.left(self.head.incarnation) == []
        assert files_in(self.location / "log") == []

    def close(self) -> None:
        """See Pipeline."""
        for process in self.processes:
            process.kill()
        if self.was_born():
            for target in self.targets:
                target.clean_up(self.head.incarnation)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each sink, with the points of this run."""
    if "case" in metafunc.fixturenames:
        own = {name: POINTS if name.endswith("two-phase") else LOG_POINTS for name in _CASES}
        seed = seed_of_run()
        chosen = own if seed is None else rotated(own, _EACH, seed)
        cases = [
            pytest.param(name, chosen[name], id=name, marks=_marks(name, _EACH / len(own[name]))) for name in _CASES
        ]
        metafunc.parametrize(("case", "stems"), cases)


def _marks(case: str, part: float) -> list[pytest.MarkDecorator]:
    """A second server of MySQL's kind tells something new of the log alone: test_kill_matrix has two-phase commit."""
    marks = [] if case in {"mysql write-ahead-log", "mysql upsert"} else [pytest.mark.any_server]
    return marks if case == "four sinks" else [*marks, pytest.mark.in_turns(part=part)]


@pytest.fixture
def pipeline(
    case: str, request: pytest.FixtureRequest, services: Services, topic: TopicFactory, tmp_path: Path, _first_run: None
) -> Iterator[SinksPipeline]:
    folder = tmp_path / "pipeline"
    folder.mkdir()
    targets = [TARGETS[name](request) for name in _CASES[case]]
    with SinksPipeline(folder, services.kafka_bootstrap, topic(partitions=PARTITIONS), targets) as made:
        yield made


@pytest.mark.timeout(1200)
def test_killed(pipeline: SinksPipeline, stems: list[str]) -> None:
    records = (len(stems) + 2) * CHECKPOINT_RECORDS
    pipeline.workload.produce(records)
    for number, point in enumerate(stems):
        process = pipeline.start(arm=[f"{point}@{number}"])
        process.await_point(f"{point}@{number}")
        pipeline.assert_clean()
        process.kill()
    pipeline.catch_up()
    pipeline.assert_exact(at_least=records)
    assert pipeline.head.epoch == len(stems) + 1
