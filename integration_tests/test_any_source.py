"""Spark's own rate source, and a commit that wakes up too late, on real processes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from integration_tests.harness.jobs import EXAMPLES, FILES, ROWS, Jobs, write_files
from integration_tests.harness.oracle import SinkTable, compare
from integration_tests.harness.pipeline_process import PROJECT
from integration_tests.harness.workload import Row

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_RATE = PROJECT / "integration_tests" / "jobs" / "rate.py"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("way", ["foreachBatch", "format"])
def test_the_rate_source_killed_on_the_way(jobs: Jobs, database: str, way: str) -> None:
    table = SinkTable(database, "records")
    table.create()
    for stem in ("before-decide@1", "after-decide@2", "after-commits@4", "closed@6"):
        process = jobs.start(_RATE, way, arm=[stem])
        process.await_point(stem)
        process.kill()
    rows = table.rows()
    expected: Counter[Row] = Counter((number, "rate", str(2 * number)) for number in range(rows.total()))
    verdict = compare(expected, rows)
    assert verdict.exact, str(verdict)
    assert verdict.in_sink >= 50, "a second's worth at least"


@pytest.mark.timeout(300)
def test_a_query_with_state_is_refused_by_the_format(jobs: Jobs, database: str) -> None:
    table = SinkTable(database, "records")
    table.create()
    process = jobs.start(_RATE, "format-with-state")
    assert process.wait() != 0
    assert "SpecError: the query keeps state" in process.output()
    assert table.count() == 0


@pytest.mark.timeout(600)
def test_h5_a_commit_that_wakes_up_after_a_takeover_is_fenced(jobs: Jobs, database: str, tmp_path: Path) -> None:
    """A process of Spark's pauses before it decides; its successor rolls back what it would decide, and goes on."""
    table = SinkTable(database, "records")
    table.create()
    expected = write_files(tmp_path / "files")
    late = jobs.start(EXAMPLES / "files_to_table.py", str(tmp_path / "files"), arm=["before-decide@1"])
    late.await_point("before-decide@1")
    jobs.start(EXAMPLES / "files_to_table.py", str(tmp_path / "files")).succeed()
    assert compare(expected, table.rows()).exact
    late.release("before-decide@1")
    assert late.wait() != 0
    assert "fenced: " in late.output()
    verdict = compare(expected, table.rows())
    assert verdict.exact, str(verdict)
    assert verdict.in_sink == FILES * ROWS
