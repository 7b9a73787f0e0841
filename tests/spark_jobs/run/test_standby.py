"""A standby waits as long as a driver answers, and no longer."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from connectors.spec import Spec
from eos.errors import HeadError
from spark_jobs.run import standby
from spark_jobs.run.requests import RequestLoop
from twophase.local_blobs import LocalBlobStore
from twophase.requests import ALIVE, Answer, Channel


class Shelf(LocalBlobStore):
    """Of a head that may be away."""

    poll_interval_s = 0.02  # type: ignore[misc]
    is_away = False

    def put(self, name: str, content: bytes) -> bool:
        if self.is_away:
            raise HeadError("head is away")
        return super().put(name, content)


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    (tmp_path / "requests").mkdir()
    found = Shelf(tmp_path / "requests")
    monkeypatch.setattr(standby, "open_requests", lambda _spec: nullcontext(Channel(found)))
    monkeypatch.setattr(standby, "SILENCE_S", 1.5)
    monkeypatch.setattr(standby, "_EVERY_S", 0.02)
    return found


@contextmanager
def driver(shelf: Shelf, *, answers: bool = True) -> Iterator[RequestLoop]:
    """One that runs the pipeline, for this block."""
    handler = (lambda _: Answer(ok=True, message="it runs")) if answers else (lambda _: None)
    loop = RequestLoop(Channel(shelf), {ALIVE: handler})
    loop.start()
    try:
        yield loop
    finally:
        loop.stop_listening()


class Waiting:
    """A standby in a thread."""

    def __init__(self, folder: Path, *, is_shared: bool = True) -> None:
        checkpoint = SimpleNamespace(is_shared=is_shared, folder=folder)
        self.spec = cast(Spec, SimpleNamespace(checkpoint=checkpoint, pipeline="p"))
        self.states: list[str] = []
        self.is_stopping = False
        self.begins: bool | None = None
        self._thread = threading.Thread(target=self._wait, daemon=True)
        self._thread.start()

    def _wait(self) -> None:
        self.begins = standby.await_turn(self.spec, lambda: self.is_stopping, self.states.append)

    def ended(self, seconds: float = 20.0) -> bool | None:
        """Whether it begins; None: it still waits."""
        self._thread.join(seconds)
        return self.begins


def test_it_begins_at_once_where_no_other_machine_can_run_the_pipeline(tmp_path: Path, shelf: Shelf) -> None:
    assert Waiting(tmp_path, is_shared=False).ended() is True
    assert shelf.names() == []


def test_it_begins_after_a_silence(tmp_path: Path, shelf: Shelf) -> None:
    begin = time.monotonic()
    waiting = Waiting(tmp_path)
    assert waiting.ended() is True
    assert time.monotonic() - begin >= 1.5
    assert waiting.states == ["standby for a driver on another machine"]
    assert shelf.names() == [], "it leaves no request behind"


def test_it_waits_while_a_driver_answers(tmp_path: Path, shelf: Shelf) -> None:
    with driver(shelf):
        waiting = Waiting(tmp_path)
        assert waiting.ended(4.0) is None
    assert waiting.ended() is True
    assert shelf.names() == []


def test_a_driver_that_no_longer_answers_is_taken_for_dead(tmp_path: Path, shelf: Shelf) -> None:
    with driver(shelf) as living:
        waiting = Waiting(tmp_path)
        assert waiting.ended(2.5) is None
        living.stop_listening()  # as one that is frozen
        assert waiting.ended() is True


def test_it_ends_with_a_pipeline_that_is_stopped_by_request(tmp_path: Path, shelf: Shelf) -> None:
    channel = Channel(shelf)
    with driver(shelf):
        waiting = Waiting(tmp_path)
        assert waiting.ended(2.5) is None
        channel.note_stopped(channel.ask("stop", {}, asked_by="somebody", patience_s=60))
        assert waiting.ended() is False


def test_it_ends_with_a_driver_on_this_machine_that_a_request_has_ended_at_once(
    tmp_path: Path, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver is gone before the standby looks for it the next time."""
    channel, locks = Channel(shelf), [SimpleNamespace(pid=1, host="here")]
    monkeypatch.setattr(standby, "_running", lambda _spec: locks[-1] if locks else None)
    monkeypatch.setattr(standby, "_EVERY_S", 2.0)
    with driver(shelf):
        waiting = Waiting(tmp_path, is_shared=False)
        assert waiting.ended(1.0) is None
        channel.note_stopped(channel.ask("stop", {}, asked_by="a user", patience_s=60))
        locks.clear()
    assert waiting.ended() is False


def test_an_older_stop_is_nothing_to_it(tmp_path: Path, shelf: Shelf) -> None:
    channel = Channel(shelf)
    older = channel.ask("stop", {}, asked_by="somebody", patience_s=60)
    channel.note_stopped(older)
    channel.forget(older)
    assert Waiting(tmp_path).ended() is True


def test_only_the_newest_stop_is_kept(shelf: Shelf) -> None:
    channel = Channel(shelf)
    assert channel.stopped() == ""
    for _ in range(3):
        request = channel.ask("stop", {}, asked_by="somebody", patience_s=60)
        channel.note_stopped(request)
        assert channel.stopped().endswith(request.id)
        channel.forget(request)
    assert len(shelf.names()) == 1


def test_it_waits_while_head_is_away(tmp_path: Path, shelf: Shelf) -> None:
    shelf.is_away = True
    waiting = Waiting(tmp_path)
    assert waiting.ended(2.0) is None
    shelf.is_away = False
    assert waiting.ended() is True


def test_it_ends_when_its_process_is_asked_to(tmp_path: Path, shelf: Shelf) -> None:
    with driver(shelf):
        waiting = Waiting(tmp_path)
        assert waiting.ended(0.5) is None
        waiting.is_stopping = True
        assert waiting.ended() is False


def test_a_driver_that_a_standby_watches_looks_for_requests_each_second(shelf: Shelf) -> None:
    seldom: Any = SimpleNamespace(poll_interval_s=5.0)
    loop = RequestLoop(Channel(seldom), {})
    assert loop._interval_s() == 5.0
    loop._handle(Channel(shelf).ask(ALIVE, {}, asked_by="a standby", patience_s=60))
    assert loop._interval_s() == 1.0
