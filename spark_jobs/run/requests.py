"""What others ask of a run: to stop, a checkpoint, a savepoint. Each is answered, however the run ends."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Final

from connectors.api.contracts import Source
from connectors.spec import Spec
from eos.errors import ConnectorError, HeadError
from spark_jobs.observe.history.model import answered
from spark_jobs.observe.report import Listener
from spark_jobs.run.checkpoint_requests import CheckpointRequests
from spark_jobs.run.control import StopControl
from spark_jobs.savepoints.take import Savepoints
from twophase.requests import Answer, Channel, Request

_log = logging.getLogger("eos.runner")

_SHARE: Final = 20
"""Looking for requests takes at most this part of the time, where a look is slow."""

Handler = Callable[[Request], Answer | None]
"""Does what is asked, or begins it and returns None: then it answers through the channel later. May block: others wait
meanwhile. What it raises of ConnectorError becomes the answer."""


class RunRequests:
    """Of one run, over all its queries."""

    def __init__(
        self, spec: Spec, sources: Sequence[Source], control: StopControl, channel: Channel, listener: Listener
    ) -> None:
        self._control = control
        self._channel = channel
        self._savepoints = Savepoints(spec, self._reply)
        self._stops: list[Request] = []  # answered when the run has ended
        self.checkpoint_requests = CheckpointRequests(sources, self._reply)
        handlers = {"stop": self._stop, "checkpoint": self.checkpoint_requests.ask, "savepoint": self._savepoints.begin}
        self._steering = RequestLoop(
            channel, handlers, lambda request, answer: listener.on_event(answered(request, answer))
        )

    def is_heard(self) -> bool:
        """Whether the thread that hears requests lives. May be called from any thread."""
        return self._steering.is_alive()

    @contextmanager
    def heard(self, ended: Callable[[], Answer]) -> Iterator[None]:
        """Around the run, whose end is the answer to those who asked it to stop: what it raises, or `ended`."""
        self._channel.sweep()
        self._steering.start()
        end = Answer(ok=False, message="the run ended unexpectedly")
        try:
            yield
            end = ended()
        except ConnectorError as error:
            end = Answer.refused(error)
            raise
        finally:
            self._steering.stop_listening()  # what is begun after this would be answered by nobody
            self.checkpoint_requests.give_up("the run has ended")
            self._savepoints.close()
            for request in self._stops:
                self._reply(request, end)
            late = Answer(ok=False, message="the run has ended")
            self._steering.close(lambda request: end if request.kind == "stop" else late)

    def _reply(self, request: Request, answer: Answer) -> None:
        self._steering.answer(request, answer)

    def _stop(self, request: Request) -> None:
        self._stops.append(request)
        self._control.abort_running = self._control.abort_running or request.arguments.get("now") == "true"
        self._control.requested = self._control.requested or f"asked to stop by {request.asked_by}"


@dataclass(slots=True)
class RequestLoop:
    """The driver's end of the request channel: hears what others ask, and answers.

    A thread looks for requests for as long as a run lives, whatever the run is waiting for.
    """

    channel: Channel
    handlers: Mapping[str, Handler]
    told: Callable[[Request, Answer], None] = lambda _request, _answer: None  # of each answer; from any thread
    _taken: set[str] = field(default_factory=set)
    _answers: dict[str, tuple[Request, Answer]] = field(default_factory=dict)  # that are not stored yet
    _over: threading.Event = field(default_factory=threading.Event)
    _is_away: bool = False
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to listen. What was asked before that was asked of an earlier run, which has ended: it is told so."""
        self._look(_asked_before)
        thread = threading.Thread(target=copy_context().run, args=(self._listen,), name="eos-steering", daemon=True)
        thread.start()
        self._thread = thread

    def is_alive(self) -> bool:
        """Whether it listens, or has not begun to, or is done with that. May be called from any thread."""
        return self._thread is None or self._over.is_set() or self._thread.is_alive()

    def answer(self, request: Request, answer: Answer) -> None:
        """What became of a request that a handler has begun. May be called from any thread; does not block."""
        self._answers[request.id] = request, answer
        self.told(request, answer)

    def stop_listening(self) -> None:
        """Blocks until the request under way is done: nothing more is begun."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def close(self, late: Callable[[Request], Answer]) -> None:
        """Stop listening, answer what has come since by `late`, and block until all that is stored.

        Where head cannot be reached it is not.
        """
        self.stop_listening()
        self._look(late)

    def _listen(self) -> None:
        took_s = 0.0
        while not self._over.wait(max(self.channel.blobs.poll_interval_s, _SHARE * took_s)):
            before = time.monotonic()
            self._look(self._handle)
            took_s = time.monotonic() - before

    def _look(self, handle: Handler) -> None:
        """Where head is away, so are its requests: they are heard when it is back."""
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
        _log.info("request=%s kind=%s by=%s", request.id, request.kind, request.asked_by)
        handler = self.handlers.get(request.kind)
        if handler is None:
            return Answer(ok=False, message=f"the version that runs the pipeline cannot do this: {request.kind}")
        try:
            return handler(request)
        except ConnectorError as error:
            return Answer.refused(error)


def _asked_before(_request: Request) -> Answer:
    message = "the run that this was asked of has ended, and another one has begun: ask again"
    return Answer(ok=False, message=message)
