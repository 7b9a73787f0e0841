"""One cell of the matrix, in the interpreter of its environment: python -m integration_tests.compatibility.cell WAY.

The services are given by EOS_TEST_KAFKA and EOS_TEST_DATABASE. The last line is the result as JSON. Each way moves
records into a table of the database, is killed in the middle (SIGKILL to the driver and all that it has started), and
is started once more. It passes if each record is in the table exactly once, and nothing stays prepared. A version that
the way does not support must be refused before anything is written.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import pyspark

from integration_tests import databases, topics
from integration_tests.compatibility.stateful import run_rescale, run_savepoint, run_state
from integration_tests.compatibility.world import RECORDS, World
from integration_tests.counting import count_words
from integration_tests.harness.faults import Faults
from integration_tests.harness.jobs import EXAMPLES, ROWS, Jobs, write_files
from integration_tests.harness.kills import Kill, kill_at_each
from integration_tests.harness.oracle import SinkTable, Verdict, compare
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, PARTITIONS
from integration_tests.harness.pipeline_process import PROJECT, PipelineProcess
from integration_tests.harness.workload import Row, Workload
from integration_tests.services import obtain
from integration_tests.services.maven_jars import resolved
from spark_jobs.session.versions import FOREACH_BATCH, FORMAT_EOS, RESCALE, RUN, STATE, Way, is_supported, parsed
from twophase.local_head import LocalHead
from twophase.status import read_status

_KILLS: Final[Sequence[Kill]] = (Kill("before-decide@1", 1, (2,)), Kill("between-commits@3", 3.5, (1,)))
_JOB: Final = PROJECT / "integration_tests" / "jobs" / "any_version.py"
_CONNECT: Final = PROJECT / "integration_tests" / "jobs" / "connect_files.py"
_DEFINITIONS: Final = PROJECT / "integration_tests" / "jobs" / "pipeline_files.py"
_CONNECTORS: Final = {
    (3, 5): "org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.7",
    (4, 0): "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0",
    (4, 2): "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
}
"""Kafka sources of Spark. For a version without one the job reads by `eos_kafka`."""
_CANNOT_REPEAT: Final = {(4, 1)}
"""Versions whose Kafka source cannot repeat a batch (SPARK-55271), and that have no `eos_kafka`. Files are read."""


def run_yaml(world: World) -> int:
    """`eos run`: killed at four points of its checkpoints, then run until caught up."""
    with world.pipeline() as pipeline:
        pipeline.workload.produce(RECORDS)
        kill_at_each(pipeline, _KILLS)
        pipeline.catch_up()
        pipeline.assert_exact(at_least=RECORDS)
        assert pipeline.head.epoch == len(_KILLS) + 1
        return pipeline.verdict().in_sink


def run_job(world: World, sink: str) -> int:
    """A job of one's own, killed in the middle of its checkpoints: at two points, or at one where it reads files."""
    table = SinkTable(world.database, "records")
    table.create()
    jobs, version = Jobs(world.folder, world.database), parsed(pyspark.__version__)
    if version in _CANNOT_REPEAT:
        expected = write_files(world.folder / "files")
        source, place = "files", str(world.folder / "files")
        kills, checkpoint_rows = _KILLS[:1], ROWS
    else:
        workload = Workload(world.services.kafka_bootstrap, world.topic, PARTITIONS)
        workload.produce(RECORDS)
        expected, kills, checkpoint_rows = workload.expected, _KILLS, CHECKPOINT_RECORDS
        source, place = "eos_kafka", f"{world.services.kafka_bootstrap}/{world.topic}"
        if package := _CONNECTORS.get(version):
            source = "kafka"
            jars = resolved(package.replace(":", "-"), [package], world.folder / "jars.log")
            jobs.environment["PYSPARK_SUBMIT_ARGS"] = f"--jars {','.join(map(str, jars))} pyspark-shell"
    try:
        for kill in kills:
            process = jobs.start(_JOB, source, place, sink, arm=[kill.stem])
            process.await_point(kill.stem)
            verdict = compare(expected, table.rows())
            assert verdict.clean, f"{kill}: {verdict}"
            assert verdict.in_sink == kill.checkpoints * checkpoint_rows, f"{kill}: {verdict}"
            process.kill()
        jobs.start(_JOB, source, place, sink).succeed()
    finally:
        jobs.close()
    return _all_rows(world, table, expected)


def run_connect(world: World) -> int:
    """A job on Spark Connect that writes by `format("eos")`. ExactlyOnce is refused there before the first batch."""
    table = SinkTable(world.database, "records")
    table.create()
    expected = write_files(world.folder / "files")
    jobs = Jobs(world.folder, world.database)
    jobs.environment["PYSPARK_SUBMIT_ARGS"] = "--conf spark.authenticate=true pyspark-shell"
    try:
        process = jobs.start(_CONNECT, str(world.folder / "files"), arm=["before-decide@1"])
        process.await_point("before-decide@1")
        _assert_first(compare(expected, table.rows()))
        process.kill()
        last = jobs.start(_CONNECT, str(world.folder / "files"))
        last.succeed()
    finally:
        jobs.close()
    assert "ExactlyOnce cannot run with Spark Connect" in last.output()
    return _all_rows(world, table, expected)


def run_declarative(world: World) -> int:
    """A declarative pipeline with a sink of `format("eos")`. A run after the last one writes nothing."""
    table = SinkTable(world.database, "records")
    table.create()
    expected = write_files(world.folder / "files")
    definitions = world.folder / "transformations" / "rows.py"
    definitions.parent.mkdir()
    definitions.write_text(_DEFINITIONS.read_text())
    libraries = [{"glob": {"include": "transformations/**"}}]
    pipeline = {"name": "rows", "storage": f"file://{world.folder}/storage", "libraries": libraries}
    (world.folder / "spark-pipeline.yml").write_text(json.dumps(pipeline))
    (world.folder / "sink.yaml").write_text((EXAMPLES / "sink.yaml").read_text())
    runs: list[PipelineProcess] = []
    try:
        runs.append(_declared(world, 0, ["before-decide@1"]))
        runs[0].await_point("before-decide@1")
        _assert_first(compare(expected, table.rows()))
        runs[0].kill()
        runs.append(_declared(world, 1))
        runs[1].wait()  # PySpark 4.2 ends with UNKNOWN_RESPONSE after a run in which Python has written rows
        assert "Run is COMPLETED" in runs[1].output(), runs[1].output()[-2000:]
        assert compare(expected, table.rows()).exact
        runs.append(_declared(world, 2))
        runs[2].succeed()
    finally:
        for each in runs:
            each.kill()
    return _all_rows(world, table, expected)


def _declared(world: World, number: int, arm: Sequence[str] = ()) -> PipelineProcess:
    """Start `spark-pipelines run`."""
    home = Path(pyspark.__file__).parent
    faults = Faults(world.folder / f"faults-{number}")
    for stem in arm:
        faults.arm(stem)
    environment = {
        "SPEC": str(world.folder / "sink.yaml"),
        "FILES": str(world.folder / "files"),
        "SINK_URL": world.database,
        "SPARK_HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        **dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), sys.executable),
    }
    program = [str(home / "bin" / "spark-pipelines"), "run", "--conf", "spark.authenticate=true"]
    return PipelineProcess([], world.folder, world.folder / f"run-{number}.log", faults, environment, program, "bash")


def _assert_first(verdict: Verdict) -> None:
    """The first of the files is visible, and nothing of the next one."""
    assert verdict.clean, str(verdict)
    assert verdict.in_sink == ROWS, str(verdict)


def _all_rows(world: World, table: SinkTable, expected: Counter[Row]) -> int:
    """Return how many rows the table has: each expected row once, and nothing prepared."""
    verdict = compare(expected, table.rows())
    assert verdict.exact, str(verdict)
    found = read_status(LocalHead(world.folder / "checkpoints" / "copy-files"))
    assert found is not None
    assert table.prepared(found.head.incarnation) == []
    return verdict.in_sink


def run_refused(world: World, way: str) -> str:
    """A version that a way cannot run with: return the reason. Nothing was written."""
    pipeline = world.pipeline()
    if way in _OF_STATE:
        count_words(pipeline)
    if way in _OF_STATE or way == "eos run":
        with pipeline:
            pipeline.workload.produce(1)
            process = pipeline.command(*_OF_STATE.get(way, _RUN))
            process.wait()
            assert not pipeline.was_born()
    else:
        write_files(world.folder / "files")
        jobs = Jobs(world.folder, world.database)
        try:
            job = _CONNECT if way == "connect" else EXAMPLES / "files_to_table.py"
            process = jobs.start(job, str(world.folder / "files"))
            process.wait()
        finally:
            jobs.close()
    assert process.exit_code != 0
    reasons = [line for line in process.output().splitlines() if "cannot run on PySpark" in line]
    assert reasons, process.output()[-2000:]
    assert pipeline.table.execute("SHOW TABLES") == [(pipeline.table.name,)]
    assert pipeline.table.rows() == {}
    if _OF_STATE.get(way) != _RUN:  # whether a step has state is known once Spark has started, which writes its log
        assert not pipeline.location.exists()
    return reasons[-1].partition("error: ")[2] or reasons[-1].rpartition("Error: ")[2]


WAYS: Final[dict[str, Callable[[World], int]]] = {
    "eos run": run_yaml,
    "state": run_state,
    "savepoint": run_savepoint,
    "rescale": run_rescale,
    "foreachBatch": partial(run_job, sink="foreachBatch"),
    "format eos": partial(run_job, sink="eos"),
    "connect": run_connect,
    "pipelines": run_declarative,
}
"""By name, functions that return how many rows are in the table at the end."""

_RUN: Final = ("run", "--until-caught-up")
_OF_STATE: Final = {"state": _RUN, "savepoint": _RUN, "rescale": ("rescale", "--state-partitions", "5", "--yes")}
"""Ways of pipelines with state, by name, and the command that is refused where the version is."""


def needs(way: str) -> Way:
    """Return the range of versions that a way of the matrix has."""
    known = {"eos run": RUN, "state": STATE, "savepoint": STATE, "rescale": RESCALE, "foreachBatch": FOREACH_BATCH}
    return known.get(way, FORMAT_EOS)


def main(way: str) -> int:
    """Run a way, or see it refused, and print the result."""
    services = obtain()
    name = f"eos_{secrets.token_hex(5)}"
    databases.share_tls_context()
    databases.create(services, name)
    topics.create(services.kafka_bootstrap, name, PARTITIONS, {})
    began = time.monotonic()
    version = pyspark.__version__
    with tempfile.TemporaryDirectory(prefix="eos-matrix-") as folder:
        world = World(services, Path(folder), name, f"{services.database_url.rstrip('/')}/{name}")
        found: dict[str, object]
        if is_supported(version, needs(way)):
            found = {"result": "exactly once", "rows": WAYS[way](world)}
        else:
            found = {"result": "refused", "reason": run_refused(world, way)}
    seconds = round(time.monotonic() - began, 1)
    databases.drop(services, name)
    topics.delete(services.kafka_bootstrap, [name])
    python = ".".join(map(str, sys.version_info[:3]))
    print(json.dumps({"pyspark": version, "python": python, "way": way, **found, "seconds": seconds}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
