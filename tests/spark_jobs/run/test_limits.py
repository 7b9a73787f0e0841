"""How far a sink may be behind, as its `max_backlog` says."""

from __future__ import annotations

from pathlib import Path

import pytest

from connectors.spec import load_spec
from eos.errors import SpecError
from spark_jobs.run.open_driver import limits_of
from twophase.backlog import NO_LIMITS, Limit

_SPEC = """\
pipeline: orders
checkpoint: {location: ./checkpoints, mode: MODE}
sources: [{name: orders, connector: kafka, bootstrap_servers: "h:1", topics: [t], format: {type: raw}}]
sinks:
  - {name: plain, from: orders, connector: sqlite, path: ./w.db, table: t, commit: write-ahead-log}
  - {name: log, from: orders, connector: sqlite, path: ./w.db, table: u, commit: write-ahead-log,
     max_backlog: {checkpoints: 100, bytes: 1KiB}}
  - {name: locks, from: orders, connector: mysql, url: "mysql+pymysql://u:p@h/d", table: t, commit: two-phase,
     max_backlog: BACKLOG}
"""


def _limits(tmp_path: Path, *, backlog: str = "{checkpoints: 2}", mode: str = "exactly-once") -> dict[str, Limit]:
    path = tmp_path / "spec.yaml"
    path.write_text(_SPEC.replace("BACKLOG", backlog).replace("MODE", mode))
    return dict(limits_of(load_spec(path, {})))


def test_only_a_sink_with_a_log_may_be_away(tmp_path: Path) -> None:
    assert _limits(tmp_path) == {
        "plain": Limit(),
        "log": Limit(100, 1024, outlasts_outages=True),
        "locks": Limit(2),
    }


def test_at_least_once_no_row_waits(tmp_path: Path) -> None:
    assert _limits(tmp_path, mode="at-least-once") == NO_LIMITS


@pytest.mark.parametrize(
    ("backlog", "found"),
    [
        ("{checkpoints: 100}", "100 checkpoints: their prepared transactions keep locks in the database"),
        ("{checkpoints: 1, bytes: 1MiB}", "'bytes' counts what waits in a log"),
    ],
)
def test_few_checkpoints_may_wait_as_prepared_transactions(tmp_path: Path, backlog: str, found: str) -> None:
    with pytest.raises(SpecError, match=found):
        _limits(tmp_path, backlog=backlog)
