"""A run from one epoch to the next, with its real head, driver and sink; Spark and Kafka are not needed for it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from connectors.registry import build_sink
from connectors.spec import Spec, load_spec
from eos.errors import ConnectorError, FencedError, IdentityError, SinkUnavailableError
from spark_jobs.observe.head_reader import read_head
from spark_jobs.observe.history.model import Event
from spark_jobs.observe.report import Listener
from spark_jobs.query.source_offset import SourceOffset
from spark_jobs.query.spark_log import LocalSparkLog
from spark_jobs.run import runner
from spark_jobs.run.open_driver import open_driver
from spark_jobs.run.recovery import recover
from spark_jobs.run.runner import Runner
from spark_jobs.savepoints import plan as plans
from spark_jobs.savepoints.plan import Operator, Plan
from twophase.documents import LocalDocuments
from twophase.values import StartingPoint

_SPEC = """
pipeline: orders
checkpoint: {location: ./state}
restart: {strategy: fixed-delay, attempts: 2, delay: 0s}
sources: [{name: orders, connector: kafka, bootstrap_servers: "h:1", topics: [t], format: {type: raw}}]
sinks: [{name: w, from: orders, connector: sqlite, path: ./w.db, table: t, commit: write-ahead-log}]
"""


class _Source:
    name, withheld_remedy, schema = "orders", "", pa.schema([("id", pa.int64())])

    def starting_point(self, known: StartingPoint) -> StartingPoint:
        return StartingPoint({} if known.positions else {"t/0": 0}, {"t": "id"})


class _Heard(Listener):
    def __init__(self) -> None:
        self.events: list[Event] = []

    def on_event(self, event: Event) -> None:
        self.events.append(event)


class _Run:
    """Epochs that come as far as the query, which is built by `builds`, one after another."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "spec.yaml").write_text(_SPEC)
        with closing(sqlite3.connect(folder / "w.db")) as database:
            database.execute("CREATE TABLE t (value BLOB)")
        self.spec: Spec = load_spec(folder / "spec.yaml", {})
        self.log = LocalSparkLog(self.spec.checkpoint.folder)
        self.heard = _Heard()
        self.builds: list[Callable[[], Any]] = []
        self.built = 0
        monkeypatch.setattr(runner, "build_source", lambda _entry: _Source())
        monkeypatch.setattr(runner, "build", self._build)

    def _build(self, *_: object, **__: object) -> Any:
        self.built += 1
        return self.builds.pop(0)()

    def run(self) -> ConnectorError:
        with pytest.raises(ConnectorError) as ended:
            Runner(self.spec, cast(Any, None), self.heard, run_id="run").run()
        return ended.value

    @property
    def folder(self) -> Path:
        head = read_head(self.spec)
        assert head is not None
        return self.log.folder(head.incarnation)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Run:
    return _Run(tmp_path, monkeypatch)


def _away() -> None:
    raise SinkUnavailableError("away")


def test_r1_a_restart_does_not_take_over_from_a_run_that_has_claimed_meanwhile(run: _Run) -> None:
    def superseded() -> None:
        sinks = [build_sink(run.spec, entry) for entry in run.spec.outputs]
        with open_driver(run.spec, sinks, run.log, session="other.0") as other:
            other.start()
        raise SinkUnavailableError("away")

    run.builds = [superseded, _away, _away]
    assert isinstance(run.run(), FencedError)
    assert run.built == 1
    head = read_head(run.spec)
    assert head is not None
    assert head.nonces[-1].startswith("other.0.")


def test_h20_no_nonce_of_a_run_is_used_twice(run: _Run) -> None:
    """An unanswered swap of one epoch would be found in what an earlier one has written.

    Each nonce ends in bits that are drawn (H33). What stands before them is unique, too.
    """
    run.builds = [_away] * 3
    assert isinstance(run.run(), SinkUnavailableError)
    head = read_head(run.spec)
    assert head is not None
    assert (run.built, head.epoch) == (3, 3)
    stems = {nonce.rpartition("-")[0] for nonce in head.nonces}
    assert len(stems) == len(head.nonces) >= 3


def test_a_repeated_failure_is_one_line_and_the_remedy_is_with_the_first(
    run: _Run, caplog: pytest.LogCaptureFixture
) -> None:
    def away() -> None:
        raise SinkUnavailableError("away", remedy="see that it runs")

    run.builds = [away] * 3
    assert isinstance(run.run(), SinkUnavailableError)
    logged = [each.getMessage() for each in caplog.records if each.name == "eos.runner"]
    assert logged == [
        "away; remedy: see that it runs (EOS-SINK-UNAVAILABLE); restarting in 0.0 s",
        "away (failure 2 in a row); restarting in 0.0 s",
    ]


def test_what_a_power_cut_has_left_is_gone_before_spark_begins(run: _Run) -> None:
    found: list[bool] = []

    def cut() -> None:
        (run.folder / "offsets").mkdir(parents=True)
        (run.folder / "offsets" / "0").write_bytes(b"")
        raise SinkUnavailableError("the machine lost power")

    def look() -> None:
        found.append((run.folder / "offsets" / "0").exists())
        _away()

    run.builds = [cut, look, look]
    assert isinstance(run.run(), SinkUnavailableError)
    assert found == [False, False]
    assert [event.kind for event in run.heard.events].count("mended") == 1


def test_a_split_that_a_replanned_checkpoint_has_found_begins_where_it_was_found(run: _Run) -> None:
    """Retention deletes its first records meanwhile: found later, it would begin behind them without an error."""
    sinks = [build_sink(run.spec, entry) for entry in run.spec.outputs]
    with recover(run.spec, sinks, run.log, None, session="a.0", sources=[cast(Any, _Source())]) as recovered:
        folder = run.log.folder(recovered.driver.owned.incarnation)
    found = StartingPoint({"t/1": 40}, {})
    (folder / "offsets").mkdir(parents=True)
    plan = json.dumps(SourceOffset("orders", {"t/0": 9, "t/1": 70}, found).to_json())
    (folder / "offsets" / "0").write_text(f"v1\n{{}}\n{plan}")
    with recover(run.spec, sinks, run.log, None, session="b.0", sources=[cast(Any, _Source())], overran=0) as recovered:
        assert not (folder / "offsets" / "0").exists()
        assert recovered.began["orders"].positions == {"t/0": 0, "t/1": 40}


def test_steps_that_keep_state_do_not_begin_in_each_others_places(run: _Run, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = Operator("one", "Aggregate", ": count(int)"), Operator("other", "Aggregate", ": count(int)")

    def plan(*operators: Operator) -> Plan:
        return Plan(("orders",), operators, {}, "")

    def kept() -> None:
        head = read_head(run.spec)
        assert head is not None
        plans.keep(LocalDocuments(run.log.location), head.incarnation, plan(one, other))
        raise SinkUnavailableError("away")

    flow = SimpleNamespace(branches=())
    run.builds = [kept, lambda: SimpleNamespace(stateful=False, rows=None, columns={}, flow=flow), _away]
    monkeypatch.setattr(runner, "plan_of", lambda *_: plan(other, one))
    ended = run.run()
    assert isinstance(ended, IdentityError)
    assert "steps that keep state stand in another order than before" in ended.message
    assert run.built == 2
