"""R7 on real servers: what a decided checkpoint has lost is written again, once, whatever is killed meanwhile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from connectors.kafka.splits import as_offset
from integration_tests import topics
from integration_tests.counting import assert_counted, count_words
from integration_tests.harness.command_line import CommandLine
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, PARTITIONS, Pipeline
from spark_jobs.observe.history.store import History

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_RECORDS = 4 * CHECKPOINT_RECORDS


def _killed_with_checkpoint_1_decided(pipeline: Pipeline) -> None:
    pipeline.workload.produce(_RECORDS)
    process = pipeline.start(arm=["after-decide@1"])
    process.await_point("after-decide@1")
    process.kill()


def _segments(pipeline: Pipeline) -> list[Path]:
    return sorted((pipeline.location / "log").rglob("*-000000000001-*.segment"))


def _run(commands: CommandLine, pipeline: Pipeline, *arguments: str) -> tuple[int, dict[str, Any]]:
    command, *options = arguments
    ended = commands.run([command, str(pipeline.write_spec()), *options, "--json"], pipeline.environment)
    return ended.code, json.loads(ended.output[ended.output.index("{\n") :])


@pytest.mark.timeout(900)
def test_a_transaction_that_was_rolled_back_by_hand(pipeline: Pipeline) -> None:
    """Of a table with a key, so that rows are shared out; killed after the tasks have prepared, and after the swap."""
    pipeline.table.execute(f"ALTER TABLE `{pipeline.table.name}` ADD PRIMARY KEY (id)")
    pipeline.spec["spark"]["conf"] = {"spark.sql.adaptive.coalescePartitions.enabled": "false"}  # few rows, two tasks
    _killed_with_checkpoint_1_decided(pipeline)
    left = pipeline.prepared()
    assert len(left) == 2
    pipeline.table.execute(f"XA ROLLBACK {left[0]}")
    (lost,) = set(pipeline.table.prepared_ids(pipeline.head.incarnation)) ^ {
        str(each.transaction) for each in pipeline.decided().committables["warehouse"]
    }
    pipeline.start().fail("lost: checkpoint 1 is completed", lost, "eos repair SPEC")
    shown = pipeline.table.count()
    assert CHECKPOINT_RECORDS < shown < 2 * CHECKPOINT_RECORDS

    (step,) = pipeline.spec["transforms"]
    as_it_was = step["sql"]
    with CommandLine(pipeline.folder) as commands:
        code, facts = _run(commands, pipeline, "repair")
        assert (code, facts["done"]) == (0, False)
        (loss,) = facts["losses"]
        assert (loss["checkpoint_id"], loss["rows"]) == (1, 2 * CHECKPOINT_RECORDS - shown)
        assert [(each["sink"], each["transaction"]) for each in loss["lost"]] == [("warehouse", lost)]
        epoch = pipeline.head.epoch
        for sql, why in (
            ("SELECT DISTINCT id, word, payload FROM incoming", "those that made checkpoint 1 kept none"),
            (f"{as_it_was} WHERE rand() < 2", "is not deterministic"),
        ):
            step["sql"] = sql
            code, refused = _run(commands, pipeline, "repair", "--yes")
            assert (code, refused["ok"]) == (2, False)
            assert why in refused["error"]["message"]
        assert pipeline.head.epoch == epoch, "a refused repair has claimed the pipeline"
        step["sql"] = f"{as_it_was} WHERE id % 7 > 0"
        code, refused = _run(commands, pipeline, "repair", "--yes")
        assert (code, refused["error"]["kind"]) == (1, "ReplayMismatchError")
        assert "has other rows in 2 of 2 tasks" in refused["error"]["message"]
        step["sql"] = as_it_was
        assert (pipeline.table.count(), pipeline.prepared()) == (shown, [])

    for stem in ("prepared@1", "after-repair@1"):
        killed = pipeline.command("repair", "--yes", arm=[stem])
        killed.await_point(stem)
        killed.kill()
        assert (pipeline.table.count(), len(pipeline.prepared())) == (shown, 1)
    done = pipeline.command("repair", "--yes")
    done.succeed()
    assert "Nothing is lost" in done.output(), "what is prepared again is decided: a start commits it"
    pipeline.catch_up()
    pipeline.assert_exact(at_least=_RECORDS)
    with CommandLine(pipeline.folder) as commands:
        _, status = _run(commands, pipeline, "status")
    assert {each["checkpoint_id"]: each["repaired"] for each in status["checkpoints"]}[1] == 1


@pytest.mark.timeout(900)
def test_rows_that_depend_on_state(pipeline: Pipeline) -> None:
    """They are made again of the state as it was before, and known by their digests."""
    step = count_words(pipeline)
    _killed_with_checkpoint_1_decided(pipeline)
    left = pipeline.prepared()
    assert len(left) == 2
    pipeline.table.execute(f"XA ROLLBACK {left[0]}")
    pipeline.start().fail("lost: checkpoint 1 is completed", "eos repair SPEC")
    shown = pipeline.table.count()
    as_it_was = step["sql"]
    step["sql"] = as_it_was.replace("count(*)", "count(*) + 1")
    pipeline.command("repair", "--yes").fail("has other rows in 2 of 2 tasks", "with the digest")
    assert (pipeline.table.count(), pipeline.prepared()) == (shown, [])
    step["sql"] = as_it_was
    killed = pipeline.command("repair", "--yes", arm=["after-repair@1"])
    killed.await_point("after-repair@1")
    killed.kill()
    assert (pipeline.table.count(), len(pipeline.prepared())) == (shown, 1)
    assert not list((pipeline.location / "repair").iterdir())
    pipeline.catch_up()
    assert_counted(pipeline, checkpoints=_RECORDS // CHECKPOINT_RECORDS)


@pytest.mark.timeout(900)
def test_a_segment_that_is_damaged_or_gone(pipeline: Pipeline) -> None:
    """One slot of two has lost a part of its share; the other one has applied its own."""
    (sink,) = pipeline.spec["sinks"]
    sink.update(commit="write-ahead-log", slots=2)
    _killed_with_checkpoint_1_decided(pipeline)
    first, second = _segments(pipeline)
    content = bytearray(first.read_bytes())
    content[len(content) // 2] ^= 1
    first.write_bytes(content)
    pipeline.start().fail("rows of a completed checkpoint are lost", first.name, "eos repair SPEC")
    sink["slots"] = 1  # of later checkpoints
    killed = pipeline.command("repair", "--yes", arm=["before-repair@1"])
    killed.await_point("before-repair@1")
    killed.kill()
    pipeline.start().fail("rows of a completed checkpoint are lost", first.name)
    done = pipeline.command("repair", "--yes")
    done.succeed()
    assert "Lost of checkpoint 1, which is completed: 1 transaction with 250 rows." in done.output()
    assert "Done: 250 rows of checkpoint 1 were rewritten." in done.output()
    (told,) = History.at(pipeline.location).events(kinds=["repair"])
    assert "250 lost rows of checkpoint 1 were rewritten in warehouse" in told.message
    assert pipeline.table.count() == 2 * CHECKPOINT_RECORDS
    assert not first.exists()
    assert not second.exists()
    pipeline.catch_up()
    pipeline.assert_exact(at_least=_RECORDS)


@pytest.mark.timeout(600)
def test_records_that_are_gone_are_named(pipeline: Pipeline) -> None:
    _killed_with_checkpoint_1_decided(pipeline)
    for branch in pipeline.prepared():
        pipeline.table.execute(f"XA ROLLBACK {branch}")
    (ranges,) = pipeline.decided().ranges.values()
    until = {each.split: as_offset(each.start) + 10 for each in ranges}
    assert len(until) == PARTITIONS
    topics.delete_records(pipeline.source["bootstrap_servers"], until)
    gone = [f"{each.split}[{each.start}, {until[each.split]})" for each in ranges]
    pipeline.command("repair", "--yes").fail("no longer has all records of checkpoint 1", *gone, "eos reset")
    assert pipeline.prepared() == []
