"""The history of a pipeline that is killed and started again: it spans both, and says what head says."""

from __future__ import annotations

import math

import pytest

from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from spark_jobs.observe.history.model import Checkpoint, of_record
from spark_jobs.observe.history.store import History
from twophase.local_head import LocalHead
from twophase.status import read_status

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_KILLED = 2
_CHECKPOINTS = 6


@pytest.mark.timeout(300)
def test_it_spans_a_kill_and_a_restart_and_says_what_head_says(pipeline: Pipeline) -> None:
    history = History.at(pipeline.location)
    pipeline.workload.produce(_CHECKPOINTS * CHECKPOINT_RECORDS)
    process = pipeline.start(arm=[f"after-decide@{_KILLED}"])
    process.await_point(f"after-decide@{_KILLED}")
    assert [each.checkpoint_id for each in history.checkpoints()] == [1, 0], "readable beside the writer"
    process.kill()
    pipeline.catch_up()
    pipeline.assert_exact(at_least=_CHECKPOINTS * CHECKPOINT_RECORDS)

    found = {each.checkpoint_id: each for each in history.checkpoints()}
    status = read_status(LocalHead(pipeline.location))
    assert status is not None
    assert list(found) == [each.checkpoint_id for each in status.checkpoints] == [5, 4, 3, 2, 1, 0]
    for record in status.checkpoints:
        _same_figures(found[record.checkpoint_id], of_record(record))
        detail = history.checkpoint(record.checkpoint_id)
        assert detail is not None
        assert detail.ranges == record.ranges
        assert sum(each.rows for each in detail.acknowledgements) == record.rows
    totals = history.totals()
    assert totals.checkpoints == _CHECKPOINTS
    assert totals.records == totals.rows == _CHECKPOINTS * CHECKPOINT_RECORDS

    assert all(each.is_committed and each.committed_at is not None for each in found.values())
    unseen = found.pop(_KILLED)  # decided by a driver that did not live to tell it
    assert (unseen.session, unseen.replayed, unseen.phases.start_s) == ("", True, None)
    for each in found.values():
        _adds_up(each)
    told = {number for number, each in found.items() if each.phases.plan_s is not None}
    assert told >= found.keys() - {_KILLED - 1}, "Spark tells a plan with the checkpoint after it, or a second later"
    newer, older = history.runs()
    assert (newer.ended, older.ended) == ("caught up", None)
    assert {each.session for each in found.values()} == {newer.run_id, older.run_id}


def _same_figures(one: Checkpoint, other: Checkpoint) -> None:
    def figures(of: Checkpoint) -> tuple[object, ...]:
        sinks = [(each.sink, each.rows, each.bytes, each.writers) for each in of.sinks]
        return of.epoch, of.attempt, of.started_at, of.decided_at, of.records, of.mode, sinks

    assert figures(one) == figures(other)


def _adds_up(of: Checkpoint) -> None:
    """Every phase but waiting takes time, and together they are the duration."""
    seconds = dict(of.phases.items())
    assert of.duration_s is not None
    assert sum(each or 0.0 for each in seconds.values()) == pytest.approx(of.duration_s, abs=0.001)
    assert all(seconds[name] for name in ("start", "read", "write", "prepare", "decide", "commit")), seconds
    assert math.isclose(seconds["wait"] or 0.0, 0.0)
