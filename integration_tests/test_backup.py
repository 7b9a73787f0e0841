"""The commands of docs/how-to/backup.md, as they stand there, on real servers."""

from __future__ import annotations

import shutil
import time

import pytest

from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from integration_tests.harness.typed import COMMAND_S, blocks, type_in

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_RECORDS = 2 * CHECKPOINT_RECORDS


def _blocks(heading: str) -> list[str]:
    return blocks("how-to/backup.md", heading)


@pytest.mark.timeout(1200)
def test_a_copy_of_everything_is_put_back(pipeline: Pipeline) -> None:
    copy, positions = _blocks("A copy of everything")
    (whole,) = _blocks("Everything is put back")
    older = "".join(_blocks("What is said if only a part is put back")[1:])
    pipeline.workload.produce(_RECORDS)
    process = pipeline.start(until_caught_up=False)
    deadline = time.monotonic() + COMMAND_S
    while pipeline.table.count() < _RECORDS:
        assert time.monotonic() < deadline, process.output()
        time.sleep(0.2)
    type_in(pipeline, positions)
    assert f'"{pipeline.workload.topic}/1": ' in (pipeline.folder / "positions.json").read_text()
    type_in(pipeline, copy)
    assert process.wait() == 0
    pipeline.assert_exact(_RECORDS)
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    pipeline.catch_up()
    pipeline.assert_exact(_RECORDS + CHECKPOINT_RECORDS)

    _, _, load, _ = whole.splitlines(keepends=True)
    assert "shop.sql" in load
    type_in(pipeline, load)
    assert pipeline.table.count() == _RECORDS
    pipeline.start().fail("sink warehouse went back in time")
    type_in(pipeline, whole)
    pipeline.assert_exact(_RECORDS + CHECKPOINT_RECORDS)

    shutil.rmtree(pipeline.location)
    shutil.copytree(pipeline.folder / "backup" / "checkpoints", pipeline.location)
    pipeline.start().fail("sink warehouse has seen epoch 2, head is at 1: head was set back")
    assert "will be written twice" in type_in(pipeline, older)
    verdict = pipeline.verdict()
    assert (verdict.lost, verdict.duplicated, verdict.unexpected) == (0, CHECKPOINT_RECORDS, 0), str(verdict)


@pytest.mark.timeout(1200)
def test_a_head_in_the_sinks_database_is_in_its_dump(pipeline: Pipeline) -> None:
    pipeline.spec["checkpoint"]["head"] = "${env:SINK_URL}"
    pipeline.workload.produce(_RECORDS)
    pipeline.catch_up()
    _, make, copy, dump, _ = _blocks("A copy of everything")[0].splitlines(keepends=True)
    type_in(pipeline, make, copy, dump)
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    pipeline.catch_up()
    (whole,) = _blocks("Everything is put back")
    type_in(pipeline, whole.splitlines(keepends=True)[2])
    pipeline.start().fail("Spark has committed batch 2, but the newest completed checkpoint is 1")
    type_in(pipeline, whole)
    assert not (pipeline.location / "head").exists()
    pipeline.assert_exact(_RECORDS + CHECKPOINT_RECORDS)


@pytest.mark.timeout(1200)
def test_what_is_lost_and_the_way_back(pipeline: Pipeline) -> None:
    """First Spark's checkpoint, then head in the middle of a checkpoint, then everything."""
    group = pipeline.workload.topic
    pipeline.source["group_id"] = group
    pipeline.workload.produce(_RECORDS)
    pipeline.catch_up()
    shutil.rmtree(pipeline.location / "spark")
    pipeline.start().fail("Spark's checkpoint is gone; head belongs to query", "eos reset --to completed")
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    type_in(pipeline, *_blocks("Spark's checkpoint is lost, head is there"))
    expected = _RECORDS + CHECKPOINT_RECORDS
    pipeline.assert_exact(expected)

    pipeline.workload.produce(CHECKPOINT_RECORDS)
    process = pipeline.start(arm=["before-decide"])
    process.await_point("before-decide")
    process.kill()
    life = pipeline.head.incarnation
    assert pipeline.prepared()
    for name in ("head", "records"):
        shutil.rmtree(pipeline.location / name)
    pipeline.start().fail(f"sink warehouse belongs to another incarnation of pipeline '{group}' ({life}")
    listed = type_in(pipeline, *_blocks("Head is lost, Spark's checkpoint is there"))
    assert listed.count("leave alone") == 2, listed
    assert pipeline.table.prepared(life) == []
    expected += CHECKPOINT_RECORDS
    pipeline.assert_exact(expected)

    shutil.rmtree(pipeline.location)
    pipeline.source["starting_offsets"] = {"group": group, "otherwise": "earliest"}
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    type_in(pipeline, *_blocks("The whole location is lost"))
    pipeline.assert_exact(expected + CHECKPOINT_RECORDS)


@pytest.mark.timeout(1200)
def test_h31_an_older_copy_of_the_sink_is_brought_forward(pipeline: Pipeline) -> None:
    """Of several checkpoints, one of them written again by a repair that is killed."""
    _, make, _, dump, _ = _blocks("A copy of everything")[0].splitlines(keepends=True)
    load = _blocks("Everything is put back")[0].splitlines(keepends=True)[2]
    (forward, *_) = _blocks("What is said if only a part is put back")
    assert "eos repair orders.yaml --yes" in forward
    pipeline.workload.produce(_RECORDS)
    pipeline.catch_up()
    type_in(pipeline, make, dump)
    pipeline.workload.produce(_RECORDS)
    pipeline.catch_up()
    lost = pipeline.head.completed
    type_in(pipeline, load)
    assert pipeline.table.count() == _RECORDS
    pipeline.start().fail("sink warehouse went back in time", "eos repair")
    killed = pipeline.command("repair", "--yes", arm=[f"after-repair@{lost}"])
    killed.await_point(f"after-repair@{lost}")
    killed.kill()
    told = type_in(pipeline, forward)
    assert f"Lost of checkpoint {lost}, which is completed" in told
    assert f"Done: {CHECKPOINT_RECORDS:,} rows of checkpoint {lost} were rewritten." in told
    pipeline.assert_exact(2 * _RECORDS)
