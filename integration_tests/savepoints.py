"""What tests of savepoints share: a pipeline that keeps state, and the commands."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from integration_tests.harness.command_line import CommandLine, Ended
from integration_tests.harness.pipeline import Pipeline
from integration_tests.harness.pipeline_process import PipelineProcess
from integration_tests.harness.stores import move
from spark_jobs.savepoints import manifest as manifests

ONCE = {"name": "once", "python": "once:once", "from": "rows", "options": {"column": "id"}}
_STEP = "def once(rows, column):\n    return rows.dropDuplicates([column])\n"


def keep_ids(pipeline: Pipeline) -> None:
    """Let the pipeline remember every id that it has seen: of two records with one id only the first is written."""
    (pipeline.folder / "once.py").write_text(_STEP)
    pipeline.spec["transforms"].append(dict(ONCE))
    pipeline.spec["sinks"][0]["from"] = "once"
    pipeline.spec["spark"]["conf"] = {"spark.sql.shuffle.partitions": 2}


def await_committed(pipeline: Pipeline, count: int, timeout_s: float = 240.0) -> None:
    """Wait until the table has so many rows, and no checkpoint waits for a sink."""
    deadline = time.monotonic() + timeout_s
    while not pipeline.was_born() or pipeline.table.count() < count or pipeline.head.waiting:
        assert time.monotonic() < deadline, f"{pipeline.table.count()} rows of {count}"
        time.sleep(0.2)


def run(pipeline: Pipeline, eos: CommandLine, *options: str) -> Ended:
    """`eos run` until it has caught up or is refused."""
    return eos.run(["run", str(pipeline.write_spec()), "--until-caught-up", *options], pipeline.environment)


def succeed(pipeline: Pipeline, eos: CommandLine, *options: str) -> Ended:
    """The same, which must end well with nothing left prepared."""
    ended = run(pipeline, eos, *options)
    assert ended.code == 0, ended.output
    assert pipeline.prepared() == []
    return ended


def facts(pipeline: Pipeline, eos: CommandLine, *arguments: str, code: int = 0) -> dict[str, Any]:
    """Of `eos savepoint … --json`."""
    ended = eos.run(["savepoint", *arguments, "--json"], pipeline.environment)
    assert ended.code == code, ended.output
    found: dict[str, Any] = json.loads(ended.output[ended.output.index("{\n") :])
    return found


def take(pipeline: Pipeline, eos: CommandLine, into: Path) -> Path:
    """Take a savepoint in this folder; returns its own, which is whole."""
    taken = facts(pipeline, eos, str(pipeline.write_spec()), str(into))
    folder = Path(taken["folder"])
    assert facts(pipeline, eos, "inspect", str(folder))["damage"] == []
    return folder


def take_elsewhere(pipeline: Pipeline, into: Path) -> Path:
    """Take a savepoint by a process on a machine of its own, which has none of the pipeline's files."""
    if pipeline.address is not None:
        move(pipeline)
    process = pipeline.command("savepoint", str(into), "--json")
    process.succeed()
    output = process.output()
    folder = Path(json.loads(output[output.index("{\n") :])["folder"])
    assert manifests.damage(folder, manifests.read(folder)) == []
    return folder


def begin_from(pipeline: Pipeline, savepoint: Path | str, *options: str, arm: str = "") -> PipelineProcess:
    """Start from the savepoint until it has caught up, on another machine."""
    move(pipeline)
    given = ("--until-caught-up", "--from-savepoint", str(savepoint), *options)
    return pipeline.command("run", *given, arm=[arm] if arm else [])


def rescale(pipeline: Pipeline, eos: CommandLine, partitions: int) -> None:
    """Divide its state anew, which must succeed."""
    arguments = ["rescale", str(pipeline.write_spec()), "--state-partitions", str(partitions), "--yes"]
    ended = eos.run(arguments, pipeline.environment)
    assert ended.code == 0, ended.output
    assert f"has repartitioned the state into {partitions} partitions" in ended.output, ended.output
