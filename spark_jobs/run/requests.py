"""Requests to a run: stop, restart, pause, resume, checkpoint, savepoint. Each is answered, also if the run fails."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from connectors.api.contracts import Source
from connectors.spec import Spec
from eos.errors import ConnectorError, HeadError
from spark_jobs.observe.history.model import answered
from spark_jobs.observe.report import Listener
from spark_jobs.run.checkpoint_requests import CheckpointRequests
from spark_jobs.run.control import StopControl
from spark_jobs.run.pausing import Pausing
from spark_jobs.run.restarting import RestartRequests
from spark_jobs.savepoints.take import Savepoints
from twophase.requests import ALIVE, Answer, Channel, Request

_log = logging.getLogger("eos.runner")

_SHARE: Final = 20
"""A slow poll for requests takes at most this fraction (1/20) of the time."""

_WATCHED_S: Final = 1.0
_WATCH_S: Final = 60.0
"""For this time after the request of a standby, which sends one each second, requests are polled each second too."""

Handler = Callable[[Request], Answer | None]
"""A function that performs a request and returns the answer, or begins it and returns None to answer later.

May block; other requests wait meanwhile. A ConnectorError that it raises becomes the answer.
"""


def refuse_earlier(_request: Request) -> Answer:
    """Refuse a request for an earlier run."""
    message = "the run that this was asked of has ended, and another one has begun: ask again"
    return Answer(ok=False, message=message)


class RunRequests:
    """The requests to one run, over all its queries."""

    def __init__(
        self, spec: Spec, sources: Sequence[Source], control: StopControl, channel: Channel, listener: Listener
    ) -> None:
        self._control = control
        self._channel = channel
        self._savepoints = Savepoints(spec, self._reply)
        self._stops: list[Request] = []  # answered when the run has ended
        self.checkpoint_requests = CheckpointRequests(sources, self._reply)
        self.restarts = RestartRequests(control, self._reply)
        self.pausing = Pausing(control, channel, listener, self._reply)
        handlers = {
            ALIVE: lambda _: Answer(ok=True, message="it runs"),
            "stop": self._stop,
            "restart": self.restarts.ask,
            "pause": self.pausing.pause,
            "resume": self.pausing.resume,
            "checkpoint": self._checkpoint,
            "savepoint": self._savepoints.begin,
        }
        self._steering = RequestLoop(channel, handlers, lambda request, answer: self._tell(listener, request, answer))

    def is_heard(self) -> bool:
        """Return whether the thread of the request loop is alive. May be called from any thread."""
        return self._steering.is_alive()

    @contextmanager
    def heard(self, ended: Callable[[], Answer]) -> Iterator[None]:
        """Serve requests during the block, which is the run. Answer stop requests with its error, or `ended()`."""
        self._channel.sweep()
        self.pausing.begin()
        self._steering.start(self._asked_before)
        end = Answer(ok=False, message="the run ended unexpectedly")
        try:
            yield
            end = ended()
        except ConnectorError as error:
            end = Answer.refused(error)
            raise
        finally:
            self._steering.stop_listening()  # a request that began after this would get no answer
            self.checkpoint_requests.give_up("the run has ended")
            self.restarts.give_up("the run has ended")
            self.pausing.close()
            self._savepoints.close()
            self._note_stopped(end)
            for request in self._stops:
                self._reply(request, end)
            late = Answer(ok=False, message="the run has ended")
            self._steering.close(lambda request: end if request.kind == "stop" else late)

    def _note_stopped(self, end: Answer) -> None:
        """Before the answers: with its answer, the pipeline may be started by the same user."""
        try:
            for request in self._stops[-1:] if end.ok else ():
                self._channel.note_stopped(request)
        except HeadError as error:
            _log.warning("standbys of the pipeline may start it, since they cannot know of the stop: %s", error.message)

    def _asked_before(self, request: Request) -> Answer | None:
        """Handle a request from before this run. A pause is a wish for each later run, until a resume deletes it."""
        if request.kind == "pause" and self._channel.paused() is not None:
            return self.pausing.pause(request)
        return refuse_earlier(request)

    @staticmethod
    def _tell(listener: Listener, request: Request, answer: Answer) -> None:
        if request.kind != ALIVE:
            listener.on_event(answered(request, answer))

    def _reply(self, request: Request, answer: Answer) -> None:
        self._steering.answer(request, answer)

    def _checkpoint(self, request: Request) -> Answer | None:
        if self._control.is_paused():
            return Answer(ok=False, message="the pipeline is paused", facts={"remedy": "run `eos resume` first"})
        return self.checkpoint_requests.ask(request)

    def _stop(self, request: Request) -> None:
        self._stops.append(request)
        self._control.abort_running = self._control.abort_running or request.arguments.get("now") == "true"
        self._control.requested = self._control.requested or f"asked to stop by {request.asked_by}"


@dataclass(slots=True)
class RequestLoop:
    """The driver's end of the request channel: reads requests and stores answers.

    A thread polls for requests during the whole run, also while the run waits.
    """

    channel: Channel
    handlers: Mapping[str, Handler]
    told: Callable[[Request, Answer], None] = lambda _request, _answer: None  # of each answer; from any thread
    _taken: set[str] = field(default_factory=set)
    _answers: dict[str, tuple[Request, Answer]] = field(default_factory=dict)  # that are not stored yet
    _over: threading.Event = field(default_factory=threading.Event)
    _is_away: bool = False
    _watched_until_s: float = 0.0  # for a standby, which needs quick answers
    _thread: threading.Thread | None = None

    def start(self, earlier: Handler = refuse_earlier) -> None:
        """Start the thread. Handle the requests that are stored already with `earlier`."""
        self._look(partial(self._try, earlier))
        thread = threading.Thread(target=copy_context().run, args=(self._listen,), name="eos-steering", daemon=True)
        thread.start()
        self._thread = thread

    def is_alive(self) -> bool:
        """Return False if the thread ended without `stop_listening`. May be called from any thread."""
        return self._thread is None or self._over.is_set() or self._thread.is_alive()

    def answer(self, request: Request, answer: Answer) -> None:
        """Answer a request that a handler has begun. May be called from any thread; does not block."""
        self._answers[request.id] = request, answer
        self.told(request, answer)

    def stop_listening(self) -> None:
        """Stop the thread. Blocks until the current request is handled."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def close(self, late: Callable[[Request], Answer]) -> None:
        """Stop the thread, answer later requests with `late`, and store all answers. Blocks.

        If head does not answer, the answers are not stored.
        """
        self.stop_listening()
        self._look(late)

    def _listen(self) -> None:
        took_s = 0.0
        while not self._over.wait(max(self._interval_s(), _SHARE * took_s)):
            before = time.monotonic()
            self._look(self._handle)
            took_s = time.monotonic() - before

    def _interval_s(self) -> float:
        is_watched = time.monotonic() < self._watched_until_s
        return min(self.channel.blobs.poll_interval_s, _WATCHED_S) if is_watched else self.channel.blobs.poll_interval_s

    def _look(self, handle: Handler) -> None:
        """Poll once. If head does not answer, the requests stay there for the next poll."""
        try:
            for request in self.channel.pending():
                if request.id not in self._taken:
                    self._taken.add(request.id)  # done once, also if its answer cannot be stored at once
                    if (answer := handle(request)) is not None:
                        self.answer(request, answer)
            for request, answer in list(self._answers.values()):
                self.channel.answer(request, answer)
                del self._answers[request.id]
        except HeadError as error:
            if not self._is_away:
                _log.warning("requests cannot be read or answered: %s", error.message)
            self._is_away = True
        else:
            self._is_away = False

    def _handle(self, request: Request) -> Answer | None:
        if request.kind == ALIVE:
            self._watched_until_s = time.monotonic() + _WATCH_S
        else:
            _log.info("request=%s kind=%s by=%s", request.id, request.kind, request.asked_by)
        handler = self.handlers.get(request.kind)
        if handler is None:
            return Answer(ok=False, message=f"the version that runs the pipeline cannot do this: {request.kind}")
        return self._try(handler, request)

    @staticmethod
    def _try(handler: Handler, request: Request) -> Answer | None:
        try:
            return handler(request)
        except ConnectorError as error:
            return Answer.refused(error)
