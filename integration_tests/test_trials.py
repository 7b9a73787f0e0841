"""The kills that Flink's sink was tried with (docs/explanation/reliability.md), one at a time."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from integration_tests.chaos.trials import KILLED_IN, POINTS, Identity, trial
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS
from integration_tests.services import Services


@pytest.mark.in_turns
@pytest.mark.usefixtures("_first_run")
@pytest.mark.parametrize("when", POINTS)
@pytest.mark.parametrize("identity", get_args(Identity))
def test_killed_and_started_again(services: Services, tmp_path: Path, when: str, identity: Identity) -> None:
    found = trial(services, tmp_path / "trial", when, identity)
    assert found.is_well, found
    done = KILLED_IN + (when == "committed")
    assert found.rows_visible == done * CHECKPOINT_RECORDS
    assert (found.xa_prepared_after_kill > 0) == (when == "prepared")
    if identity == "fresh":  # refused, it changes nothing
        assert found.rerun_rows == found.rows_visible
        assert found.xa_prepared_after_rerun == found.xa_prepared_after_kill
        assert "belongs to another incarnation" in found.rerun_says
