"""Requests for a restart: the query ends after its checkpoint, and the same process starts a new one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from spark_jobs.run.control import StopControl
from twophase.head_value import HeadValue
from twophase.requests import Answer, Request


@dataclass(slots=True)
class RestartRequests:
    """The requests for a restart to one run. Used by the request loop and by the thread of the run."""

    control: StopControl
    reply: Callable[[Request, Answer], None]  # never blocks
    _asked: list[Request] = field(default_factory=list)
    _begun: list[Request] = field(default_factory=list)  # whose query has ended

    def ask(self, request: Request) -> Answer | None:
        """Handle a request. `done` answers it, when the next query runs."""
        if self.control.is_stopping():
            return Answer(ok=False, message="the run is stopping")
        self._asked.append(request)
        self.control.restart_requested = True
        return None

    def begin(self) -> bool:
        """Return whether the query that has just ended gets a successor, and forget the wish."""
        if not self.control.restart_requested or self.control.is_stopping():
            return False
        self.control.restart_requested = False  # first: a later request counts for the next query
        while self._asked:
            self._begun.append(self._asked.pop())
        return True

    def done(self, head: HeadValue) -> None:
        """Answer the requests whose query has a running successor."""
        while self._begun:
            facts = {"epoch": head.epoch, "completed": head.completed, "committed": head.committed}
            self.reply(self._begun.pop(), Answer(ok=True, message=f"restarted, as epoch {head.epoch}", facts=facts))

    def give_up(self, why: str) -> None:
        """Answer all open requests with a failure."""
        for request in (*self._asked, *self._begun):
            self.reply(request, Answer(ok=False, message=f"{why} before a new query ran"))
        self._asked.clear()
        self._begun.clear()
