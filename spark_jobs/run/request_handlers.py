"""What others ask of a run: to stop, a checkpoint, a savepoint. Each is answered, however the run ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from connectors.api.contracts import Source
from connectors.spec import Spec
from eos.errors import ConnectorError
from spark_jobs.observe.history.model import answered
from spark_jobs.observe.report import Listener
from spark_jobs.run.checkpoint_requests import OnDemand
from spark_jobs.run.control import StopControl
from spark_jobs.run.request_loop import Steering
from spark_jobs.savepoints.on_request import Savepoints
from twophase.requests import Answer, Channel, Request


class Asked:
    """Of one run, over all its queries."""

    def __init__(
        self, spec: Spec, sources: Sequence[Source], control: StopControl, channel: Channel, listener: Listener
    ) -> None:
        self._control = control
        self._channel = channel
        self._savepoints = Savepoints(spec, self._reply)
        self._stops: list[Request] = []  # answered when the run has ended
        self.on_demand = OnDemand(sources, self._reply)
        handlers = {"stop": self._stop, "checkpoint": self.on_demand.ask, "savepoint": self._savepoints.begin}
        self._steering = Steering(
            channel, handlers, lambda request, answer: listener.happened(answered(request, answer))
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
            self.on_demand.give_up("the run has ended")
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
