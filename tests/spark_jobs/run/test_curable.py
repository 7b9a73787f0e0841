"""Which errors a restart may cure, and which end a run at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from connectors.spec import load_spec
from eos import errors
from eos.errors import ConnectorError
from spark_jobs.observe.report import Listener
from spark_jobs.run import runner
from spark_jobs.run.runner import Runner

_SPEC = """
pipeline: orders
checkpoint: {location: ./checkpoints}
restart: {strategy: fixed-delay, attempts: %d, delay: 0s}
sources: [{name: orders, connector: kafka, bootstrap_servers: "h:1", topics: [t], format: {type: raw}}]
sinks: [{name: w, from: orders, connector: sqlite, path: ./w.db, table: t, commit: write-ahead-log}]
"""


def _end(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    epochs: Sequence[ConnectorError],
    *,
    attempts: int = 0,
) -> tuple[int, ConnectorError | None]:
    """Return how many epochs a run has whose epochs raise these errors, and the error that ends the run."""
    path = tmp_path / "spec.yaml"
    path.write_text(_SPEC % attempts)
    run = Runner(load_spec(path, {}), cast(Any, None), Listener())
    count = 0

    def epoch(self: Runner, *arguments: Any) -> None:
        nonlocal count
        count += 1
        raise epochs[count - 1]

    monkeypatch.setattr(runner.Runner, "_run_epoch", epoch)
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


_NAMES = {name for name in errors.__all__ if issubclass(getattr(errors, name), ConnectorError)}


@pytest.mark.parametrize("name", sorted(_NAMES - {"ConnectorError", "SinkError"}))
def test_what_no_restart_can_cure_ends_the_run_at_once(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = getattr(errors, name)("it is so")
    count, found = _end(tmp_path, monkeypatch, [error] * 3, attempts=2)
    assert (count, found) == (3 if name in _CURABLE else 1, error)
