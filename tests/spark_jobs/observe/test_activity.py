"""The activity of a run in words: the phase of its checkpoint by the driver's action, and the reason for a wait."""

from __future__ import annotations

import pytest

from spark_jobs.observe.activity import checkpoint_activity, idle_activity
from twophase.doing import ADMIT, Doing
from twophase.messages import Commit


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        ("Permit", "start"),
        ("RunWriters", "tasks"),
        ("Swap decide", "decide"),
        (ADMIT, "wait"),
        ("Commit", "commit"),
        ("Unknown", "start"),
    ],
)
def test_the_phase_is_that_of_the_action(name: str, phase: str) -> None:
    found = checkpoint_activity(7, 100.0, Doing(name, ("warehouse", "archive"), 105.0))
    assert (found.phase, found.checkpoint_id, found.started_at, found.since) == (phase, 7, 100.0, 105.0)
    assert found.waits_for
    assert ("warehouse, archive" in found.waits_for) == (name != "Unknown")


def test_before_the_first_action() -> None:
    found = checkpoint_activity(7, 100.0, None)
    assert (found.phase, found.since) == ("start", 100.0)


def test_an_action_names_its_sinks() -> None:
    commit = Commit("incarnation", 3, {"warehouse": ()}, repeated=0)
    assert Doing.of("Commit", commit).sinks == ("warehouse",)


def test_between_two_checkpoints() -> None:
    assert idle_activity(1.0, 100.0, 2.5, []).due_at == 102.5
    late = idle_activity(1.0, 100.0, -2.5, [])
    assert (late.due_at, late.waits_for, late.checkpoint_id) == (None, "new records", None)
    assert "an open transaction" in idle_activity(1.0, 100.0, -2.5, ["an open transaction"]).waits_for
