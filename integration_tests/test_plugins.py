"""Plugins as their users have them: wheels in a fresh environment, their own tests, and a pipeline that is killed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from integration_tests.conftest import TopicFactory
from integration_tests.harness.installed import PLUGINS, Installed
from integration_tests.harness.workload import Row, Workload
from integration_tests.services import Services

_CHECKPOINT_RECORDS = 300
_RECORDS = 7 * _CHECKPOINT_RECORDS
_KILLED_AT = ("prepared@1", "after-decide@2", "applying@3", "between-commits@4")


pytestmark = pytest.mark.in_turns


def test_the_environment_holds_wheels_only(installed: Installed, tmp_path: Path) -> None:
    """Were one of the packages found in the work tree, the other tests would prove nothing."""
    packages = "connectors, spark_jobs, eos_duckdb, eos_files_source"
    script = f"import {packages}; print(*(each.__file__ for each in ({packages})))"
    for path in installed.call("-c", script, cwd=tmp_path).split():
        assert Path(path).is_relative_to(installed.folder)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda path: path.name)
def test_a_plugin_passes_its_own_suite(installed: Installed, plugin: Path, tmp_path: Path) -> None:
    settings = tmp_path / "pytest.ini"
    settings.write_text("[pytest]\n")
    options = ["-q", "-c", str(settings), f"--basetemp={tmp_path}/tests"]
    shown = installed.call("-m", "pytest", str(plugin / "tests"), *options, cwd=tmp_path, timeout_s=1700)
    assert " passed" in shown
    assert "failed" not in shown


@pytest.mark.timeout(1200)
def test_a_pipeline_into_duckdb_is_killed_between_its_steps(
    installed: Installed, services: Services, topic: TopicFactory, tmp_path: Path
) -> None:
    """Every record is one row, whatever was killed."""
    workload = Workload(services.kafka_bootstrap, topic(partitions=2), 2)
    workload.produce(_RECORDS)
    spec = tmp_path / "pipeline.yaml"
    target = tmp_path / "target.duckdb"
    spec.write_text(json.dumps(_spec(services.kafka_bootstrap, workload.topic, target)))
    assert "exactly-once" in installed.call(str(installed.eos), "validate", str(spec), cwd=tmp_path)
    for stem in _KILLED_AT:
        process = installed.start(["run", str(spec), "--until-caught-up"], tmp_path, arm=[stem])
        try:
            process.await_point(stem)
        finally:
            process.kill()
        assert not Counter(_rows(target)) - workload.expected, f"a row is there twice after {stem}"
    process = installed.start(["run", str(spec), "--until-caught-up"], tmp_path)
    try:
        process.succeed()
    finally:
        process.kill()
    rows = Counter(_rows(target))
    assert rows.total() == _RECORDS
    assert rows == workload.expected


def _rows(target: Path) -> Iterator[Row]:
    if target.exists():
        with duckdb.connect(str(target)) as database:
            if database.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = 'records'").fetchall():
                yield from database.execute("SELECT id, word, payload FROM records").fetchall()


def _spec(bootstrap: str, topic: str, target: Path) -> dict[str, Any]:
    return {
        "pipeline": topic,
        "checkpoint": {
            "location": "./checkpoints",
            "interval": "100ms",
            "max_records_per_checkpoint": _CHECKPOINT_RECORDS,
        },
        "spark": {"master": "local[2]"},
        "sources": [
            {
                "name": "incoming",
                "connector": "kafka",
                "bootstrap_servers": bootstrap,
                "topics": [topic],
                "format": {"type": "json", "schema": "id BIGINT, word STRING, payload STRING"},
            }
        ],
        "transforms": [{"name": "rows", "sql": "SELECT id, word, payload FROM incoming"}],
        "sinks": [
            {
                "name": "lake",
                "connector": "duckdb",
                "from": "rows",
                "path": str(target),
                "table": "records",
                "create": "if-missing",
                "commit": "write-ahead-log",
            }
        ],
    }
