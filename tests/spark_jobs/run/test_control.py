"""Stopping: no new checkpoint begins, the running one ends or is cancelled."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import pytest

from spark_jobs.batch.time_limit import ended_after
from spark_jobs.run.control import StopControl, StopRequestedError


@dataclass
class _Batch:
    cancelled: threading.Event = field(default_factory=threading.Event)
    reason: str = ""

    def cancel(self, reason: str) -> None:
        self.reason = reason
        self.cancelled.set()


@pytest.mark.parametrize("request_of", ["stop", "restart", "caught up"])
def test_no_checkpoint_begins_after_the_request(request_of: str) -> None:
    control = StopControl(
        requested="SIGTERM" * (request_of == "stop"),
        restart_requested=request_of == "restart",
        caught_up=request_of == "caught up",
    )
    assert control.ends_query()
    assert control.is_stopping() == (request_of == "stop")
    with pytest.raises(StopRequestedError), control.checkpoint(_Batch()):
        pytest.fail("it began")
    control.wait_until_idle()


def test_the_running_checkpoint_is_waited_for() -> None:
    control, batch, begun, go = StopControl(), _Batch(), threading.Event(), threading.Event()

    def run() -> None:
        with control.checkpoint(batch):
            begun.set()
            assert go.wait(10)

    thread = threading.Thread(target=run)
    thread.start()
    assert begun.wait(10)
    control.requested = "SIGTERM received"
    waiter = threading.Thread(target=control.wait_until_idle, args=(0.01,))
    waiter.start()
    waiter.join(0.1)
    assert waiter.is_alive()
    assert not batch.cancelled.is_set()
    go.set()
    waiter.join(10)
    assert not waiter.is_alive()
    thread.join()


def test_a_second_request_cancels_it() -> None:
    control, batch, begun = StopControl(), _Batch(), threading.Event()

    def run() -> None:
        with control.checkpoint(batch):
            begun.set()
            assert batch.cancelled.wait(10)

    thread = threading.Thread(target=run)
    thread.start()
    assert begun.wait(10)
    control.requested, control.abort_running = "SIGINT received", True
    control.wait_until_idle(0.01)
    thread.join()
    assert batch.reason == "SIGINT received"


def test_a_timeout_cancels_until_the_job_has_ended() -> None:
    """It comes between two stages, when there is nothing to cancel."""
    cancelled, again = threading.Event(), threading.Event()
    with ended_after(0.01, lambda: again.set() if cancelled.is_set() else cancelled.set(), again_s=0.01):
        assert again.wait(10)
    again.clear()
    assert not again.wait(0.1), "the block was left"


def test_a_pause_lets_the_running_checkpoint_end_and_no_other_one_begin() -> None:
    control, begun, go, other = StopControl(), threading.Event(), threading.Event(), threading.Event()

    def run(begins: threading.Event) -> None:
        with control.checkpoint(_Batch()):
            begins.set()
            assert go.wait(10)

    first, second = (threading.Thread(target=run, args=(each,)) for each in (begun, other))
    first.start()
    assert begun.wait(10)
    control.pause()
    assert not control.is_idle()
    go.set()
    first.join(10)
    assert control.is_idle()
    second.start()
    assert not other.wait(0.3)
    assert control.is_idle()
    control.resume()
    assert other.wait(10)
    second.join(10)


def test_a_stop_ends_a_paused_run() -> None:
    control = StopControl()
    control.pause()
    ended: list[str] = []

    def run() -> None:
        with pytest.raises(StopRequestedError), control.checkpoint(_Batch()):
            pytest.fail("it began")
        ended.append("stopped")

    thread = threading.Thread(target=run)
    thread.start()
    control.requested = "SIGTERM received"
    thread.join(10)
    assert ended == ["stopped"]
    assert control.is_idle()


def test_a_pause_that_is_answered_while_a_checkpoint_is_about_to_begin_holds_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    control, begun = StopControl(), threading.Event()
    answered: list[bool] = []
    clear = control._idle.clear

    def pause_first() -> None:
        """A request to pause, and its answer, between the first look of the beginning checkpoint and this."""
        if not answered:
            control.pause()
            answered.append(control.is_idle())
        clear()

    monkeypatch.setattr(control._idle, "clear", pause_first)

    def run() -> None:
        with control.checkpoint(_Batch()):
            begun.set()

    thread = threading.Thread(target=run)
    thread.start()
    assert not begun.wait(0.5)
    assert answered == [True]
    control.resume()
    assert begun.wait(10)
    thread.join(10)


def test_once_a_paused_run_is_idle_nothing_begins() -> None:
    """A thread that is about to begin has either begun before `is_idle`, or waits."""
    control, running, wrong = StopControl(), threading.Event(), []

    def run() -> None:
        while not control.is_stopping():
            try:
                with control.checkpoint(_Batch()):
                    running.set()
                    running.clear()
            except StopRequestedError:
                return

    thread = threading.Thread(target=run)
    thread.start()
    for _ in range(300):
        control.pause()
        while not control.is_idle():
            pass
        wrong += [each for each in (running.is_set(), not control.is_idle()) if each]
        control.resume()
    control.requested = "over"
    thread.join(10)
    assert wrong == []
