"""What follows a failure: another try of the checkpoint, another query, or the end; which errors end a run at once."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from connectors.spec import load_spec
from connectors.spec.settings import CheckpointSettings
from spark_jobs.batch.tolerance import Tolerance
from spark_jobs.observe.report import Listener
from spark_jobs.run import runner
from spark_jobs.run.runner import Runner
from twophase import errors
from twophase.errors import BadRowError, ConnectorError, PrepareError, SinkUnavailableError

_SPEC = """
pipeline: orders
checkpoint: {location: ./checkpoints, tolerable_failures: %d}
restart: {strategy: fixed-delay, attempts: %d, delay: 0s}
sources: [{name: orders, connector: kafka, bootstrap_servers: "h:1", topics: [t], format: {type: raw}}]
sinks: [{name: w, from: orders, connector: sqlite, path: ./w.db, table: t, commit: write-ahead-log}]
"""


def _end(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    epochs: Sequence[ConnectorError | None],
    *,
    tolerable: int = 0,
    attempts: int = 0,
    of_checkpoints: bool = False,
) -> tuple[int, ConnectorError | None]:
    """How many epochs a run has whose epochs end so, and its error; None: a checkpoint, and then a failure of one."""
    path = tmp_path / "spec.yaml"
    path.write_text(_SPEC % (tolerable, attempts))
    run = Runner(load_spec(path, {}), cast(Any, None), Listener())
    count = 0

    def epoch(self: Runner, *arguments: Any) -> None:
        nonlocal count
        tolerance: Tolerance = arguments[-1].tolerance
        error = epochs[count]
        count += 1
        if error is None:
            tolerance.succeeded()
            error = PrepareError("a later one")
        if of_checkpoints:
            tolerance.aborted(error)
        if error.message != "the end":
            raise error

    monkeypatch.setattr(runner.Runner, "_run_epoch", epoch)
    monkeypatch.setattr(Tolerance, "pause", lambda self: True)
    try:
        run.run()
    except ConnectorError as error:
        return count, error
    return count, None


_CURABLE = {
    "CommitOutcomeUnknownError",
    "HeadError",
    "HeadUnknownError",
    "PermitRevokedError",
    "PlanOverwrittenError",
    "PrepareError",
    "RowLockedError",
    "SetBackError",
    "SinkUnavailableError",
    "SourceError",
}
"""An outage, a job that failed, a writer that came too late, a plan of two drivers. Of the others time cures none: the
spec, rights, a target or a topic that is missing, rows and records that are refused, what is lost, who is fenced, what
does not fit."""


@pytest.mark.parametrize("name", sorted(set(errors.__all__) - {"ConnectorError", "SinkError"}))
def test_what_no_restart_can_cure_ends_the_run_at_once(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = getattr(errors, name)("it is so")
    count, found = _end(tmp_path, monkeypatch, [error] * 3, attempts=2)
    assert (count, found) == (3 if name in _CURABLE else 1, error)


def _failure(number: int) -> PrepareError:
    return PrepareError(f"failure {number}")


def test_tolerated_failures_are_none_for_the_restart_strategy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = PrepareError("the end")
    in_a_row = [_failure(1), _failure(2), None, _failure(3), ended]
    assert _end(tmp_path, monkeypatch, in_a_row, tolerable=2, of_checkpoints=True) == (5, None)


def test_one_more_in_a_row_is_for_the_restart_strategy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = [_failure(n) for n in range(5)]
    found = _end(tmp_path, monkeypatch, failures, tolerable=2, attempts=1, of_checkpoints=True)
    assert found == (4, failures[3])


def test_only_failures_of_checkpoints_are_tolerated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    away = SinkUnavailableError("away, what is decided waits")
    assert _end(tmp_path, monkeypatch, [away] * 3, tolerable=2) == (1, away)
    refused = BadRowError("too long")
    assert _end(tmp_path, monkeypatch, [refused] * 3, tolerable=2, of_checkpoints=True) == (1, refused)


def test_a_pause_is_the_interval_within_bounds_and_a_stop_ends_it(caplog: pytest.LogCaptureFixture) -> None:
    stopping: list[bool] = []
    for interval_s, pause_s in ((0.0, 1.0), (5.0, 5.0), (3600.0, 60.0)):
        settings = CheckpointSettings.model_construct(
            location=Path("state"), interval_s=interval_s, tolerable_failures=1
        )
        tolerance = Tolerance.of(settings, lambda: bool(stopping))
        assert tolerance.pause_s == pause_s
    caplog.set_level(logging.WARNING, "eos.runner")
    assert tolerance.failed(_failure(1))
    assert "failure 1; tolerated, failure 1 of 1 in a row; it is run again in 60.0 s" in caplog.text
    stopping.append(True)
    before = time.monotonic()
    assert not tolerance.pause()
    assert time.monotonic() - before < 30
    tolerance.succeeded()
    assert not tolerance.failed(_failure(2)), "a pipeline that stops tries nothing again"
