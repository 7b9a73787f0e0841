"""Requests to a running pipeline, with their answers."""

from __future__ import annotations

import getpass
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from rich.console import Console

from connectors.registry import open_requests
from connectors.spec import Spec
from eos.errors import ConnectorError
from spark_jobs.observe.run_lock import running
from twophase.requests import Answer, Channel, Request

_POLL_S: Final = 0.1


class NotRunningError(ConnectorError):
    """The pipeline does not run, or its process does not answer."""


class RefusedError(ConnectorError):
    """The running pipeline refused the request."""


def ask_and_wait(spec: Spec, kind: str, arguments: Mapping[str, str], timeout_s: float, doing: str) -> Answer:
    """Block until what is asked is done. `doing`: shown meanwhile on a terminal.

    Raises RefusedError where it is not done; NotRunningError where nobody runs the pipeline, its process has ended
    without an answer, or none has come in time: the request is withdrawn then, and what was begun on it may still go
    on; HeadError.
    """
    known = running(spec)
    if known is None and spec.checkpoint.head is None:
        message = f"{spec.pipeline} does not run: no process holds {spec.checkpoint.location}"
        raise NotRunningError(message, remedy="start it with `eos run`; `eos status` shows its history")
    with open_requests(spec) as channel, Console(stderr=True).status(doing):
        request = channel.ask(kind, arguments, asked_by=asker(), patience_s=timeout_s)
        answer = _wait(spec, channel, request, looks=known is not None)
    if answer is None:
        message = f"{spec.pipeline} has not answered within {timeout_s:g} s; the request is withdrawn"
        remedy = "`eos status` shows whether it runs; wait longer with --timeout"
        raise NotRunningError(message, remedy=remedy)
    if not answer.ok:
        raise RefusedError(answer.message, remedy=answer.remedy)
    return answer


def _wait(spec: Spec, channel: Channel, request: Request, *, looks: bool) -> Answer | None:
    """None: out of time. `looks`: whoever runs it is on this machine, so that its end can be seen."""
    try:
        while time.time() < request.expires_at:
            lives = not looks or running(spec) is not None
            answer = channel.answer_of(request)  # after the look: it answers before it ends
            if answer is not None:
                return answer
            if not lives:
                message = f"the process that ran {spec.pipeline} ended without an answer"
                raise NotRunningError(message, remedy="`eos status` shows what is decided; start the pipeline again")
            time.sleep(_POLL_S)
    except BaseException:
        channel.withdraw(request)
        raise
    return channel.withdraw(request)


def asker() -> str:
    """Return the user and host of this command, for the history."""
    name = "a user without a name"
    with suppress(KeyError, OSError):  # a user without a name
        name = getpass.getuser()
    return f"{name} at {socket.gethostname()}"
