"""A pause: answered once no checkpoint runs, stored beside head, and found by the next start."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from connectors.registry import open_requests
from connectors.spec import Spec
from spark_jobs.cli import output, run_command_line
from spark_jobs.observe.report import Listener
from spark_jobs.observe.run_lock import present
from spark_jobs.query.pacing.admission import FixedAdmission
from spark_jobs.query.pacing.pacing import Pacing, Schedule
from spark_jobs.query.pacing.turns import Pace
from spark_jobs.run.control import StopControl
from spark_jobs.run.pausing import Pausing
from spark_jobs.run.requests import RequestLoop, RunRequests
from tests.spark_jobs.run.test_requests import channel, spec
from twophase.requests import PAUSED, Answer, Channel, Paused

__all__ = ["channel", "spec"]


@pytest.fixture(autouse=True)
def _as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output.out, "as_json", False)


@dataclass
class _Told(Listener):
    states: list[str] = field(default_factory=list)

    def on_state(self, text: str) -> None:
        self.states.append(text)


@dataclass
class _Run:
    """A run of a pipeline: its request loop, its pause, and a query."""

    channel: Channel
    folder: Path
    control: StopControl = field(default_factory=StopControl)
    told: _Told = field(default_factory=_Told)

    def __post_init__(self) -> None:
        self.pausing = Pausing(self.control, self.channel, self.told, lambda *both: self.loop.answer(*both))
        handlers: Any = {"pause": self.pausing.pause, "resume": self.pausing.resume}
        self.loop = RequestLoop(self.channel, handlers)
        self.pacing = Pacing(Schedule(0.0, 0.0), FixedAdmission(None), self.folder / "pace.json")
        self.pausing.begin()
        self.loop.start()

    def start_query(self) -> None:
        head: Any = SimpleNamespace(completed=7, committed=6)
        self.pausing.follow(lambda: head, self.pacing)

    def is_due(self) -> bool:
        """Whether the planner may plan a checkpoint."""
        pace = Pace.read(self.pacing.path)
        assert pace is not None
        return pace.due_s < time.monotonic()

    def close(self) -> None:
        self.loop.stop_listening()
        self.pausing.close()
        self.loop.close(lambda _: Answer(ok=False, message="the run has ended"))


@pytest.fixture
def run(channel: Channel, tmp_path: Path) -> Iterator[_Run]:
    found = _Run(channel, tmp_path)
    yield found
    found.close()


def _await(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _ask(channel: Channel, kind: str) -> Callable[[], Answer | None]:
    request = channel.ask(kind, {}, asked_by="a test", patience_s=60)
    return lambda: channel.answer_of(request)


def _answer(channel: Channel, kind: str) -> Answer:
    answer_of = _ask(channel, kind)
    _await(lambda: answer_of() is not None)
    return cast(Answer, answer_of())


def test_a_pause_is_answered_when_the_checkpoint_is_over(run: _Run, channel: Channel) -> None:
    run.start_query()
    assert run.is_due()
    with run.control.checkpoint(cast(Any, None)):
        answer_of = _ask(channel, "pause")
        _await(lambda: channel.paused() is not None and run.control.is_paused())
        time.sleep(0.3)
        assert answer_of() is None
    _await(lambda: answer_of() is not None)
    answer = cast(Answer, answer_of())
    assert (answer.ok, answer.message, answer.facts["completed"]) == (True, "paused", 7)
    assert run.told.states == ["paused"]
    assert not run.is_due()
    run.pacing.ask()  # a request for a checkpoint does not undo the pause
    assert not run.is_due()

    assert _answer(channel, "resume").message == "resumed"
    assert run.told.states == ["paused", "running"]
    assert run.is_due()
    assert channel.paused() is None
    assert _answer(channel, "resume").message == "the pipeline was not paused"


def test_a_resume_before_the_checkpoint_is_over(run: _Run, channel: Channel) -> None:
    run.start_query()
    with run.control.checkpoint(cast(Any, None)):
        answer_of = _ask(channel, "pause")
        _await(run.control.is_paused)
        assert _answer(channel, "resume").ok
        _await(lambda: answer_of() is not None)
    assert not cast(Answer, answer_of()).ok
    assert "paused" not in run.told.states


def test_the_next_start_is_paused(channel: Channel, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "eos.runner")
    channel.pause("ann at here")
    channel.pause("bob at there")
    run = _Run(channel, tmp_path)
    try:
        assert run.control.is_paused()
        run.start_query()
        assert not run.is_due()
        assert "by ann at here; `eos resume` lets it take checkpoints" in caplog.text
        assert _answer(channel, "resume").ok
        assert run.is_due()
    finally:
        run.close()


def test_a_run_that_ends_answers(channel: Channel, tmp_path: Path) -> None:
    run = _Run(channel, tmp_path)
    with run.control.checkpoint(cast(Any, None)):
        answer_of = _ask(channel, "pause")
        _await(run.control.is_paused)
        run.close()
    answer = cast(Answer, answer_of())
    assert (answer.ok, answer.message) == (False, "the run has ended; its next start is paused")
    assert channel.paused() is not None


@pytest.mark.parametrize("content", [b"", b"[]", b'{"format": 2, "until": 7}', b'{"format": 1}'])
def test_a_wish_that_cannot_be_read_is_one(channel: Channel, content: bytes) -> None:
    channel.blobs.put(PAUSED, content)
    assert channel.paused() == Paused("a wish that this version cannot read", 0.0)
    assert channel.pending() == ()
    channel.sweep()
    assert channel.paused() is not None


def test_the_commands_of_a_pipeline_that_does_not_run(
    spec: Spec, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if spec.checkpoint.head is not None:
        pytest.skip("another machine may run it")
    path = str(tmp_path / "orders.yaml")
    assert run_command_line(["pause", path]) == 0
    assert capsys.readouterr().out == "orders does not run; its next start is paused.\n"
    assert run_command_line(["status", path]) == 0
    assert "paused since" in capsys.readouterr().out
    assert run_command_line(["status", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["paused"]["by"]
    assert run_command_line(["resume", path, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["ok"], facts["resumed"], facts["running"]) == (True, True, False)
    with open_requests(spec) as channel:
        assert channel.paused() is None


def test_the_commands_of_a_pipeline_that_runs(
    spec: Spec, run: _Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, ended = str(tmp_path / "orders.yaml"), threading.Event()
    run.start_query()
    with present(spec, "mine"):
        with run.control.checkpoint(cast(Any, None)):
            threading.Timer(0.3, ended.set).start()
            assert run_command_line(["pause", path, "--timeout", "200ms"]) == 1
            assert "its next start" not in capsys.readouterr().out
            assert ended.wait(10)
        assert run_command_line(["pause", path]) == 0
        assert capsys.readouterr().out == "orders is paused.\n"
        assert run_command_line(["resume", path]) == 0
        assert capsys.readouterr().out == "orders is not paused.\n"
    assert run.told.states[-1] == "running"


def test_a_refused_pause_holds_for_the_next_start(
    spec: Spec, channel: Channel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop = RequestLoop(channel, {})
    loop.start()
    with present(spec, "mine"):
        assert run_command_line(["pause", str(tmp_path / "orders.yaml")]) == 1
    loop.close(lambda _: Answer(ok=False, message="over"))
    shown = capsys.readouterr().err
    assert "cannot do this: pause" in shown
    assert "the next start of orders is paused" in shown
    assert channel.paused() is not None


def test_a_run_that_ends_while_the_pause_waits(
    spec: Spec, channel: Channel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = _Run(channel, tmp_path)

    def end() -> None:
        _await(run.control.is_paused)
        run.close()

    ending = threading.Thread(target=end)
    with present(spec, "mine"), run.control.checkpoint(cast(Any, None)):
        ending.start()
        assert run_command_line(["pause", str(tmp_path / "orders.yaml")]) == 1
    ending.join()
    assert "the run has ended; its next start is paused" in capsys.readouterr().err
    assert channel.paused() is not None


def test_a_resume_that_overtakes_a_pause_leaves_no_wish(
    spec: Spec, run: _Run, channel: Channel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def resume() -> None:
        _await(run.control.is_paused)
        channel.ask("resume", {}, asked_by="a test", patience_s=60)

    resuming = threading.Thread(target=resume)
    with present(spec, "mine"), run.control.checkpoint(cast(Any, None)):
        resuming.start()
        assert run_command_line(["pause", str(tmp_path / "orders.yaml")]) == 1
    resuming.join()
    shown = capsys.readouterr().err
    assert "resumed before its checkpoint had ended" in shown
    assert "next start" not in shown
    assert channel.paused() is None


@pytest.mark.parametrize("is_wished", [True, False])
def test_a_pause_that_a_start_finds(spec: Spec, channel: Channel, is_wished: bool) -> None:
    """The wish is stored, and the request arrives before the run reads requests."""
    if is_wished:
        channel.pause("ann")
    answer_of, other = _ask(channel, "pause"), _ask(channel, "checkpoint")
    control = StopControl()
    with RunRequests(spec, [], control, channel, Listener()).heard(lambda: Answer(ok=True, message="over")):
        _await(lambda: answer_of() is not None)
        assert control.is_paused() == is_wished
    answer = cast(Answer, answer_of())
    assert (answer.ok, answer.message == "paused") == (is_wished, is_wished)
    assert "ask again" in cast(Answer, other()).message
    assert (channel.paused() is not None) == is_wished
