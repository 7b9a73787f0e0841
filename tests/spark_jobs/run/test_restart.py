"""What a run does about an error, and which positions it begins with: decided without Spark and without services."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from connectors.spec import load_spec
from eos.errors import (
    BadRowError,
    ConnectorError,
    IdentityError,
    LostCommittableError,
    PrepareError,
    SinkUnavailableError,
    SourceError,
)
from spark_jobs.observe.history.model import Event
from spark_jobs.observe.report import Listener
from spark_jobs.query.plan import adds_expiring_state, is_stateful
from spark_jobs.query.source_offset import SourceOffset
from spark_jobs.run import runner
from spark_jobs.run.control import StopControl
from spark_jobs.run.restarting import RestartRequests
from spark_jobs.run.runner import Runner
from spark_jobs.run.starting_points import starting_points
from twophase.head_value import HeadValue
from twophase.requests import Answer, Request
from twophase.transitions import SetPositions
from twophase.values import StartingPoint

_SPEC = """
pipeline: orders
checkpoint: {location: ./checkpoints}
sources: [{name: orders, connector: kafka, bootstrap_servers: "h:1", topics: [t], format: {type: raw}}]
sinks: [{name: w, from: orders, connector: sqlite, path: ./w.db, table: t, commit: write-ahead-log}]
"""


def _stopped_by(
    error: ConnectorError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str = "exactly-once"
) -> None:
    """A run in whose first epoch a stop is requested, and then this happens."""
    path = tmp_path / "spec.yaml"
    path.write_text(_SPEC.replace("./checkpoints", f"./checkpoints, mode: {mode}"))
    run = Runner(load_spec(path, {}), cast(Any, None), Listener())

    def epoch(self: Runner, *_: object) -> None:
        self.control.requested = "SIGTERM received"
        raise error

    monkeypatch.setattr(runner.Runner, "_run_epoch", epoch)
    run.run()


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("exactly-once", "the running checkpoint was aborted: checkpoint 3"),
        ("at-least-once", "rows of the running checkpoint may come twice: checkpoint 3"),
    ],
)
def test_a_checkpoint_that_a_stop_aborted_is_a_clean_end(
    mode: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "eos.runner")
    _stopped_by(PrepareError("checkpoint 3 was cancelled"), tmp_path, monkeypatch, mode)
    assert said in caplog.text


@pytest.mark.parametrize("error", [LostCommittableError("lost"), SinkUnavailableError("decided, not committed")])
def test_a_stop_hides_no_other_error(error: ConnectorError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(type(error)):
        _stopped_by(error, tmp_path, monkeypatch)


def test_a_query_that_ended_for_a_refused_row_begins_again_and_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for each such error, whatever the restart strategy says; the same row once more ends the run."""
    path = tmp_path / "spec.yaml"
    path.write_text(_SPEC + "restart: {strategy: none}")
    events: list[Event] = []

    class Heard(Listener):
        def on_event(self, event: Event) -> None:
            events.append(event)

    run, epochs = Runner(load_spec(path, {}), cast(Any, None), Heard()), list[int]()

    def epoch(self: Runner, lasting: Any) -> None:
        epochs.append(len(epochs))
        error = BadRowError("too long")
        if len(epochs) < 3:
            lasting.period.end_query(7, error)
        raise error

    monkeypatch.setattr(runner.Runner, "_run_epoch", epoch)
    with pytest.raises(BadRowError):
        run.run()
    assert epochs == [0, 1, 2]
    assert len(events) == 1


def test_a_request_starts_the_query_again_and_is_answered_when_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the query has failed meanwhile; and not in a run that stops."""
    path = tmp_path / "spec.yaml"
    path.write_text(_SPEC)
    run = Runner(load_spec(path, {}), cast(Any, None), Listener())
    answers: list[tuple[str, Answer]] = []
    epochs: list[str] = []

    def request(name: str) -> Request:
        return Request(name, "restart", {}, 0.0, 1e12, "a test")

    def epoch(self: Runner, lasting: Any) -> None:
        lasting.restarts.reply = lambda asked, answer: answers.append((asked.id, answer))
        lasting.restarts.begin()
        lasting.restarts.done(HeadValue("orders", "i", len(epochs) + 1, ("n",)))
        epochs.append(", ".join(asked for asked, _ in answers))
        if len(epochs) == 1:
            assert lasting.restarts.ask(request("first")) is None
        elif len(epochs) == 2:
            assert not self.control.restart_requested
            lasting.restarts.ask(request("second"))
            raise SinkUnavailableError("the sink is away")
        elif len(epochs) == 3:
            self.control.requested = "stop"
            refused = lasting.restarts.ask(request("late"))
            assert refused is not None
            assert not refused.ok

    monkeypatch.setattr(runner.Runner, "_run_epoch", epoch)
    monkeypatch.setattr(runner, "pause", lambda *_: True)
    run.run()
    assert epochs == ["", "first", "first, second"]
    assert [(answer.ok, answer.message) for _, answer in answers] == [
        (True, "restarted, as epoch 2"),
        (True, "restarted, as epoch 3"),
    ]


def test_a_request_for_a_restart_that_finds_no_query_any_more_is_answered() -> None:
    answers: list[Answer] = []
    restarts = RestartRequests(StopControl(), lambda _request, answer: answers.append(answer))
    restarts.ask(Request("1", "restart", {}, 0.0, 1e12, "a test"))
    restarts.give_up("the run has ended")
    assert [each.ok for each in answers] == [False]
    restarts.give_up("the run has ended")
    assert len(answers) == 1


class _Source:
    def __init__(self, name: str = "orders", error: Exception | None = None) -> None:
        self.name, self.error = name, error

    def starting_point(self, known: StartingPoint) -> StartingPoint:
        if self.error is not None:
            raise self.error
        return StartingPoint({} if "t/0" in known.positions else {"t/0": 7}, {"t": "id"})


class _Log:
    """What Spark has planned after the newest completed checkpoint."""

    def __init__(self, plan: dict[str, SourceOffset] | None = None) -> None:
        self.plan = plan or {}

    def plan_after(self, *_: object) -> dict[str, SourceOffset]:
        return self.plan


class _Driver:
    def __init__(self, initial: dict[str, dict[str, int]], query_id: str | None = "q") -> None:
        identities: dict[str, dict[str, str]] = {name: {} for name in initial}
        self.owned = HeadValue("p", "i" * 20, 1, (), initial=initial, identities=identities, query_id=query_id)

    def store_positions(self, source: str, began: StartingPoint) -> None:
        self.owned = SetPositions(source, began).apply(self.owned)


def _begin(driver: _Driver, *sources: _Source, log: _Log | None = None) -> Mapping[str, StartingPoint]:
    return starting_points(cast(Any, driver), cast(Any, sources), cast(Any, log or _Log()))


def test_initial_positions_are_asked_for_once() -> None:
    driver = _Driver({})
    driver.owned = replace(driver.owned, query_id=None)
    assert _begin(driver, _Source()) == {"orders": StartingPoint({"t/0": 7}, {"t": "id"})}
    assert driver.owned.initial == {"orders": {"t/0": 7}}
    assert _begin(_Driver({"orders": {"t/0": 3}}), _Source()) == {"orders": StartingPoint({"t/0": 3}, {})}


def test_a_source_under_another_name_is_refused() -> None:
    driver = _Driver({"sales": {"t/0": 3}})
    with pytest.raises(IdentityError, match="positions of sales; the spec's sources are orders"):
        _begin(driver, _Source())
    with pytest.raises(IdentityError, match="positions of sales; the spec's sources are sales, orders"):
        _begin(driver, _Source("sales"), _Source())
    assert driver.owned.initial == {"sales": {"t/0": 3}}


def test_a_first_start_that_failed_between_two_sources_goes_on() -> None:
    driver = _Driver({}, query_id=None)
    with pytest.raises(SourceError):
        _begin(driver, _Source(), _Source("users", SourceError("away")))
    assert set(driver.owned.initial) == {"orders"}
    assert set(_begin(driver, _Source(), _Source("users"))) == {"orders", "users"}


def test_a_split_that_an_undecided_plan_has_found_begins_where_the_plan_says() -> None:
    """Also if the source, asked again after a change of the spec, would say otherwise."""
    driver = _Driver({"orders": {"s/0": 0}})
    plan = SourceOffset("orders", {"s/0": 4, "t/0": 9}, StartingPoint({"t/0": 2}, {"t": "id of t"}))
    began = _begin(driver, _Source(), log=_Log({"orders": plan}))
    assert began == {"orders": StartingPoint({"s/0": 0, "t/0": 2}, {"t": "id of t"})}


def test_an_id_that_an_undecided_plan_has_found_is_stored() -> None:
    driver = _Driver({"orders": {"t/0": 3}})
    plan = SourceOffset("orders", {"t/0": 9}, StartingPoint({}, {"s": "id of s"}))
    began = _begin(driver, _Source(), log=_Log({"orders": plan}))
    assert began == {"orders": StartingPoint({"t/0": 3}, {"s": "id of s"})}


class _Node:
    """A logical plan as Py4J shows it."""

    def __init__(self, name: str, *below: _Node, streaming: bool = True) -> None:
        self._name, self._below, self._streaming = name, list(below), streaming

    def getClass(self) -> _Node:  # noqa: N802 Java's name
        return self

    def getSimpleName(self) -> str:  # noqa: N802 Java's name
        return self._name

    def isStreaming(self) -> bool:  # noqa: N802 Java's name
        return self._streaming

    def children(self) -> _Node:
        return self

    def iterator(self) -> _Iterator:
        return _Iterator(self._below)

    def queryExecution(self) -> _Node:  # noqa: N802 Java's name
        return self

    def analyzed(self) -> _Node:
        return self

    @property
    def _jdf(self) -> _Node:
        return self


class _Iterator:
    def __init__(self, nodes: list[_Node]) -> None:
        self._left = list(nodes)

    def hasNext(self) -> bool:  # noqa: N802 Java's name
        return bool(self._left)

    def next(self) -> _Node:
        return self._left.pop(0)


@dataclass
class _Mode:
    """A time mode of Spark's."""

    name: str

    def toString(self) -> str:  # noqa: N802 Java's name
        return self.name


class _StateNode(_Node):
    """A `transformWithState` with a time mode."""

    def __init__(self, mode: str, *below: _Node) -> None:
        super().__init__("TransformWithStateInPySpark", *below)
        self.mode = _Mode(mode)

    def timeMode(self) -> _Mode:  # noqa: N802 Java's name
        return self.mode


def test_only_state_in_processing_time_can_expire() -> None:
    stream = _Node("StreamingRelationV2")
    expiring = _Node("Project", _StateNode("ProcessingTime", stream))
    for step, expires in ((expiring, True), (_StateNode("NoTime", stream), False), (_Node("Aggregate", stream), False)):
        assert adds_expiring_state([cast(Any, stream)], cast(Any, step)) is expires
    assert not adds_expiring_state([cast(Any, expiring)], cast(Any, _Node("Project", expiring))), "an earlier step's"


@pytest.mark.parametrize("name", ["Except", "Intersect", "Distinct", "Aggregate"])
def test_what_becomes_an_aggregation_is_stateful(name: str) -> None:
    stream, table = _Node("StreamingRelationV2"), _Node("Range", streaming=False)
    assert is_stateful(cast(Any, _Node("Project", _Node(name, stream, table))))
    assert not is_stateful(cast(Any, _Node("Project", _Node(name, table, table, streaming=False), streaming=False)))
    assert not is_stateful(cast(Any, _Node("Project", stream)))
