"""A power cut leaves files of Spark's that were not synced empty: each record is in the sink once all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration_tests.counting import assert_counted, count_words
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from spark_jobs.observe.history.store import History

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]


@pytest.mark.timeout(900)
def test_what_a_power_cut_has_left_empty_is_made_anew(pipeline: Pipeline) -> None:
    pipeline.workload.produce(5 * CHECKPOINT_RECORDS)
    _kill_at(pipeline, "planned@1")
    _empty(_spark(pipeline) / "offsets" / "1")
    _kill_at(pipeline, "planned@3")
    _empty(_spark(pipeline) / "commits" / "1")
    _empty(_spark(pipeline) / "commits" / "2")
    pipeline.catch_up()
    pipeline.assert_exact(at_least=5 * CHECKPOINT_RECORDS)
    assert _mended(pipeline) == {"offsets/1", "commits/1", "commits/2"}

    last = pipeline.head.completed
    _empty(_spark(pipeline) / "commits" / str(last))
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    pipeline.catch_up()
    pipeline.assert_exact(at_least=6 * CHECKPOINT_RECORDS)
    assert f"commits/{last}" in _mended(pipeline)

    plan = _spark(pipeline) / "offsets" / str(pipeline.head.completed)
    _empty(plan)
    before = _files(pipeline)
    said = f"Spark's offsets/{plan.name} is empty or cut off, and checkpoint {plan.name} was decided with it"
    pipeline.start().fail(said, "restore it from a backup", "eos reset --to completed")
    assert _files(pipeline) == before


@pytest.mark.timeout(900)
def test_state_is_made_anew_by_the_batch_that_is_not_known_to_be_done(pipeline: Pipeline) -> None:
    count_words(pipeline)
    pipeline.workload.produce(4 * CHECKPOINT_RECORDS)
    _kill_at(pipeline, "planned@1")
    _empty(_spark(pipeline) / "offsets" / "1")
    _kill_at(pipeline, "planned@2")
    _empty(_spark(pipeline) / "commits" / "1")
    pipeline.catch_up()
    assert_counted(pipeline, checkpoints=4)
    assert _mended(pipeline) == {"offsets/1", "commits/1", "offsets/2"}

    for number in (2, 3):
        _empty(_spark(pipeline) / "commits" / str(number))
    before = _files(pipeline)
    pipeline.start().fail("commits/2 is empty or cut off", "begin from a savepoint")
    assert _files(pipeline) == before


def _kill_at(pipeline: Pipeline, stem: str) -> None:
    process = pipeline.start(arm=[stem])
    process.kill_at(stem)


def _empty(path: Path) -> None:
    """As ext4 leaves a file that was renamed and not synced."""
    for each in (path, path.with_name(f".{path.name}.crc")):
        assert each.stat().st_size
        each.write_bytes(b"")


def _spark(pipeline: Pipeline) -> Path:
    return pipeline.location / "spark" / pipeline.head.incarnation


def _files(pipeline: Pipeline) -> dict[Path, int]:
    return {path: path.stat().st_size for path in _spark(pipeline).rglob("*")}


def _mended(pipeline: Pipeline) -> set[str]:
    """What the history says was deleted."""
    told = History.at(pipeline.location).events(kinds=["mended"])
    return {"/".join(each.message.split(": ")[0].split("/")[-2:]) for each in told}
