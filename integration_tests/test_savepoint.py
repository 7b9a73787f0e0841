"""Savepoints of a pipeline that keeps state: taken, moved, and begun from, with every row where it belongs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from integration_tests import topics
from integration_tests.conftest import TopicFactory
from integration_tests.harness.command_line import CommandLine
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, TABLE, Pipeline
from integration_tests.savepoints import await_committed, facts, keep_ids, rescale, run, succeed, take
from spark_jobs.observe.history.store import History

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_FIRST, _LATER, _NEW = 2 * CHECKPOINT_RECORDS, 300, 100


@pytest.mark.timeout(900)
def test_from_a_savepoint_rows_are_as_announced(pipeline: Pipeline, eos: CommandLine, tmp_path: Path) -> None:
    keep_ids(pipeline)
    topic, workload = pipeline.workload.topic, pipeline.workload
    workload.produce(_FIRST)
    succeed(pipeline, eos)
    folder = take(pipeline, eos, tmp_path / "kept")
    found = facts(pipeline, eos, "inspect", str(folder))
    half = _FIRST // 2
    assert (found["checkpoint_id"], found["later"]) == (1, 0)
    assert found["positions"] == {"incoming": {f"{topic}/0": half, f"{topic}/1": half}}
    assert [(each["step"], each["kind"], each["state"]) for each in found["operators"]] == [
        ("once", "Deduplicate", "bigint")
    ]
    assert found["state_bytes"] > 0
    assert pipeline.environment["SINK_URL"] not in (folder / "spec.yaml").read_text()

    # The pipeline is where the savepoint is: it goes on as it is, under the same identity.
    life = pipeline.head.incarnation
    workload.produce(_LATER)
    assert "still at the savepoint" in succeed(pipeline, eos, "--from-savepoint", str(folder)).output
    assert pipeline.head.incarnation == life
    pipeline.assert_exact(at_least=_FIRST + _LATER)

    # The head is beyond it: refused with what would come twice, and nothing is changed.
    before = pipeline.head
    refused = run(pipeline, eos, "--from-savepoint", str(folder))
    assert refused.code == 1, refused.output
    ranges = f"{topic}/0[{half}, {half + _LATER // 2}), {topic}/1[{half}, {half + _LATER // 2})"
    for told in (f"{_LATER} records were read after the savepoint was written: {ranges}", "--accept-duplicates"):
        assert told in refused.output, refused.output
    assert f"sink warehouse: {_LATER} rows are written twice" in refused.output
    assert pipeline.head == before
    assert len(list((pipeline.location / "spark").iterdir())) == 1

    # Agreed to: exactly those come twice, and what the state remembers of before does not.
    workload.repeat(_FIRST)
    succeed(pipeline, eos, "--from-savepoint", str(folder), "--accept-duplicates")
    verdict = pipeline.verdict()
    assert (verdict.duplicated, verdict.lost, verdict.unexpected) == (_LATER, 0, 0), str(verdict)
    assert pipeline.head.incarnation != life
    assert pipeline.head.completed > 1
    assert not (pipeline.location / "spark" / life).exists()
    (begun,) = (each for each in History.at(pipeline.location).events() if each.message.startswith("begun from"))
    assert found["id"] in begun.message

    # What it would read next is gone: the life that is there is not ended for one that could not go on.
    before = pipeline.head
    topics.delete_records(pipeline.source["bootstrap_servers"], {f"{topic}/0": half, f"{topic}/1": half + 1})
    refused = run(pipeline, eos, "--from-savepoint", str(folder), "--accept-duplicates")
    assert (refused.code, f"goes on in {topic}/1 at {half}, and has [{half + 1}, " in refused.output) == (1, True)
    assert pipeline.head == before
    succeed(pipeline, eos)


@pytest.mark.timeout(900)
def test_a_pipeline_whose_location_is_lost_goes_on_from_a_moved_savepoint(
    pipeline: Pipeline, eos: CommandLine, tmp_path: Path
) -> None:
    keep_ids(pipeline)
    pipeline.workload.produce(_FIRST)
    succeed(pipeline, eos)
    taken = take(pipeline, eos, pipeline.location / "savepoints")
    listed = facts(pipeline, eos, "list", str(pipeline.write_spec()))["savepoints"]
    assert [(each["folder"], each["checkpoint_id"]) for each in listed] == [(str(taken), 1)]
    moved = tmp_path / "elsewhere" / "renamed"
    shutil.copytree(taken, moved)
    life = pipeline.head.incarnation
    shutil.rmtree(pipeline.location)

    # The sinks still hold the old claim: it may be another copy that lives.
    pipeline.workload.repeat(_FIRST)
    pipeline.workload.produce(_NEW)
    refused = run(pipeline, eos)
    assert (refused.code, "belongs to another incarnation" in refused.output) == (1, True), refused.output
    refused = run(pipeline, eos, "--from-savepoint", str(moved))
    assert (refused.code, "--take-over" in refused.output) == (1, True), refused.output
    assert not pipeline.was_born()

    succeed(pipeline, eos, "--from-savepoint", str(moved), "--take-over")
    pipeline.assert_exact(at_least=_FIRST + _NEW)
    head = pipeline.head
    assert head.incarnation != life
    assert (head.origin is not None and head.origin.checkpoint_id, head.completed) == (1, 4)

    # It lives as any other one.
    pipeline.workload.produce(_NEW)
    succeed(pipeline, eos)
    pipeline.assert_exact(at_least=_FIRST + 2 * _NEW)


@pytest.mark.timeout(900)
def test_of_a_running_pipeline_and_a_fork_beside_it(pipeline: Pipeline, eos: CommandLine, tmp_path: Path) -> None:
    keep_ids(pipeline)
    spec = str(pipeline.write_spec())
    pipeline.workload.produce(_FIRST)
    process = pipeline.start(until_caught_up=False)
    await_committed(pipeline, _FIRST)
    first = facts(pipeline, eos, spec, str(tmp_path / "kept"))
    pipeline.workload.produce(_LATER)  # it goes on
    await_committed(pipeline, _FIRST + _LATER)
    stopped = eos.run(["stop", spec, "--savepoint", str(tmp_path / "kept"), "--json"], pipeline.environment)
    assert stopped.code == 0, stopped.output
    process.succeed()
    pipeline.assert_exact(at_least=_FIRST + _LATER)
    last = json.loads(stopped.output[stopped.output.index("{\n") :])["savepoint"]
    assert (last["later"], last["checkpoint_id"]) == (0, pipeline.head.completed)
    assert last["checkpoint_id"] > first["checkpoint_id"]
    assert facts(pipeline, eos, "inspect", last["folder"])["positions"] == pipeline.head.positions

    # Another pipeline, with a table of its own, begins from the first one; both live.
    done = sum(facts(pipeline, eos, "inspect", first["folder"])["positions"]["incoming"].values())
    pipeline.table.execute("CREATE TABLE forked LIKE records")
    home, name = pipeline.spec["checkpoint"]["location"], pipeline.spec["pipeline"]
    pipeline.spec |= {"pipeline": f"{name}-fork", "checkpoint": {**pipeline.spec["checkpoint"], "location": "./fork"}}
    pipeline.spec["sinks"][0]["table"] = "forked"
    pipeline.workload.repeat(_FIRST)
    forked = run(pipeline, eos, "--from-savepoint", first["folder"])
    assert forked.code == 0, forked.output
    assert f"It belongs to {name}" in forked.output
    assert pipeline.table.execute("SELECT COUNT(*), COUNT(DISTINCT id) FROM forked")[0] == (_FIRST + _LATER - done,) * 2
    pipeline.spec |= {"pipeline": name, "checkpoint": {**pipeline.spec["checkpoint"], "location": home}}
    pipeline.spec["sinks"][0]["table"] = "records"
    succeed(pipeline, eos)
    pipeline.assert_exact(at_least=_FIRST + _LATER)


@pytest.mark.timeout(900)
def test_killed_while_it_is_taken_and_begun_from(pipeline: Pipeline, eos: CommandLine, tmp_path: Path) -> None:
    keep_ids(pipeline)
    pipeline.workload.produce(_FIRST)
    succeed(pipeline, eos)
    kept = tmp_path / "kept"
    for point in ("savepoint-pinned", "savepoint-copied"):
        process = pipeline.command("savepoint", str(kept), arm=[point])
        process.await_point(point)
        process.kill()
        assert list((pipeline.location / "pins").iterdir()) != []
        assert [each["is_savepoint"] for each in facts(pipeline, eos, "list", str(kept))["savepoints"]] in ([], [False])
    folder = take(pipeline, eos, kept)
    assert list(kept.iterdir()) == [folder], "what the killed ones left is swept away"
    assert list((pipeline.location / "pins").iterdir()) == []

    pipeline.workload.produce(_LATER)
    process = pipeline.command("run", "--until-caught-up", arm=["closed@2"])
    process.await_point("closed@2")
    process.kill()
    lacking = eos.run(["savepoint", str(pipeline.write_spec()), str(kept)], pipeline.environment).output
    assert "does not hold checkpoint 2: committed in the sinks" in " ".join(lacking.split()), lacking
    succeed(pipeline, eos)
    assert facts(pipeline, eos, "inspect", str(take(pipeline, eos, kept)))["checkpoint_id"] == 2
    options = ("--until-caught-up", "--from-savepoint", str(folder), "--accept-duplicates")
    life = pipeline.head.incarnation
    process = pipeline.command("run", *options, arm=["before-restore"])
    process.await_point("before-restore")
    process.kill()
    assert len(list((pipeline.location / "spark").iterdir())) == 2
    pipeline.workload.produce(_NEW)
    succeed(pipeline, eos)  # nothing has begun: the old life goes on
    assert pipeline.head.incarnation == life
    pipeline.assert_exact(at_least=_FIRST + _LATER + _NEW)

    process = pipeline.command("run", *options, arm=["after-restore"])
    process.await_point("after-restore")
    process.kill()
    assert pipeline.head.completed == 1
    refused = run(pipeline, eos)
    assert (refused.code, "was cut short" in refused.output) == (1, True), refused.output
    pipeline.workload.repeat(_FIRST)
    succeed(pipeline, eos, *options[1:])
    verdict = pipeline.verdict()
    assert (verdict.duplicated, verdict.lost, verdict.unexpected) == (_LATER + _NEW, 0, 0), str(verdict)
    assert len(list((pipeline.location / "spark").iterdir())) == 1, "what the killed ones left is swept away"


@pytest.mark.timeout(900)
def test_state_and_positions_follow_their_names(
    pipeline: Pipeline, eos: CommandLine, topic: TopicFactory, tmp_path: Path
) -> None:
    """A step with state is dropped, and a source comes before the one there was: Spark's numbers all change."""
    keep_ids(pipeline)
    twice = {"name": "twice", "python": "once:once", "from": "once", "options": {"column": "payload"}}
    pipeline.spec["transforms"].append(twice)
    pipeline.spec["sinks"][0]["from"] = "twice"
    pipeline.workload.produce(_FIRST)
    succeed(pipeline, eos)

    # A run by other steps is refused, by their places here and by the types of their state in Spark.
    once = pipeline.spec["transforms"][1]
    pipeline.spec["transforms"][1:] = [{**twice, "from": "rows"}, {**once, "from": "twice"}]
    pipeline.spec["sinks"][0]["from"] = "once"
    refused = run(pipeline, eos)
    assert (refused.code, "steps that keep state stand in another order than before" in refused.output) == (1, True)
    pipeline.spec["transforms"][1:] = [once, {**twice, "options": {"column": "id"}}]
    pipeline.spec["sinks"][0]["from"] = "twice"
    pipeline.workload.repeat(1)
    refused = run(pipeline, eos)
    assert (refused.code, "the state that there is was kept by other steps" in refused.output) == (1, True)

    # A savepoint knows the state by the steps that made it.
    folder = take(pipeline, eos, tmp_path / "kept")
    found = facts(pipeline, eos, "inspect", str(folder))
    assert [(each["step"], each["state"]) for each in found["operators"]] == [("twice", "string"), ("once", "bigint")]

    other = topic(partitions=1)
    pipeline.spec["sources"].insert(0, {**pipeline.source, "name": "other", "topics": [other]})
    columns = "SELECT id, word, payload FROM"
    pipeline.spec["transforms"] = [
        {"name": "rows", "sql": f"{columns} other UNION ALL {columns} incoming"},
        once,
    ]
    pipeline.spec["sinks"][0]["from"] = "once"
    pipeline.workload.repeat(_FIRST)
    pipeline.workload.direct(other, 1)
    pipeline.workload.produce(_NEW)
    refused = run(pipeline, eos, "--from-savepoint", str(folder))
    assert refused.code == 1, refused.output
    for told in ("source other: added", "step twice: dropped", "state of twice", "--allow-non-restored-state"):
        assert told in refused.output, (told, refused.output)
    succeed(pipeline, eos, "--from-savepoint", str(folder), "--allow-non-restored-state")
    pipeline.assert_exact(at_least=_FIRST + _NEW)
    assert pipeline.head.positions["other"] == {f"{other}/0": _NEW}

    # A step that is added begins empty, and the other one still knows its ids.
    folder = take(pipeline, eos, tmp_path / "kept")
    completed = pipeline.head.completed
    pipeline.spec["transforms"].append({**twice})
    pipeline.spec["sinks"][0]["from"] = "twice"
    pipeline.workload.repeat(_FIRST)
    succeed(pipeline, eos, "--from-savepoint", str(folder))
    assert pipeline.head.completed > completed
    pipeline.assert_exact(at_least=_FIRST + _NEW)

    # No step of before is left: said before anything is done, and then all state is left behind.
    folder = take(pipeline, eos, tmp_path / "kept")
    pipeline.spec["transforms"][1:] = [{**once, "name": "renamed"}]
    pipeline.spec["sinks"][0]["from"] = "renamed"
    refused = run(pipeline, eos, "--from-savepoint", str(folder))
    assert (refused.code, "state of renamed (Deduplicate): begins empty" in refused.output) == (1, True), refused.output
    before = pipeline.head.positions
    succeed(pipeline, eos, "--from-savepoint", str(folder), "--allow-non-restored-state")
    assert (pipeline.head.completed, pipeline.head.positions) == (0, before)
    pipeline.workload.produce(_NEW)
    succeed(pipeline, eos)
    pipeline.assert_exact(at_least=_FIRST + 2 * _NEW)


_COUNT = '''
import pandas as pd
from pyspark.sql.streaming import StatefulProcessor


class Count(StatefulProcessor):
    """Of each word the ids that are new, with how many there were so far."""

    def init(self, handle):
        self.count = handle.getValueState("count", "n long")
        self.seen = handle.getMapState("seen", "id long", "n long")

    def handleInputRows(self, key, rows, timers):
        count = self.count.get()[0] if self.count.exists() else 0
        for number in (int(each) for row in rows for each in row["id"]):
            if not self.seen.containsKey((number,)):
                count += 1
                self.seen.updateValue((number,), (count,))
                yield pd.DataFrame({"id": [number], "word": [key[0]], "payload": [str(count)]})
        self.count.update((count,))

    def close(self):
        pass


def counted(rows):
    columns = "id long, word string, payload string"
    return rows.groupBy("word").transformWithStateInPandas(Count(), columns, "append", "none")
'''


@pytest.mark.timeout(900)
def test_variables_of_a_state_machine_are_divided_and_moved(
    pipeline: Pipeline, eos: CommandLine, tmp_path: Path
) -> None:
    """`transformWithState` keeps several variables, and says with its full path where each one's form is told."""
    (pipeline.folder / "machine.py").write_text(_COUNT)
    pipeline.spec["transforms"] = [{"name": "rows", "python": "machine:counted", "from": "incoming"}]
    pipeline.workload.produce(_FIRST)
    succeed(pipeline, eos)
    rescale(pipeline, eos, 3)
    folder = take(pipeline, eos, tmp_path / "kept")
    shutil.rmtree(pipeline.location)
    pipeline.workload.repeat(_FIRST)
    pipeline.workload.produce(_NEW)
    pipeline.spec["checkpoint"]["location"] = "./checkpoints/döcs"
    succeed(pipeline, eos, "--from-savepoint", str(folder), "--take-over")
    rescale(pipeline, eos, 5)
    pipeline.workload.repeat(_FIRST)
    succeed(pipeline, eos)
    counts = "COUNT(*), COUNT(DISTINCT id), MIN(CAST(payload AS INT)), MAX(CAST(payload AS INT))"
    found = pipeline.table.execute(f"SELECT {counts} FROM `{TABLE}` GROUP BY word")
    each = (_FIRST + _NEW) // 10
    assert found == [(each, each, 1, each)] * 10
