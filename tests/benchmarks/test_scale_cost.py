"""The figures of docs/explanation/scale.md: every second of the driver's is counted once, in the right part."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.coordinator.coordinator import Coordinator, Size
from benchmarks.scale.cost import cost

_LINE = {
    "checkpoint_id": 3,
    "Permit": 0.001,
    "RunWriters": 0.5,
    "Acknowledgements": 0.002,
    "PutRecord": 0.003,
    "Swap decide": 0.004,
    "Emit": 0.0,
    "Commit": 0.1,
    "Revoke": 0.01,
    "ListPrepared": 0.02,
    "Swap committed": 0.004,
    "CommitBack": 0.005,
    "Prune": 0.03,
    "Checkpoint": 0.7,
}


def test_what_is_the_protocols_and_what_is_the_databases() -> None:
    found = cost([_LINE] * 3, of_s=1.0)
    assert found.facts() == {
        "exactly_once_share": 0.202,
        "protocol_ms": 102.0,
        "protocol_share": 0.102,
        "commits_ms": 100.0,
        "commits_share": 0.1,
        "protocol_parts_ms": {
            "acknowledgements": 2.0,
            "permits": 11.0,
            "counts": 0.0,
            "state": 0.0,
            "record": 3.0,
            "head": 8.0,
            "listing": 20.0,
            "pruning": 30.0,
            "offsets": 5.0,
            "telling": 0.0,
            "steps": 23.0,
        },
    }


def test_a_checkpoint_that_was_tried_again_is_not_counted() -> None:
    with pytest.raises(ValueError, match="not straight: Swap abort"):
        cost([_LINE, {**_LINE, "Swap abort": 0.1}], of_s=1.0)


@pytest.mark.parametrize("pruned", [False, True])
def test_all_that_a_driver_does_is_of_a_part(tmp_path: Path, pruned: bool) -> None:
    size = Size(tasks=2, sinks=1, splits=2, stored=4, pruned=pruned)
    with Coordinator(tmp_path, size, threads=False) as coordinator:
        coordinator.complete(coordinator.batch())
        line = {**coordinator.driver.durations_s, "checkpoint_id": 1, "Acknowledgements": 0.0, "Checkpoint": 60.0}
    assert ("Prune" in line) == pruned
    found = cost([line], of_s=60.0)
    assert found.protocol_s + found.commits_s + line["RunWriters"] == pytest.approx(60)
