"""`eos transactions commit` of several checkpoints that wait in a log, of a real head, log and SQLite table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from connectors.log.place import LogPlace
from spark_jobs.cli import run_command_line
from tests.connectors.sql.sqlite.test_sink_protocol import ROWS, Job, World
from twophase.checkpoint import decide
from twophase.ids import Scope, TransactionId, sink_key
from twophase.messages import Acknowledged, BatchStart, Failed

SPEC = """\
pipeline: p
checkpoint: {location: .}
sources: [{name: kafka, connector: kafka, bootstrap_servers: a, topics: [t], format: {type: raw}}]
sinks: [{name: s, from: kafka, connector: sqlite, path: t.db, table: t, commit: write-ahead-log}]
"""


@dataclass
class _Empty(Job):
    """A batch whose rows were all left out; of no tasks, or of tasks without rows."""

    tasks: int = 0

    def run_writers(self, scope: Scope, *, direct: bool = False) -> Acknowledged | Failed:
        ids = [TransactionId(scope, sink_key("s"), task, 100 + task) for task in range(self.tasks)]
        return Acknowledged({"s": tuple(self.world.sink.writer(each).prepare() for each in ids)}, at=0.0)


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("jobs", [(0, None), (2, None), (None, 2, None), (0, 2, None, None)], ids=str)
def test_checkpoints_without_rows_are_committed_in_their_place(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    jobs: Sequence[int | None],
    slots: int,
) -> None:
    """`jobs`: of each checkpoint that waits, how many tasks without rows; None: those with rows."""
    world = World(tmp_path)
    world.sink = replace(world.sink, log=LogPlace(tmp_path / "log", slots=slots))
    driver = world.driver()
    driver.start()
    world.run(driver, 0, Job(world))
    for number, tasks in enumerate(jobs, 1):
        world.planned = number
        begin = BatchStart(number, {"kafka": {"t/0": (number + 1) * ROWS}}, f"offsets {number}", 0.0)
        job = Job(world) if tasks is None else _Empty(world, tasks=tasks)
        driver._carry_out(decide(driver._ownership, begin, ("s",)), job)
    spec = tmp_path / "p.yaml"
    spec.write_text(SPEC)
    assert run_command_line(["transactions", "commit", str(spec), "--json"]) == 0
    committed = json.loads(capsys.readouterr().out)["committed"]
    assert len(committed) == 2 * jobs.count(None)
    shown = sorted(int(str(n)) for (n,) in world.query("SELECT n FROM t"))
    filled = [0, *(number for number, tasks in enumerate(jobs, 1) if tasks is None)]
    assert shown == [n for each in filled for n in range(each * ROWS, (each + 1) * ROWS)]
    after = world.driver()
    assert after.start().committed == len(jobs)
    assert sorted(int(str(n)) for (n,) in world.query("SELECT n FROM t")) == shown
